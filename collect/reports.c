/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of a run whose nodes ran a command, from what its programs reported. What they did not
 * report stays unknown. See collect_internal.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect_internal.h"
#include "core/cleanup.h"
#include "core/file.h"

#define S_PER_NS 1e-9

/* The work in hand. */
struct work {
	const struct lh_scenario *sc;
	const struct lh_run_events *events;
	size_t *speakers; /* ranks whose reports count */
	size_t n_speakers;
	size_t n_epochs; /* that all of them reported */
	struct lh_notes *invalid;
};

/* Leaves only the epochs that were reported, one after the other whatever their numbers. */
static void compact(struct lh_rank_events *rank)
{
	size_t n = 0;

	for (size_t i = 0; i < rank->n_epochs; i++)
		if (rank->epochs[i].is_finished)
			rank->epochs[n++] = rank->epochs[i];
	rank->n_epochs = n;
}

static void find_speakers(struct work *w)
{
	bool is_group = w->sc->workload.progress.of == LH_PROGRESS_OF_GROUP;

	for (size_t r = 0; r < w->events->n_ranks; r++) {
		if (!w->events->ranks[r].n_epochs || (is_group && w->n_speakers))
			continue;
		w->speakers[w->n_speakers++] = r;
	}
	for (size_t r = 0; r < w->events->n_ranks && w->n_speakers && !is_group; r++)
		if (!w->events->ranks[r].n_epochs)
			lh_notes_add(w->invalid,
				     "%s reported no progress, others did; where one rank speaks "
				     "for all: workload.progress.of: group",
				     w->sc->ranks[r].name);
}

static const struct lh_rank_epoch *epoch_of(const struct work *w, size_t speaker, size_t index)
{
	return &w->events->ranks[w->speakers[speaker]].epochs[index];
}

/* Counts the epochs that all speakers reported, under the same numbers. */
static void count_common(struct work *w)
{
	size_t n = SIZE_MAX;

	for (size_t s = 0; s < w->n_speakers; s++) {
		size_t has = w->events->ranks[w->speakers[s]].n_epochs;

		n = has < n ? has : n;
	}
	for (size_t i = 0; i < n && w->n_speakers; i++)
		for (size_t s = 1; s < w->n_speakers; s++) {
			int64_t a = epoch_of(w, 0, i)->number, b = epoch_of(w, s, i)->number;

			if (a == b)
				continue;
			lh_notes_add(w->invalid,
				     "%s reported epoch %" PRId64 " where %s reported %" PRId64
				     ": epochs before it count",
				     w->sc->ranks[w->speakers[s]].name, b,
				     w->sc->ranks[w->speakers[0]].name, a);
			w->n_epochs = i;
			return;
		}
	w->n_epochs = w->n_speakers ? n : 0;
}

static int64_t first_start_ns(const struct work *w)
{
	int64_t first = INT64_MAX;

	for (size_t r = 0; r < w->events->n_ranks; r++)
		if (w->events->ranks[r].start_ns && w->events->ranks[r].start_ns < first)
			first = w->events->ranks[r].start_ns;
	return first;
}

static int64_t end_ns(const struct work *w, size_t index)
{
	int64_t last = 0;

	for (size_t s = 0; s < w->n_speakers; s++)
		if (epoch_of(w, s, index)->end_ns > last)
			last = epoch_of(w, s, index)->end_ns;
	return last;
}

static int64_t begin_ns(const struct work *w, size_t index)
{
	return index ? end_ns(w, index - 1) : first_start_ns(w);
}

/* One epoch of the group; NaN and -1: not reported. Times are means, samples and local_sps sums
 * over the speakers. */
struct group_epoch {
	int64_t number;
	double begin_s;
	double wall_s;
	int64_t samples;
	double calculation_s;
	double communication_s;
	double local_sps;
	double loss;
};

static struct group_epoch add_up(const struct work *w, size_t index)
{
	double n = (double)w->n_speakers;
	struct group_epoch g = {.number = epoch_of(w, 0, index)->number};

