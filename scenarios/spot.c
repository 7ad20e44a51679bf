/* SPDX-License-Identifier: Apache-2.0 */
/* Spot interruptions, drawn or from a table. See churn.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/rng.h"
#include "scenarios/catalog.h"
#include "scenarios/churn.h"
#include "scenarios/lines.h"
#include "scenarios/places.h"
#include "scenarios/trace.h"

enum { FILE_MAX_BYTES = 16 << 20, CELL_BYTES = 640, N_CELLS = 3 };

static const char header[] = "time_s,node,event";
static const double NS_PER_MS = 1e6, NS_PER_S = 1e9;

/* ---- drawn ------------------------------------------------------------------------------- */

/* An exponential time of that mean in whole ms, at least one. */
static int64_t draw_ms(struct lh_rng *rng, int64_t mean_ns)
{
	int64_t ms = llround(-log1p(-lh_rng_uniform(rng)) * (double)mean_ns / NS_PER_MS);

	return ms > 0 ? ms : 1;
}

/* Those that stand, looked through in order of node and time. */
struct standing {
	size_t at;
	size_t n;
};

/* Whether an absence meets one that stands; each one that is asked about is later than the last. */
static bool is_met(const struct lh_absence_drafts *drafts, struct standing *s,
		   const struct lh_absence *a)
{
	for (; s->at < s->n; s->at++) {
		const struct lh_absence *b = &drafts->list[s->at].absence;

		if (b->node > a->node || (b->node == a->node && b->to_ns >= a->from_ns))
			return b->node == a->node && b->from_ns <= a->to_ns;
	}
	return false;
}

static void draw_node(const struct lh_scenario *sc, size_t node, struct lh_absence_drafts *drafts,
		      struct standing *standing)
{
	const struct lh_spot_spec *spot = &sc->spot;
	int64_t end_ms =
		(int64_t)((double)(spot->for_ns < 0 ? LH_SPOT_FOR_NS : spot->for_ns) / NS_PER_MS);
	lh_cleanup_free char *stream = lh_strf("spot %s", sc->nodes[node].name);
	struct lh_rng rng;
	int64_t t_ms = 0;

	if (!stream) {
		drafts->is_short = true;
		return;
	}
	lh_rng_init(&rng, (uint64_t)sc->run.seed, stream);
	for (;;) {
		struct lh_absence_draft draft = {
			.absence = {.node = node,
				    .to_ns = INT64_MAX,
				    .notice_ns = spot->notice_ns > 0 ? spot->notice_ns : 0,
				    .cause = LH_AWAY_BY_SPOT}};

		t_ms += draw_ms(&rng, spot->mean_time_to_preemption_ns);
		if (t_ms >= end_ms || drafts->is_short)
			return;
		draft.absence.from_ns = t_ms * LH_TRACE_STEP_NS;
		if (spot->mean_return_ns >= 0) {
			t_ms += draw_ms(&rng, spot->mean_return_ns);
			draft.absence.to_ns = t_ms * LH_TRACE_STEP_NS;
		}
		if (!is_met(drafts, standing, &draft.absence))
			lh_absence_add(drafts, &draft);
		if (spot->mean_return_ns < 0)
			return;
	}
}

static bool is_interrupted(const struct lh_scenario *sc, size_t node)
{
	const struct lh_spot_spec *spot = &sc->spot;

	for (size_t i = 0; i < spot->n_nodes; i++) {
		const struct lh_place place = {spot->nodes[i], strlen(spot->nodes[i])};

		if (lh_place_has_node(sc, place, node))
			return true;
	}
	return spot->n_nodes == 0;
}

void lh_spot_draw(const struct lh_scenario *sc, struct lh_absence_drafts *drafts, size_t n)
{
	struct standing standing = {.n = n};

	for (size_t i = 0; i < sc->n_nodes; i++)
		if (is_interrupted(sc, i))
			draw_node(sc, i, drafts, &standing);
}

/* ---- tables ------------------------------------------------------------------------------ */

/* A table being read. */
struct reader {
	struct lh_lines lines;
	const struct lh_scenario *sc; /* NULL: only the form is looked at, as with the next */
	struct lh_absence_drafts *drafts;
	int64_t *since_ns; /* by node; -1: it is there */
	int64_t last_ns;
};

/* The cells of a line; false, with a message, where there are not three. */
static bool split(struct reader *r, const char *line, size_t n_line,
		  char ret[static N_CELLS][CELL_BYTES])
{
	const char *end = line + n_line;

	for (int i = 0; i < N_CELLS; i++) {
		size_t n = line > end ? 0 : strcspn(line, ",\n");

		if (line <= end && line + n > end)
			n = (size_t)(end - line);
		if (line > end || n >= CELL_BYTES || (i + 1 == N_CELLS && line + n != end)) {
			lh_lines_say(&r->lines, "has not the three cells time_s,node,event",
				     end - n_line, n_line);
			return false;
		}
		memcpy(ret[i], line, n);
		ret[i][n] = '\0';
		line += n + 1;
	}
	return true;
}

/* The index of the node called name; n_nodes, with a message, where there is none. */
static size_t find_node(struct reader *r, const char *name)
{
	for (size_t i = 0; i < r->sc->n_nodes; i++)
		if (strcmp(r->sc->nodes[i].name, name) == 0)
			return i;
	lh_lines_say(&r->lines, "is no node of the scenario", name, strlen(name));
	return r->sc->n_nodes;
}

