/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a proof, from verify.csv, verify.json and jitter.csv. See plots.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/table.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "plots/plots_internal.h"

enum {
	PROPERTIES_MAX = 32,
	POINTS_MAX = 60, /* rows of a property before a strip of quantiles stands for them */
	COLOURED_MAX = 6,
	DRAWN_PATHS_MAX = 200,
};

static const double edge = 1.3; /* where what misses by more is drawn, in shares of the allowance */
static const double thickness = 0.5; /* of a lane that points fill */

/* The rows of one property. */
struct lane {
	char *unit;
	double *shares; /* deviation over what is allowed, of the rows that hold */
	size_t n_held;
	size_t n_missed;
	double largest; /* the deviation that is farthest in shares, and what it was allowed */
	double largest_share;
	double largest_allowed;
	bool has_none; /* nothing came, in a row */
};

struct lanes {
	struct lh_plot_names names;
	struct lane lanes[PROPERTIES_MAX];
	FILE *data;
};

static void lanes_done(struct lanes *lanes)
{
	lh_plot_names_done(&lanes->names);
	for (size_t i = 0; i < PROPERTIES_MAX; i++) {
		free(lanes->lanes[i].unit);
		free(lanes->lanes[i].shares);
	}
}

static double share_of(double deviation, double allowed)
{
	if (isnan(deviation))
		return -edge;
	if (allowed > 0)
		return fmax(-edge, fmin(edge, deviation / allowed));
	return deviation > 0 ? edge : deviation < 0 ? -edge : 0;
}

static void put_row(FILE *data, const char *kind, double lane, const double values[5])
{
	char buf[400];

	fprintf(data, "%s,%s", kind, lh_number_format(lane, 3, buf, sizeof(buf)));
	for (int i = 0; i < 5; i++)
		fprintf(data, ",%s", lh_number_format(values[i], 5, buf, sizeof(buf)));
	fputc('\n', data);
}

/* Spreads row number i over the height of its lane, the same way each time. */
static double height_in_lane(size_t lane, size_t i)
{
	double golden = 0.5 + 0.6180339887 * (double)i;

	return (double)lane + thickness * (golden - floor(golden) - 0.5);
}

static int add_held(struct lane *lane, double share, struct lh_error *err)
{
	double *grown = reallocarray(lane->shares, lane->n_held + 1, sizeof(*grown));

	if (!grown)
		return lh_fail(err, LH_ESYS, ENOMEM, "draw the proof");
	lane->shares = grown;
	lane->shares[lane->n_held++] = share;
	return 0;
}

/* Takes the current row of verify.csv; misses are written at once, each is drawn. */
static int add_row(const struct lh_csv *csv, const int *columns, struct lanes *lanes,
		   struct lh_error *err)
{
	enum { PROPERTY, UNIT, OK, TARGET, ACHIEVED, TOLERANCE, CHANCE, N };
	double v[N], deviation, allowed, share;
	int k = lh_plot_names_add(&lanes->names, csv->cells[columns[PROPERTY]]);
	struct lane *lane;