	g.wall_s = (double)(end_ns(w, index) - begin_ns(w, index)) * S_PER_NS;
	for (size_t s = 0; s < w->n_speakers; s++) {
		const struct lh_rank_epoch *e = epoch_of(w, s, index);
		bool tells_samples = e->n_samples == e->n_reports;

		g.samples = tells_samples && g.samples >= 0 ? g.samples + e->samples : -1;
		g.calculation_s += e->n_calc == e->n_reports ? e->calc_s / n : NAN;
		g.communication_s += e->n_comm == e->n_reports ? e->comm_s / n : NAN;
		g.local_sps += tells_samples && e->n_calc == e->n_reports && e->calc_s > 0
				       ? (double)e->samples / e->calc_s
				       : NAN;
		g.loss += e->loss / n;
	}
	return g;
}

static double granularity_of(double wall_s, double communication_s)
{
	return communication_s > 0 ? (wall_s - communication_s) / communication_s : NAN;
}

static void put_epoch(struct lh_table *table, const struct group_epoch *g)
{
	lh_table_row(table);
	lh_table_put_int(table, g->number);
	lh_table_put_real(table, g->begin_s);
	lh_table_put_real(table, g->begin_s + g->wall_s);
	if (g->samples >= 0)
		lh_table_put_int(table, g->samples);
	else
		lh_table_skip(table);
	lh_table_put_real(table, g->wall_s);
	lh_table_put_real(table, g->calculation_s);
	lh_table_put_real(table, g->communication_s);
	for (int i = 0; i < LH_EPOCH_PARTS; i++)
		lh_table_skip(table);
	lh_table_put_real(table, g->samples >= 0 ? (double)g->samples / g->wall_s : NAN);
	lh_table_put_real(table, g->local_sps);
	lh_table_put_real(table, granularity_of(g->wall_s, g->communication_s));
	lh_table_put_real(table, g->loss);
	for (int i = 0; i < LH_EPOCH_SCORES; i++)
		lh_table_skip(table);
}

static void finish_summary(struct lh_summary *s)
{
	double wall_s = (double)s->wall_ns * S_PER_NS;

	s->matchmaking_s = s->wait_s = s->host_s = s->transfer_s = s->apply_s = NAN;
	/* nobody can be charged for samples of which there are none */
	if (s->samples == 0)
		s->samples = -1;
	s->throughput_sps = s->samples > 0 ? (double)s->samples / wall_s : NAN;
	s->granularity = granularity_of(wall_s / (double)s->n_epochs, s->communication_s);
}

/* Fills the table and the summary with the epochs from the first that counts on. */
static void put_epochs(const struct work *w, size_t first, struct lh_table *table,
		       struct lh_summary *s)
{
	int64_t origin = begin_ns(w, first);
	double n = (double)(w->n_epochs - first);

	for (size_t i = first; i < w->n_epochs; i++) {
		struct group_epoch g = add_up(w, i);

		g.begin_s = (double)(begin_ns(w, i) - origin) * S_PER_NS;
		put_epoch(table, &g);
		s->samples = g.samples >= 0 && s->samples >= 0 ? s->samples + g.samples : -1;
		s->calculation_s += g.calculation_s / n;
		s->communication_s += g.communication_s / n;
		s->local_sps += g.local_sps / n;
	}
	s->n_epochs = w->n_epochs - first;
	s->begin_ns = origin;
	s->wall_ns = end_ns(w, w->n_epochs - 1) - origin;
	finish_summary(s);
}

/* The run as one epoch of which nothing but its length is known. */
static int put_whole(const struct work *w, struct lh_table *table, struct lh_summary *s,
		     struct lh_error *err)
{
	struct group_epoch g = {.samples = -1,
				.calculation_s = NAN,
				.communication_s = NAN,
				.local_sps = NAN,
				.loss = NAN};
	int64_t last = 0;

