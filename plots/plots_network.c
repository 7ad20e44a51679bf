/* SPDX-License-Identifier: Apache-2.0 */
/* Data of the figures drawn from traffic.csv and links.csv. See plots_internal.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/table.h"
#include "collect/traffic.h"
#include "core/cleanup.h"
#include "plots/links.h"
#include "plots/plots_internal.h"

enum {
	BINS_MAX = 900, /* about one per pixel */
	SITES_MAX = LH_MATRIX_SITES_MAX,
	COLUMNS_FROM = 7, /* sites from which on the panels stand in two columns */
	SECONDS_MAX = 10000000,
};

/* Bytes by time and sending site. */
struct flow {
	struct lh_plot_names sites;
	size_t n_bins;
	int64_t bin_s;
	double *wire; /* [site x BINS_MAX + bin], SITES_MAX sites */
	double *payload;
	bool has_payload;
};

static int add_flow(const struct lh_csv *csv, struct flow *flow, struct lh_error *err)
{
	enum { SECOND, FROM, TO, PAYLOAD, CONTROL, WIRE, N };
	static const char *const names[N] = {"second",	      "from",	       "to",
					     "payload_bytes", "control_bytes", "wire_bytes"};
	int columns[N], site, r = lh_csv_find_all(csv, names, N, columns, err);
	int64_t second;
	double payload, wire;
	size_t bin;

	if (r == 0)
		r = lh_csv_int(csv, columns[SECOND], &second, err);
	if (r == 0)
		r = lh_csv_real(csv, columns[PAYLOAD], &payload, err);
	if (r == 0)
		r = lh_csv_real(csv, columns[WIRE], &wire, err);
	if (r < 0)
		return r;
	/* inside nodes so much passes that the rest would be a flat line */
	if (strcmp(csv->cells[columns[TO]], LH_TRAFFIC_INSIDE_NODE) == 0)
		return 0;
	site = lh_plot_names_add(&flow->sites, csv->cells[columns[FROM]]);
	if (site < 0)
		return lh_fail(err, LH_ESYS, ENOMEM, "draw the traffic");
	if (second < 0 || (bin = (size_t)(second / flow->bin_s)) >= flow->n_bins ||
	    site >= SITES_MAX)
		return 0;
	flow->payload[(size_t)site * BINS_MAX + bin] += isnan(payload) ? 0 : payload;
	flow->has_payload |= !isnan(payload);
	flow->wire[(size_t)site * BINS_MAX + bin] += isnan(wire) ? 0 : wire;
	return 0;
}

/* Writes the bins as Mbit/s; returns the highest. */
static double put_flow(FILE *data, const struct flow *flow, size_t n_sites)
{
	double scale = 8e-6 / (double)flow->bin_s, top = 0;
	char buf[400];

	fputs("second", data);
	for (size_t s = 0; s < n_sites; s++)
		fprintf(data, ",%s wire Mbit/s,%s payload Mbit/s", flow->sites.items[s],
			flow->sites.items[s]);
	fputc('\n', data);
	for (size_t bin = 0; bin <= flow->n_bins; bin++) {
		fprintf(data, "%lld", (long long)((int64_t)bin * flow->bin_s));
		for (size_t s = 0; s < n_sites; s++) {
			bool is_end = bin == flow->n_bins;
			double wire = is_end ? 0 : flow->wire[s * BINS_MAX + bin] * scale;
			double payload = is_end ? 0 : flow->payload[s * BINS_MAX + bin] * scale;

			top = wire > top ? wire : top;
			top = payload > top ? payload : top;
			fprintf(data, ",%s", lh_number_format(wire, 3, buf, sizeof(buf)));
			fprintf(data, ",%s",
				flow->has_payload ? lh_number_format(payload, 3, buf, sizeof(buf))
						  : "");
		}
		fputc('\n', data);
	}
	return top;
}