	if (k < 0)
		return lh_fail(err, LH_ESYS, ENOMEM, "draw the proof");
	if (k >= PROPERTIES_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%s: more than %d properties", csv->path,
			       PROPERTIES_MAX);
	for (int c = TARGET; c < N; c++) {
		int r = lh_csv_real(csv, columns[c], &v[c], err);

		if (r < 0)
			return r;
	}
	lane = &lanes->lanes[k];
	if (!lane->unit && !(lane->unit = strdup(csv->cells[columns[UNIT]])))
		return lh_fail(err, LH_ESYS, ENOMEM, "draw the proof");
	deviation = v[ACHIEVED] - v[TARGET];
	allowed = v[TOLERANCE] + v[CHANCE];
	share = share_of(deviation, allowed);
	lane->has_none |= isnan(deviation);
	if (!isnan(deviation) && fabs(share) >= fabs(lane->largest_share)) {
		lane->largest = deviation;
		lane->largest_share = share;
		lane->largest_allowed = allowed;
	}
	if (strcmp(csv->cells[columns[OK]], "yes") == 0)
		return add_held(lane, share, err);
	put_row(lanes->data, "miss", height_in_lane((size_t)k, lane->n_missed++),
		(double[5]){share, NAN, NAN, NAN, NAN});
	return 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double quantile(const struct lane *lane, double u)
{
	return lane->shares[(size_t)(u * (double)(lane->n_held - 1) + 0.5)];
}

/* What is written beside a lane: how many, and the largest deviation with its unit. */
static void put_note(FILE *head, size_t i, const struct lane *lane)
{
	size_t n = lane->n_held + lane->n_missed;
	lh_cleanup_free char *missed =
		lane->n_missed ? lh_strf(" (%zu missed)", lane->n_missed) : strdup("");
	lh_cleanup_free char *note =
		lane->has_none ? lh_strf("n %zu%s: nothing came", n, missed ? missed : "")
			       : lh_strf("n %zu%s: %+.3g of ±%.3g%s%s", n, missed ? missed : "",
					 lane->largest, lane->largest_allowed,
					 *lane->unit ? " " : "", lane->unit);
	lh_cleanup_free char *name = lh_strf("note_%zu", i + 1);

	if (!name)
		return;
	lh_plot_put_text(head, name, note ? note : "");
	fprintf(head, "n_missed_%zu = %zu\n", i + 1, lane->n_missed);
}

static void put_lane(FILE *data, size_t i, struct lane *lane)
{
	if (lane->n_held)
		qsort(lane->shares, lane->n_held, sizeof(*lane->shares), compare);
	if (lane->n_held <= POINTS_MAX)
		for (size_t k = 0; k < lane->n_held; k++)
			put_row(data, "point", height_in_lane(i, k),
				(double[5]){lane->shares[k], NAN, NAN, NAN, NAN});
	else
		put_row(data, "strip", (double)i,
			(double[5]){quantile(lane, 0.5), quantile(lane, 0), quantile(lane, 0.25),
				    quantile(lane, 0.75), quantile(lane, 1)});
}

static int prepare_lanes(const struct lh_plot_run *run, struct lanes *lanes, struct lh_error *err)
{
	static const char *const names[] = {"property", "unit",	     "ok",    "target",
					    "achieved", "tolerance", "chance"};
	lh_cleanup_csv struct lh_csv csv = {0};
	int columns[7], r = lh_plot_csv_open(run, "verify.csv", &csv, err);

	if (r <= 0)
		return r;
	fputs("kind,lane,share,lowest,quarter,three_quarters,highest\n", lanes->data);
	r = lh_csv_find_all(&csv, names, 7, columns, err);
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0)
		r = add_row(&csv, columns, lanes, err);
	return r < 0 ? r : lanes->names.n > 0;
}

static int prepare_verify(const struct lh_plot_run *run, FILE *head, FILE *data,
			  struct lh_error *err)
{
	struct lanes lanes = {.data = data};
	int r = prepare_lanes(run, &lanes, err);
	bool has_strips = false;

	for (size_t i = 0; r > 0 && i < lanes.names.n; i++) {
		put_note(head, i, &lanes.lanes[i]);
		put_lane(data, i, &lanes.lanes[i]);
		has_strips |= lanes.lanes[i].n_held > POINTS_MAX;
	}
	if (r > 0)
		lh_plot_names_put(head, "names", &lanes.names);
	if (r > 0)
		fprintf(head, "n_lanes = %zu\nhas_strips = %d\n", lanes.names.n, has_strips);
	lanes_done(&lanes);
	return r;
}

/* Paths with jitter; the rows of each stand together in jitter.csv. */
struct jitter_paths {
	struct lh_plot_names names; /* of the first, which have colours */
	char *last;
	size_t n;
	double least_packets;
};

/* Makes the current row's path the last one. */
static int take_path(struct jitter_paths *paths, const char *from, const char *to,
		     struct lh_error *err)
{
	char *name = lh_strf("%s-to-%s", from, to);
	bool is_new = name && (!paths->last || strcmp(name, paths->last) != 0);

