/* SPDX-License-Identifier: Apache-2.0 */
/* Data of the figure of captured flows. See plots_internal.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/table.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "plots/plots_internal.h"

enum { FLOWS_SHOWN_MAX = 6, KEY_COLUMNS = 4 };

/* What names a flow in both tables. */
static const char *const key_names[KEY_COLUMNS] = {"capture", "connection", "from", "from_port"};

/* A flow that is shown, and the interval that was written last. */
struct shown {
	char *key[KEY_COLUMNS];
	char *ends; /* addresses and ports: the same at both links */
	char *label;
	double payload_bytes;
	int64_t last_ns;
	bool has_last;
	FILE *rows; /* of the figure's data: one flow after the other */
	char *text;
	size_t size;
};

struct choice {
	struct shown flows[FLOWS_SHOWN_MAX]; /* the most payload first */
	size_t n;
	double n_left_out; /* with payload */
};

static void shown_done(struct shown *s)
{
	for (int i = 0; i < KEY_COLUMNS; i++)
		free(s->key[i]);
	free(s->ends);
	free(s->label);
	if (s->rows)
		fclose(s->rows);
	free(s->text);
	memset(s, 0, sizeof(*s));
}

/* The columns of flows.csv that matter here, behind the key. */
enum { TO, TO_PORT, FROM_NODE, TO_NODE, SIDE, PAYLOAD, N_COLUMNS };

static const char *const flow_names[N_COLUMNS] = {
	"to", "to_port", "from_node", "to_node", "side", "payload_bytes",
};

static int fill_shown(const struct lh_csv *csv, const int *key, const int *columns,
		      struct shown *ret, struct lh_error *err)
{
	char *const *c = csv->cells;
	const char *from = *c[columns[FROM_NODE]] ? c[columns[FROM_NODE]] : c[key[2]];
	const char *to = *c[columns[TO_NODE]] ? c[columns[TO_NODE]] : c[columns[TO]];
	bool ok = true;

	for (int i = 0; i < KEY_COLUMNS; i++)
		ok &= (ret->key[i] = strdup(c[key[i]])) != NULL;
	ret->ends =
		lh_strf("%s %s %s %s", c[key[2]], c[key[3]], c[columns[TO]], c[columns[TO_PORT]]);
	ret->label = lh_strf("%s.%s\u2192%s.%s", from, c[key[3]], to, c[columns[TO_PORT]]);
	return ok && ret->ends && ret->label ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "read flows.csv");
}

/* Puts a flow where it belongs by its payload. The same flow at the other end's link gives way
 * to the sender's view. */
static void insert(struct choice *choice, struct shown *flow, bool is_receivers)
{
	size_t at = 0;

	for (size_t i = 0; i < choice->n; i++) {
		if (strcmp(choice->flows[i].ends, flow->ends) != 0)
			continue;
		if (!is_receivers) {
			shown_done(&choice->flows[i]);
			choice->flows[i] = *flow;
		} else {
			shown_done(flow);
		}
		return;
	}
	while (at < choice->n && choice->flows[at].payload_bytes >= flow->payload_bytes)
		at++;
	if (at == FLOWS_SHOWN_MAX) {
		shown_done(flow);
		return;
	}
	if (choice->n == FLOWS_SHOWN_MAX)
		shown_done(&choice->flows[--choice->n]);
	memmove(&choice->flows[at + 1], &choice->flows[at],
		(choice->n - at) * sizeof(choice->flows[0]));
	choice->flows[at] = *flow;
	choice->n++;
}

static int choose(const struct lh_plot_run *run, struct choice *ret, struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	int key[KEY_COLUMNS], columns[N_COLUMNS];
	int r = lh_plot_csv_open(run, "flows.csv", &csv, err);

	if (r <= 0)
		return r;
	r = lh_csv_find_all(&csv, key_names, KEY_COLUMNS, key, err);
	if (r == 0)
		r = lh_csv_find_all(&csv, flow_names, N_COLUMNS, columns, err);
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0) {
		struct shown flow = {.has_last = false};

		r = lh_csv_real(&csv, columns[PAYLOAD], &flow.payload_bytes, err);
		if (r < 0 || !(flow.payload_bytes > 0))
			continue;
		r = fill_shown(&csv, key, columns, &flow, err);
		if (r < 0)
			shown_done(&flow);
		else
			insert(ret, &flow, strcmp(csv.cells[columns[SIDE]], "receiver") == 0);
	}
	return r;
}

static struct shown *find(struct choice *choice, const struct lh_csv *csv, const int *key)
{
	for (size_t i = 0; i < choice->n; i++) {
		int k = 0;

		while (k < KEY_COLUMNS && strcmp(choice->flows[i].key[k], csv->cells[key[k]]) == 0)
			k++;
		if (k == KEY_COLUMNS)
			return &choice->flows[i];
	}
	return NULL;
}

/* Begin and length of the intervals: the first begin, the shortest distance of two. */
struct axis {
	int64_t begin_ns;
	int64_t interval_ns;
};