static void add(struct reader *r, size_t node, int64_t to_ns)
{
	int64_t notice_ns = r->sc->spot.notice_ns;
	const struct lh_absence_draft draft = {
		.absence = {.node = node,
			    .from_ns = r->since_ns[node],
			    .to_ns = to_ns,
			    .notice_ns = notice_ns > 0 ? notice_ns : 0,
			    .cause = LH_AWAY_BY_SPOT}};

	lh_absence_add(r->drafts, &draft);
	r->since_ns[node] = -1;
}

static void take_row(struct reader *r, int64_t t_ns, const char *name, bool is_back)
{
	size_t node = find_node(r, name);

	if (node == r->sc->n_nodes)
		return;
	if (is_back == (r->since_ns[node] < 0))
		lh_lines_say(&r->lines,
			     is_back ? "returns, and was not away" : "is preempted, and is away",
			     name, strlen(name));
	else if (is_back && t_ns == r->since_ns[node])
		lh_lines_say(&r->lines, "returns when it is preempted", name, strlen(name));
	else if (is_back)
		add(r, node, t_ns);
	else
		r->since_ns[node] = t_ns;
}

static void read_row(struct reader *r, const char *line, size_t n_line)
{
	char cells[N_CELLS][CELL_BYTES];
	double max_s = (double)LH_TRACE_LENGTH_MAX_NS / NS_PER_S;
	bool is_back;
	int64_t t_ns;
	double t_s;
	char *rest;

	if (!split(r, line, n_line, cells))
		return;
	t_s = strtod(cells[0], &rest);
	if (rest == cells[0] || *rest || !(t_s >= 0 && t_s <= max_s)) {
		lh_lines_say(&r->lines, "is no time_s; expected a number from 0 to 864000",
			     cells[0], strlen(cells[0]));
		return;
	}
	t_ns = llround(t_s * NS_PER_S);
	if (t_ns < r->last_ns) {
		lh_lines_say(&r->lines, "comes before the row before it", line, n_line);
		return;
	}
	r->last_ns = t_ns;
	is_back = strcmp(cells[2], "return") == 0;
	if (!is_back && strcmp(cells[2], "preempt") != 0)
		lh_lines_say(&r->lines, "is no event; expected preempt or return", cells[2],
			     strlen(cells[2]));
	else if (r->sc)
		take_row(r, t_ns, cells[1], is_back);
}

static void read_table(struct reader *r)
{
	size_t n_line = 0;
	const char *line = lh_lines_next(&r->lines, &n_line);

	if (!line || n_line != strlen(header) || strncmp(line, header, n_line) != 0) {
		lh_lines_say(&r->lines, "is the header; expected time_s,node,event",
			     line ? line : "", n_line);
		return;
	}
	while ((line = lh_lines_next(&r->lines, &n_line)))
		read_row(r, line, n_line);
}

void lh_spot_read(const struct lh_scenario *sc, struct lh_absence_drafts *drafts,
		  struct lh_diag *diag)
{
	const struct lh_yaml *table = lh_yaml_get(lh_yaml_get(sc->tree, "spot"), "table");
	lh_cleanup_free int64_t *since_ns = calloc(sc->n_nodes, sizeof(*since_ns));
	struct reader r = {.lines = {.at = sc->spot.table,
				     .pos = table->pos,
				     .key_path = "spot.table",
				     .diag = diag},
			   .sc = sc,
			   .drafts = drafts,
			   .since_ns = since_ns};

	if (!since_ns) {
		drafts->is_short = true;
		return;
	}
	for (size_t i = 0; i < sc->n_nodes; i++)
		since_ns[i] = -1;
	read_table(&r);
	for (size_t i = 0; i < sc->n_nodes; i++)
		if (since_ns[i] >= 0)
			add(&r, i, INT64_MAX);
}

void lh_spot_inline(const struct lh_catalog *catalog, struct lh_yaml *spot, struct lh_diag *diag)
{
	static const char key_path[] = "spot.trace";
	const struct lh_yaml *name = lh_yaml_get(spot, "trace");
	lh_cleanup_free char *path = NULL;
	lh_cleanup_free char *text = NULL;
	size_t before = diag->n_messages;
	struct reader r = {.lines = {.is_file = true, .key_path = key_path, .diag = diag}};
	struct lh_error err = {0};
	size_t size;

	if (!name || name->kind != LH_YAML_SCALAR || lh_yaml_get(spot, "table"))
		return;
	path = lh_catalog_find(catalog, name->text, name->pos, key_path, diag);
	if (path && lh_file_read(path, FILE_MAX_BYTES, &text, &size, &err) < 0)
		lh_diag_add(diag, name->pos, key_path, "%s", err.message);
	if (text && strlen(text) != size) {
		lh_diag_add(diag, name->pos, key_path, "%s is no text", path);
	} else if (text) {
		r.lines.at = text;
		r.lines.pos.file = path;
		read_table(&r);
		lh_yaml_set(spot, "table", lh_yaml_scalar(text, name->pos));
	}
	if (lh_yaml_get(spot, "table"))
		lh_yaml_get(spot, "table")->quoted = true;
	if (diag->n_messages > before)
		spot->kind = LH_YAML_FAILED;
}