	free(paths->last);
	paths->last = name;
	paths->n += is_new;
	if (!name ||
	    (is_new && paths->n <= COLOURED_MAX && lh_plot_names_add(&paths->names, name) < 0))
		return lh_fail(err, LH_ESYS, ENOMEM, "draw the jitter");
	return 0;
}

/* Writes the current row's quantile where its path is drawn. */
static int put_quantile(const struct lh_csv *csv, FILE *data, struct jitter_paths *paths,
			struct lh_error *err)
{
	enum { FROM, TO, ASKED, ACHIEVED, MEAN, SD, PACKETS, N };
	static const char *const names[N] = {"from_node",   "to_node",	     "asked_ms",
					     "achieved_ms", "asked_mean_ms", "asked_sd_ms",
					     "packets"};
	double v[N];
	int columns[N], r = lh_csv_find_all(csv, names, N, columns, err);
	char buf[400];

	for (int c = ASKED; c < N && r == 0; c++)
		r = lh_csv_real(csv, columns[c], &v[c], err);
	if (r == 0)
		r = take_path(paths, csv->cells[columns[FROM]], csv->cells[columns[TO]], err);
	if (r < 0 || paths->n > DRAWN_PATHS_MAX || !(v[SD] > 0))
		return r;
	paths->least_packets = fmin(paths->least_packets, v[PACKETS]);
	fprintf(data, "%zu,%s", paths->n - 1,
		lh_number_format((v[ASKED] - v[MEAN]) / v[SD], 5, buf, sizeof(buf)));
	fprintf(data, ",%s\n",
		lh_number_format((v[ACHIEVED] - v[MEAN]) / v[SD], 5, buf, sizeof(buf)));
	return 0;
}

static int prepare_jitter(const struct lh_plot_run *run, FILE *head, FILE *data,
			  struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	struct jitter_paths paths = {.least_packets = INFINITY};
	int r = lh_plot_csv_open(run, "jitter.csv", &csv, err);

	if (r <= 0)
		return r;
	fputs("path,asked,achieved\n", data);
	r = 0;
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0)
		r = put_quantile(&csv, data, &paths, err);
	if (r == 0 && paths.n) {
		fprintf(head, "n_paths = %zu\nn_drawn = %zu\n", paths.n,
			paths.n < DRAWN_PATHS_MAX ? paths.n : DRAWN_PATHS_MAX);
		lh_plot_put_real(head, "least_packets", paths.least_packets);
		lh_plot_names_put(head, "paths", &paths.names);
		r = 1;
	}
	lh_plot_names_done(&paths.names);
	free(paths.last);
	return r;
}

static int read_proof(struct lh_plot_run *run, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run->dir, "verify.json");
	lh_cleanup_json json_t *doc = NULL;
	int r = path ? lh_json_read(path, &doc, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "read a proof");
	const char *network;

	if (r < 0)
		return r;
	network = json_string_value(json_object_get(doc, "network"));
	if (!network)
		return lh_fail(err, LH_EINPUT, 0, "%s: no network is named", path);
	run->is_valid = json_is_true(json_object_get(doc, "ok"));
	run->about = lh_strf("%s: %lld of %lld directed paths, %zu rows, %s", network,
			     (long long)json_integer_value(json_object_get(doc, "paths")),
			     (long long)json_integer_value(json_object_get(doc, "all_paths")),
			     json_array_size(json_object_get(doc, "rows")),
			     run->is_valid ? "all as asked for" : "NOT as asked for");
	return run->about ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
}

int lh_plots_make_proof(const char *proof_dir, const char *template_dir, struct lh_error *err)
{
	static const struct lh_plot_figure figures[] = {
		{"verify", "What was asked for and what came", prepare_verify},
		{"jitter", "Jitter: delays measured against the distribution asked for",
		 prepare_jitter},
	};
	struct lh_plot_run run = {.dir = proof_dir};
	int r = read_proof(&run, err);

	if (r == 0)
		r = lh_plot_draw(&run, figures, sizeof(figures) / sizeof(figures[0]), template_dir,
				 err);
	free(run.about);
	return r;
}
