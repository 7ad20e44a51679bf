/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of faults.csv. See faults.h. */
#include "collect/faults.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/csv.h"
#include "core/cleanup.h"
#include "core/file.h"

enum { T_S, NODE, EVENT, N_COLUMNS };

static const char *const column_names[N_COLUMNS] = {"t_s", "node", "event"};

static const double NS_PER_S = 1e9, T_MAX_S = 1e9;

/* The node's last span; NULL: it has none. */
static struct lh_away_span *last_of(const struct lh_run_faults *faults, size_t node)
{
	for (size_t i = faults->n_spans; i-- > 0;)
		if (faults->spans[i].node == node)
			return &faults->spans[i];
	return NULL;
}

static int add_span(struct lh_run_faults *faults, size_t node, int64_t from_ns,
		    struct lh_error *err)
{
	if (faults->n_spans == faults->n_spans_room) {
		size_t room = faults->n_spans ? 2 * faults->n_spans : 16;
		struct lh_away_span *grown = reallocarray(faults->spans, room, sizeof(*grown));

		if (!grown)
			return lh_fail(err, LH_ESYS, ENOMEM, "read faults.csv");
		faults->spans = grown;
		faults->n_spans_room = room;
	}
	faults->spans[faults->n_spans++] = (struct lh_away_span){node, from_ns, INT64_MAX};
	return 0;
}

static int bad_cell(const struct lh_csv *csv, int column, const char *expected,
		    struct lh_error *err)
{
	return lh_fail(err, LH_EINPUT, 0, "%s:%zu: %s '%.60s'; expected %s", csv->path, csv->line,
		       csv->header[column], csv->cells[column], expected);
}

static int take_row(const struct lh_csv *csv, const int *columns, const struct lh_scenario *sc,
		    struct lh_run_faults *faults, struct lh_error *err)
{
	const char *event = csv->cells[columns[EVENT]];
	bool is_begin = strcmp(event, "preempt") == 0 || strcmp(event, "absent") == 0;
	bool is_end = strcmp(event, "return") == 0 || strcmp(event, "join") == 0;
	struct lh_away_span *last;
	size_t node = 0;
	double t_s;
	int r = lh_csv_real(csv, columns[T_S], &t_s, err);

	if (r < 0)
		return r;
	if (!(t_s >= 0 && t_s <= T_MAX_S))
		return bad_cell(csv, columns[T_S], "seconds from the begin", err);
	while (node < sc->n_nodes && strcmp(sc->nodes[node].name, csv->cells[columns[NODE]]) != 0)
		node++;
	if (node == sc->n_nodes)
		return bad_cell(csv, columns[NODE], "a node of the run", err);
	last = last_of(faults, node);
	if ((is_begin && last && last->to_ns == INT64_MAX) ||
	    (is_end && (!last || last->to_ns != INT64_MAX)))
		return bad_cell(csv, columns[EVENT], "nodes to go and come in turn", err);
	faults->n_preemptions += strcmp(event, "preempt") == 0;
	faults->n_returns += strcmp(event, "return") == 0;
	faults->n_joins += strcmp(event, "join") == 0;
	if (is_end)
		last->to_ns = llround(t_s * NS_PER_S);
	return is_begin ? add_span(faults, node,
				   strcmp(event, "absent") == 0 ? 0 : llround(t_s * NS_PER_S), err)
			: 0;
}

int lh_run_faults_read(const char *run_dir, const struct lh_scenario *sc, struct lh_run_faults *ret,
		       struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "faults.csv");
	lh_cleanup_csv struct lh_csv csv = {0};
	struct lh_run_faults faults = {.scenario = sc};
	int columns[N_COLUMNS];
	int r;

	*ret = faults;
	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", run_dir);
	if (!lh_path_exists(path))
		return 0;
	r = lh_csv_open(path, &csv, err);
	if (r == 0)
		r = lh_csv_find_all(&csv, column_names, N_COLUMNS, columns, err);
	csv.is_growing = true;
	while (r == 0 && (r = lh_csv_next(&csv, err)) > 0)
		r = take_row(&csv, columns, sc, &faults, err);
	if (r < 0)
		lh_run_faults_done(&faults);
	*ret = faults;
	return r;
}

void lh_run_faults_done(struct lh_run_faults *faults)
{
	free(faults->spans);
	memset(faults, 0, sizeof(*faults));
}

bool lh_run_faults_has(const struct lh_run_faults *faults, size_t node)
{
	return last_of(faults, node) != NULL;
}

bool lh_run_faults_is_away_at_end(const struct lh_run_faults *faults, size_t node)
{
	const struct lh_away_span *last = last_of(faults, node);

	return last && last->to_ns == INT64_MAX;
}

int64_t lh_run_faults_away_ns(const struct lh_run_faults *faults, size_t node, int64_t from_ns,
			      int64_t to_ns)
{
	int64_t sum = 0;

	for (size_t i = 0; i < faults->n_spans; i++) {
		const struct lh_away_span *s = &faults->spans[i];
		int64_t begin = s->from_ns > from_ns ? s->from_ns : from_ns;
		int64_t end = s->to_ns < to_ns ? s->to_ns : to_ns;

		if (s->node == node && end > begin)
			sum += end - begin;
	}
	return sum;
}