/* The least round number that is not below value: where an axis ends. */
static double round_up(double value)
{
	double power = pow(10, floor(log10(value)));
	static const double steps[] = {1, 1.5, 2, 3, 4, 5, 6, 8, 10};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (value <= steps[i] * power)
			return steps[i] * power;
	return 10 * power;
}

static int prepare_flow(const struct lh_plot_run *run, struct flow *flow, FILE *head, FILE *data,
			struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	size_t n_sites;
	double top;
	int r = lh_plot_csv_open(run, "traffic.csv", &csv, err);

	if (r <= 0 || !(run->wall_s > 0) || run->wall_s > SECONDS_MAX)
		return r < 0 ? r : 0;
	flow->bin_s = (int64_t)ceil(run->wall_s / BINS_MAX);
	flow->n_bins = (size_t)ceil(run->wall_s / (double)flow->bin_s);
	while ((r = lh_csv_next(&csv, err)) > 0)
		if ((r = add_flow(&csv, flow, err)) < 0)
			break;
	if (r < 0 || !flow->sites.n)
		return r;
	n_sites = flow->sites.n < SITES_MAX ? flow->sites.n : SITES_MAX;
	top = put_flow(data, flow, n_sites);
	if (!(top > 0))
		return 0;
	lh_plot_names_put(head, "sites", &flow->sites);
	fprintf(head, "n_sites = %zu\nn_columns = %d\nlast_second = %lld\n", n_sites,
		n_sites >= COLUMNS_FROM ? 2 : 1, (long long)((int64_t)flow->n_bins * flow->bin_s));
	fprintf(head, "has_payload = %d\n", flow->has_payload);
	lh_plot_put_real(head, "top", round_up(top));
	return 1;
}

int lh_plot_traffic_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			    struct lh_error *err)
{
	lh_cleanup_free double *bytes = calloc((size_t)2 * SITES_MAX * BINS_MAX, sizeof(*bytes));
	struct flow flow = {.wire = bytes, .payload = bytes + SITES_MAX * BINS_MAX};
	int r;

	if (!bytes)
		return lh_fail(err, LH_ESYS, ENOMEM, "draw the traffic");
	r = prepare_flow(run, &flow, head, data, err);
	lh_plot_names_done(&flow.sites);
	return r;
}

static void put_matrix(FILE *data, const struct lh_link_matrix *matrix)
{
	size_t n_sites = matrix->sites.n;

	fputs("kind,from,to,from_index,to_index,target,achieved,ok,target_text,achieved_text\n",
	      data);
	for (size_t i = 0; i < (size_t)LH_N_MATRIX_KINDS * n_sites * n_sites; i++) {
		size_t kind = i / (n_sites * n_sites);
		size_t from = i / n_sites % n_sites, to = i % n_sites;
		const struct lh_link_cell *link = lh_link_matrix_get(matrix, (int)kind, from, to);
		char a[400], b[400], c[400];

		if (!link)
			continue;
		fprintf(data, "%s,%s,%s,%zu,%zu,%s", lh_matrix_kind_names[kind],
			matrix->sites.items[from], matrix->sites.items[to], from, to,
			lh_number_format(link->target, 4, a, sizeof(a)));
		fprintf(data, ",%s,%d,%s,%s\n", lh_number_format(link->achieved, 4, a, sizeof(a)),
			!link->is_missed, lh_matrix_format(link->target, b, sizeof(b)),
			lh_matrix_format(link->achieved, c, sizeof(c)));
	}
}

int lh_plot_links_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			  struct lh_error *err)
{
	struct lh_link_matrix matrix = {0};
	int r = lh_link_matrix_read(run->dir, &matrix, err);

	if (r <= 0)
		return r;
	put_matrix(data, &matrix);
	lh_plot_names_put(head, "sites", &matrix.sites);
	fprintf(head, "n_sites = %zu\n", matrix.sites.n);
	lh_link_matrix_done(&matrix);
	return 1;
}