	for (size_t r = 0; r < w->events->n_ranks; r++)
		last = w->events->ranks[r].end_ns > last ? w->events->ranks[r].end_ns : last;
	if (!last)
		return lh_fail(err, LH_ERUN, 0, "no program has ended, and none reports progress");
	s->begin_ns = first_start_ns(w);
	s->wall_ns = last - s->begin_ns;
	g.wall_s = (double)s->wall_ns * S_PER_NS;
	put_epoch(table, &g);
	s->n_epochs = 1;
	s->samples = -1;
	s->calculation_s = s->communication_s = s->local_sps = NAN;
	finish_summary(s);
	return 0;
}

/* Samples by node, where each speaks for itself; owned by the caller, NULL where unknown. */
static int64_t *count_node_samples(const struct work *w, size_t first, const struct lh_summary *s)
{
	int64_t *samples;

	if (s->samples < 0 || w->sc->workload.progress.of == LH_PROGRESS_OF_GROUP)
		return NULL;
	samples = calloc(w->sc->n_nodes, sizeof(*samples));
	for (size_t k = 0; samples && k < w->n_speakers; k++)
		for (size_t i = first; i < w->n_epochs; i++)
			samples[w->sc->ranks[w->speakers[k]].node] += epoch_of(w, k, i)->samples;
	return samples;
}

/* Says so where a program has failed. */
static int read_ending(const char *run_dir, struct lh_notes *invalid, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "exec.json");
	lh_cleanup_json json_t *doc = NULL;
	const char *failed;
	int r;

	if (!path || !lh_path_exists(path))
		return path ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "read %s", run_dir);
	r = lh_json_read(path, &doc, err);
	if (r < 0)
		return r;
	failed = json_string_value(json_object_get(doc, "first_failed"));
	if (failed)
		lh_notes_add(invalid, "the program in %s failed, with status %lld", failed,
			     (long long)json_integer_value(json_object_get(doc, "status")));
	return 0;
}

static int fill(struct work *w, struct lh_table *table, struct lh_summary *s,
		int64_t **ret_node_samples, struct lh_error *err)
{
	const struct lh_progress_spec *spec = &w->sc->workload.progress;
	size_t first = spec->warm_up > 0 ? (size_t)spec->warm_up : 0;

	if (!spec->pattern && !spec->file)
		return put_whole(w, table, s, err);
	find_speakers(w);
	count_common(w);
	if (!w->n_speakers)
		return lh_fail(err, LH_ERUN, 0, "no program reported progress: %s",
			       spec->pattern
				       ? "nothing that they said matched workload.progress.pattern"
				       : "nothing was written to workload.progress.file");
	if (w->n_epochs <= first)
		return lh_fail(err, LH_ERUN, 0,
			       "the programs reported %zu epochs together, which is not more than "
			       "the %zu of warm-up",
			       w->n_epochs, first);
	put_epochs(w, first, table, s);
	*ret_node_samples = count_node_samples(w, first, s);
	return 0;
}

int lh_reports_compute(const struct lh_scenario *sc, const char *run_dir,
		       struct lh_run_events *events, struct lh_results *results,
		       int64_t **ret_node_samples, struct lh_error *err)
{
	lh_cleanup_free size_t *speakers = calloc(events->n_ranks, sizeof(*speakers));
	struct work w = {
		.sc = sc, .events = events, .speakers = speakers, .invalid = &results->invalid};
	int r;

	if (!speakers)
		return lh_fail(err, LH_ESYS, ENOMEM, "read the reports");
	for (size_t i = 0; i < events->n_ranks; i++)
		compact(&events->ranks[i]);
	lh_epochs_table_init(&results->epochs);
	r = fill(&w, &results->epochs, &results->summary, ret_node_samples, err);
	if (r == 0)
		r = read_ending(run_dir, &results->invalid, err);
	if (r == 0 && isfinite(results->summary.communication_s))
		lh_notes_add(&results->notes,
			     "calculation and communication are what the programs say; all other "
			     "times are when their reports came");
	return r;
}