static int read_axis(const struct lh_plot_run *run, struct axis *ret, struct lh_error *err)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	int64_t before_ns = 0, t_ns;
	int r = lh_plot_csv_open(run, "flow-intervals.csv", &csv, err);
	int column = r > 0 ? lh_csv_find(&csv, "begin_ns") : -1;

	*ret = (struct axis){INT64_MAX, INT64_MAX};
	if (r <= 0)
		return r;
	if (column < 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: no column begin_ns", csv.path);
	while ((r = lh_csv_next(&csv, err)) > 0) {
		r = lh_csv_int(&csv, column, &t_ns, err);
		if (r < 0)
			return r;
		if (ret->begin_ns != INT64_MAX && t_ns > before_ns &&
		    t_ns - before_ns < ret->interval_ns)
			ret->interval_ns = t_ns - before_ns;
		if (t_ns < ret->begin_ns)
			ret->begin_ns = t_ns;
		before_ns = t_ns;
	}
	return r;
}

static void put_row(const struct choice *choice, const struct shown *s, const struct axis *axis,
		    int64_t t_ns, const double values[static 3])
{
	char buf[400];

	fprintf(s->rows, "%td,%s", s - choice->flows,
		lh_number_format((double)(t_ns - axis->begin_ns) / 1e9, 3, buf, sizeof(buf)));
	for (int i = 0; i < 3; i++)
		fprintf(s->rows, ",%s", lh_number_format(values[i], 6, buf, sizeof(buf)));
	fputc('\n', s->rows);
}

/* A flow of which nothing was seen for a while carried nothing: its line goes down to 0. */
static void put_pause(const struct choice *choice, const struct shown *s, const struct axis *axis,
		      int64_t t_ns)
{
	static const double nothing[3] = {0, NAN, 0};

	if (!s->has_last || t_ns - s->last_ns <= axis->interval_ns)
		return;
	put_row(choice, s, axis, s->last_ns + axis->interval_ns, nothing);
	if (t_ns - s->last_ns > 2 * axis->interval_ns)
		put_row(choice, s, axis, t_ns - axis->interval_ns, nothing);
}

static int put_intervals(const struct lh_plot_run *run, struct choice *choice,
			 const struct axis *axis, struct lh_error *err)
{
	static const char *const names[] = {"goodput_bps", "rtt_median_ns",
					    "retransmitted_segments"};
	static const double units[] = {1e6, 1e6, 1};
	lh_cleanup_csv struct lh_csv csv = {0};
	int key[KEY_COLUMNS], r = lh_plot_csv_open(run, "flow-intervals.csv", &csv, err);

	if (r <= 0)
		return r;
	r = lh_csv_find_all(&csv, key_names, KEY_COLUMNS, key, err);
	for (size_t i = 0; i < choice->n; i++) {
		struct shown *s = &choice->flows[i];

		s->rows = open_memstream(&s->text, &s->size);
		if (!s->rows)
			return lh_fail(err, LH_ESYS, errno, "draw flows");
	}
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0) {
		struct shown *s = find(choice, &csv, key);
		double v[3] = {NAN, NAN, NAN};
		int64_t t_ns;

		r = lh_csv_int(&csv, lh_csv_find(&csv, "begin_ns"), &t_ns, err);
		for (int i = 0; i < 3 && r == 0; i++) {
			r = lh_csv_real(&csv, lh_csv_find(&csv, names[i]), &v[i], err);
			v[i] /= units[i];
		}
		if (r < 0 || !s)
			continue;
		put_pause(choice, s, axis, t_ns);
		put_row(choice, s, axis, t_ns, v);
		s->last_ns = t_ns;
		s->has_last = true;
	}
	return r;
}

int lh_plot_flows_prepare(const struct lh_plot_run *run, FILE *head, FILE *data,
			  struct lh_error *err)
{
	struct choice choice = {.n = 0};
	struct lh_plot_names names = {0};
	struct axis axis = {0, INT64_MAX};
	int r = choose(run, &choice, err);

	if (r == 0 && choice.n)
		r = read_axis(run, &axis, err);
	if (r == 0 && choice.n)
		r = put_intervals(run, &choice, &axis, err);
	fputs("flow,time_s,goodput_mbps,rtt_ms,retransmitted\n", data);
	for (size_t i = 0; i < choice.n; i++) {
		struct shown *s = &choice.flows[i];

		if (s->rows && fflush(s->rows) == 0)
			fwrite(s->text, 1, s->size, data);
		if (r == 0 && lh_plot_names_add(&names, s->label) < 0)
			r = lh_fail(err, LH_ESYS, ENOMEM, "draw flows");
		shown_done(s);
	}
	lh_plot_names_put(head, "flows", &names);
	fprintf(head, "n_flows = %zu\n", choice.n);
	lh_plot_put_real(head, "interval_s",
			 choice.n && axis.interval_ns != INT64_MAX ? (double)axis.interval_ns / 1e9
								   : 1);
	lh_plot_names_done(&names);
	return r < 0 ? r : choice.n > 0;
}
