/* SPDX-License-Identifier: Apache-2.0 */
/* What a scenario asks of a path in the course of time. See timeline.h. */
#include "scenarios/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scenarios/trace.h"

enum rank { NETWORK, OPEN_ENDED, BOUNDED, CUT_OFF };

static bool same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

bool lh_event_matches(const struct lh_event *e, const char *from, const char *to)
{
	if (e->site)
		return strcmp(from, to) != 0 &&
		       (same_text(e->site, from) || same_text(e->site, to));
	if (e->n_path == 2)
		return (same_text(e->path[0], from) && same_text(e->path[1], to)) ||
		       (same_text(e->path[0], to) && same_text(e->path[1], from));
	return same_text(e->from, from) && same_text(e->to, to);
}

static struct lh_track_source source_of(const struct lh_event *e)
{
	struct lh_track_source s = {
		.begin_ns = e->at_ns,
		.end_ns = e->for_ns < 0 ? INT64_MAX : e->at_ns + e->for_ns,
		.rank = e->cut_off	? CUT_OFF
			: e->for_ns < 0 ? OPEN_ENDED
					: BOUNDED,
		.sets = e->change.sets | e->trace.sets,
		.change = &e->change,
		.trace = e->trace.sets ? &e->trace : NULL,
		.event = e,
	};

	return s;
}

static int compare_sources(const void *a, const void *b)
{
	const struct lh_track_source *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

int lh_track_make(const struct lh_scenario *sc, size_t from, size_t to, struct lh_track *ret,
		  struct lh_error *err)
{
	const char *a = sc->network.sites[from].name, *b = sc->network.sites[to].name;
	const struct lh_path_spec *spec = lh_path_spec_at(&sc->network, from, to);
	struct lh_track t = {.from = from, .to = to};

	t.sources = calloc(sc->n_events + 1, sizeof(*t.sources));
	if (!t.sources)
		return lh_fail(err, LH_ESYS, ENOMEM, "read the timeline");
	if (spec && spec->trace.sets)
		t.sources[t.n_sources++] = (struct lh_track_source){
			.end_ns = INT64_MAX,
			.rank = NETWORK,
			.sets = spec->trace.sets,
			.trace = &spec->trace,
		};
	for (size_t i = 0; i < sc->n_events; i++)
		if (lh_event_matches(&sc->events[i], a, b))
			t.sources[t.n_sources++] = source_of(&sc->events[i]);
	qsort(t.sources, t.n_sources, sizeof(*t.sources), compare_sources);
	*ret = t;
	return 0;
}

void lh_track_done(struct lh_track *t)
{
	free(t->sources);
	memset(t, 0, sizeof(*t));
}

/* Takes over what an event sets. */
static void take_change(struct lh_path_change *into, const struct lh_path_change *c)
{
	if (c->sets & LH_DELAY) {
		into->rtt_ns = c->rtt_ns;
		into->delay_ns = c->delay_ns;
	}
	if (c->sets & LH_BANDWIDTH) {
		into->bandwidth_bps = c->bandwidth_bps;
		into->queue_bps = 0;
	}
	if (c->sets & LH_QUEUE)
		into->queue = c->queue;
	if (c->sets & LH_JITTER)
		into->jitter_ns = c->jitter_ns;
	if (c->sets & LH_LOSS)
		into->loss_ratio = c->loss_ratio;
	if (c->sets & LH_LOSS_BURST)
		into->loss_burst_pkts = c->loss_burst_pkts;
	if (c->sets & LH_DUPLICATE)
		into->duplicate_ratio = c->duplicate_ratio;
	if (c->sets & LH_CORRUPT)
		into->corrupt_ratio = c->corrupt_ratio;
	if (c->sets & LH_REORDER)
		into->reorder_ratio = c->reorder_ratio;
	into->sets |= c->sets;
}

static void take_row(struct lh_path_change *into, const struct lh_trace *trace,
		     const struct lh_trace_row *row)
{
	if (trace->sets & LH_DELAY) {
		into->rtt_ns = -1;
		into->delay_ns = row->delay_ns;
	}
	if (trace->sets & LH_BANDWIDTH) {
		into->bandwidth_bps = row->bandwidth_bps;
		into->queue_bps = trace->mean_bps;
	}
	if (trace->sets & LH_LOSS)
		into->loss_ratio = row->loss_ratio;
	into->sets |= trace->sets;
}

void lh_track_at(const struct lh_track *t, int64_t t_ns, struct lh_path_change *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < t->n_sources; i++) {
		const struct lh_track_source *s = &t->sources[i];
		const struct lh_trace_row *row;

		if (t_ns < s->begin_ns || t_ns >= s->end_ns)
			continue;
		if (s->change)
			take_change(ret, s->change);
		row = s->trace ? lh_trace_row_at(s->trace, t_ns - s->begin_ns) : NULL;
		if (row)
			take_row(ret, s->trace, row);
	}
}

int64_t lh_track_next_ns(const struct lh_track *t, int64_t t_ns)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < t->n_sources; i++) {
		const struct lh_track_source *s = &t->sources[i];
		int64_t at = s->begin_ns > t_ns ? s->begin_ns
			     : s->end_ns > t_ns ? s->end_ns
						: INT64_MAX;

		if (s->trace && t_ns >= s->begin_ns && t_ns < s->end_ns) {
			int64_t row = lh_trace_next_ns(s->trace, t_ns - s->begin_ns);

			if (row != INT64_MAX && s->begin_ns + row < at)
				at = s->begin_ns + row;
		}
		if (at < next)
			next = at;
	}
	return next;
}

/* ---- extremes ---------------------------------------------------------------------------- */

static void widen(int64_t *min, int64_t *max, int64_t v)
{
	if (v < *min)
		*min = v;
	if (v > *max)
		*max = v;
}

static void raise_ratio(double *max, double v)
{
	if (v > *max)
		*max = v;
}

static void raise_time(int64_t *max, int64_t v)
{
	if (v > *max)
		*max = v;
}

static int64_t delay_of(int64_t rtt_ns, int64_t delay_ns)
{
	return rtt_ns >= 0 ? (rtt_ns + 1) / 2 : delay_ns;
}

static void take_change_extremes(struct lh_path_extremes *x, const struct lh_track_source *s)
{
	const struct lh_path_change *c = s->change;
	bool loses_all = (c->sets & LH_CUT) || ((c->sets & LH_LOSS) && c->loss_ratio >= 1);

	if (c->sets & LH_DELAY)
		widen(&x->delay_min_ns, &x->delay_max_ns, delay_of(c->rtt_ns, c->delay_ns));
	if (c->sets & LH_BANDWIDTH)
		widen(&x->bandwidth_min_bps, &x->bandwidth_max_bps, c->bandwidth_bps);
	if (c->sets & LH_JITTER)
		raise_time(&x->jitter_max_ns, c->jitter_ns);
	if (c->sets & LH_LOSS)
		raise_ratio(&x->loss_max_ratio, c->loss_ratio);
	if (c->sets & LH_LOSS_BURST)
		raise_ratio(&x->loss_burst_max_pkts, c->loss_burst_pkts);
	if (c->sets & LH_DUPLICATE)
		raise_ratio(&x->duplicate_max_ratio, c->duplicate_ratio);
	if (c->sets & LH_CORRUPT)
		raise_ratio(&x->corrupt_max_ratio, c->corrupt_ratio);
	if (c->sets & LH_REORDER)
		raise_ratio(&x->reorder_max_ratio, c->reorder_ratio);
	if (c->sets & LH_CUT)
		x->loss_max_ratio = 1;
	if (loses_all && s->end_ns != INT64_MAX)
		x->outage_max_ns += s->end_ns - s->begin_ns;
}

/* How long a trace lets nothing through at a stretch; twice round, where it repeats. */
static int64_t trace_outage_ns(const struct lh_trace *t)
{
	int64_t longest = 0, begin = -1;
	size_t n = t->repeat ? 2 * t->n_rows : t->n_rows;

	for (size_t i = 0; i < n; i++) {
		const struct lh_trace_row *row = &t->rows[i % t->n_rows];
		int64_t at = row->at_ns + (int64_t)(i / t->n_rows) * t->length_ns;
		bool is_out = ((t->sets & LH_BANDWIDTH) && !row->bandwidth_bps) ||
			      ((t->sets & LH_LOSS) && row->loss_ratio >= 1);

		if (begin >= 0)
			raise_time(&longest, at - begin);
		if (!is_out)
			begin = -1;
		else if (begin < 0)
			begin = at;
	}
	return longest;
}

static void take_trace_extremes(struct lh_path_extremes *x, const struct lh_trace *t)
{
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct lh_trace_row *row = &t->rows[i];

		if (t->sets & LH_DELAY)
			widen(&x->delay_min_ns, &x->delay_max_ns, row->delay_ns);
		if (t->sets & LH_BANDWIDTH)
			widen(&x->bandwidth_min_bps, &x->bandwidth_max_bps, row->bandwidth_bps);
		if (t->sets & LH_LOSS)
			raise_ratio(&x->loss_max_ratio, row->loss_ratio);
	}
	x->outage_max_ns += trace_outage_ns(t);
}

void lh_track_extremes(const struct lh_track *t, const struct lh_path_spec *spec, int64_t begin_ns,
		       int64_t end_ns, struct lh_path_extremes *ret)
{
	int64_t delay = delay_of(spec->n_between ? spec->rtt_ns : -1, spec->delay_ns);

	*ret = (struct lh_path_extremes){
		.delay_min_ns = delay,
		.delay_max_ns = delay,
		.bandwidth_min_bps = spec->bandwidth_bps,
		.bandwidth_max_bps = spec->bandwidth_bps,
		.jitter_max_ns = spec->jitter_ns > 0 ? spec->jitter_ns : 0,
		.loss_max_ratio = spec->loss_ratio,
		.loss_burst_max_pkts = spec->loss_burst_pkts,
		.duplicate_max_ratio = spec->duplicate_ratio,
		.corrupt_max_ratio = spec->corrupt_ratio,
		.reorder_max_ratio = spec->reorder_ratio,
	};
	for (size_t i = 0; i < t->n_sources; i++) {
		const struct lh_track_source *s = &t->sources[i];

		if (s->begin_ns >= end_ns || s->end_ns <= begin_ns)
			continue;
		ret->sets |= s->sets;
		if (s->change)
			take_change_extremes(ret, s);
		if (s->trace)
			take_trace_extremes(ret, s->trace);
	}
}
