/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a plan's changes. See timeline.h. */
#include "emulator/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "emulator/alarm.h"
#include "emulator/probe_internal.h"

static const int64_t SETTLE_MAX_NS = INT64_C(864000000000000);

/* A table of delays for one deviation that events give. */
struct table {
	const struct lh_path_spec *spec;
	int64_t jitter_ns;
	struct lh_jitter_table *table;
};

/* The path between two sites as it is now. */
struct state {
	struct lh_path_change change;
	uint64_t changed_in; /* number of the step; 0: none yet */
	uint64_t recorded_in;
};

struct lh_timeline {
	const struct lh_plan *plan;
	size_t *active; /* indices of the tracks with sources */
	size_t n_active;
	struct state *states;	    /* [from site * n_sites + to site] */
	struct lh_plan_path *paths; /* as they are now, [from * n_nodes + to] */
	int64_t *settle_ns;	    /* of them: when what is long has left; INT64_MAX: it has */
	int64_t *catch_up_ns;	    /* when what had a longer way has arrived; INT64_MAX: it has */
	struct lh_net_change *changes;
	size_t n_changes;
	struct table *tables;
	size_t n_tables;
	uint64_t step;
	int64_t next_ns;

	/* while something runs */
	struct lh_net *net;
	int64_t begin_ns;
	FILE *csv;
	struct lh_alarm alarm;
};

static size_t n_sites(const struct lh_timeline *t)
{
	return t->plan->scenario->network.n_sites;
}

/* The earliest change after t_ns. */
static int64_t next_after(const struct lh_timeline *t, int64_t t_ns)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < t->n_active; i++) {
		int64_t at = lh_track_next_ns(&t->plan->tracks[t->active[i]], t_ns);

		if (at < next)
			next = at;
	}
	for (size_t i = 0; i < t->plan->n_nodes * t->plan->n_nodes; i++) {
		if (t->settle_ns[i] < next)
			next = t->settle_ns[i];
		if (t->catch_up_ns[i] < next)
			next = t->catch_up_ns[i];
	}
	return next;
}

int lh_timeline_new(const struct lh_plan *plan, struct lh_timeline **ret, struct lh_error *err)
{
	size_t n = plan->n_nodes, n_pairs = plan->scenario->network.n_sites;
	struct lh_timeline *t;

	*ret = NULL;
	if (!plan->tracks)
		return 0;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->plan = plan;
		t->states = calloc(n_pairs * n_pairs, sizeof(*t->states));
		t->active = calloc(n_pairs * n_pairs, sizeof(*t->active));
		t->paths = calloc(n * n, sizeof(*t->paths));
		t->settle_ns = calloc(n * n, sizeof(*t->settle_ns));
		t->catch_up_ns = calloc(n * n, sizeof(*t->catch_up_ns));
		t->changes = calloc(n * n, sizeof(*t->changes));
	}
	if (!t || !t->states || !t->active || !t->paths || !t->settle_ns || !t->catch_up_ns ||
	    !t->changes) {
		lh_timeline_free(t);
		return lh_fail(err, LH_ESYS, ENOMEM, "read the timeline");
	}
	for (size_t i = 0; i < n_pairs * n_pairs; i++)
		if (plan->tracks[i].n_sources)
			t->active[t->n_active++] = i;
	memcpy(t->paths, plan->paths, n * n * sizeof(*t->paths));
	for (size_t i = 0; i < n * n; i++)
		t->settle_ns[i] = t->catch_up_ns[i] = INT64_MAX;
	t->next_ns = next_after(t, -1);
	*ret = t;
	return 0;
}

void lh_timeline_free(struct lh_timeline *t)
{
	if (!t)
		return;
	lh_alarm_close(&t->alarm);
	if (t->csv)
		fclose(t->csv);
	for (size_t i = 0; i < t->n_tables; i++)
		free(t->tables[i].table);
	free(t->tables);
	free(t->states);
	free(t->active);
	free(t->paths);
	free(t->settle_ns);
	free(t->catch_up_ns);
	free(t->changes);
	free(t);
}

int64_t lh_timeline_next_ns(const struct lh_timeline *t)
{
	return t->next_ns;
}

/* The table of a deviation on a path; *ret NULL where it is 0. */
static int find_table(struct lh_timeline *t, const struct lh_path_spec *spec, int64_t jitter_ns,
		      const struct lh_jitter_table **ret, struct lh_error *err)
{
	struct lh_path_spec asked = *spec;
	struct table *grown;

	*ret = NULL;
	if (jitter_ns <= 0)
		return 0;
	for (size_t i = 0; i < t->n_tables; i++)
		if (t->tables[i].spec == spec && t->tables[i].jitter_ns == jitter_ns) {
			*ret = t->tables[i].table;
			return 0;
		}
	grown = realloc(t->tables, (t->n_tables + 1) * sizeof(*grown));
	if (!grown)
		return lh_fail(err, LH_ESYS, ENOMEM, "change paths");
	t->tables = grown;
	grown[t->n_tables] = (struct table){spec, jitter_ns, malloc(sizeof(*grown->table))};
	if (!grown[t->n_tables].table)
		return lh_fail(err, LH_ESYS, ENOMEM, "change paths");
	*ret = grown[t->n_tables].table;
	asked.jitter_ns = jitter_ns;
	return lh_jitter_make(&asked, NULL, grown[t->n_tables++].table, err);
}

static bool same_path(const struct lh_plan_path *a, const struct lh_plan_path *b)
{
	return a->delay_ns == b->delay_ns && a->bandwidth_bps == b->bandwidth_bps &&
	       a->bottleneck.limit_bytes == b->bottleneck.limit_bytes &&
	       a->bottleneck.burst_bytes == b->bottleneck.burst_bytes &&
	       a->uncut_bytes == b->uncut_bytes && a->catches_up == b->catches_up &&
	       a->limit_pkts == b->limit_pkts && a->jitter == b->jitter &&
	       memcmp(&a->chances, &b->chances, sizeof(a->chances)) == 0;
}

static struct state *state_between(const struct lh_timeline *t, size_t from, size_t to)
{
	size_t a = t->plan->nodes[from].site, b = t->plan->nodes[to].site;

	return &t->states[a * n_sites(t) + b];
}

/*
 * A path that gets so slow that super-packets must be cut still holds whole ones. Until they have
 * left its bottleneck must let them pass.
 */
static void settle(struct lh_timeline *t, size_t pair, struct lh_plan_path *path)
{
	const struct lh_plan_path *before = &t->paths[pair];
	int64_t *settle_ns = &t->settle_ns[pair];

	if (path->uncut_bytes == LH_SUPER_PACKET_BYTES || *settle_ns <= t->next_ns) {
		*settle_ns = INT64_MAX;
		return;
	}
	if (before->uncut_bytes > path->uncut_bytes ||
	    (*settle_ns != INT64_MAX && !before->bandwidth_bps)) {
		double held = (double)t->plan->paths[pair].bottleneck.limit_bytes +
			      before->bottleneck.limit_bytes + LH_SUPER_PACKET_BYTES;
		double drain_ns = 8 * held / (double)path->bottleneck.bandwidth_bps * LH_NS_PER_S;

		*settle_ns = t->next_ns +
			     (drain_ns < (double)SETTLE_MAX_NS ? (int64_t)drain_ns : SETTLE_MAX_NS);
	}
	/* while nothing is to pass, nothing need */
	if (*settle_ns != INT64_MAX && path->bandwidth_bps &&
	    path->bottleneck.burst_bytes < LH_SUPER_PACKET_BYTES)
		path->bottleneck.burst_bytes = LH_SUPER_PACKET_BYTES;
}

/*
 * netem sends nothing before what came earlier, and then at its own rate. Where what is under way
 * had a longer or a slower way, all that follows would be late for as long as the path is busy:
 * until it has arrived, netem holds no rate, which the bottleneck before it does anyway.
 */
static void catch_up(struct lh_timeline *t, size_t pair, struct lh_plan_path *path)
{
	const struct lh_plan_path *before = &t->paths[pair];
	int64_t *until_ns = &t->catch_up_ns[pair];
	double behind_bits = 8.0 * (before->bottleneck.burst_bytes + before->uncut_bytes);
	int64_t slow_ns = (int64_t)(behind_bits / (double)lh_plan_netem_bps(before) * LH_NS_PER_S);
	int64_t long_ns = before->delay_ns - path->delay_ns +
			  (before->jitter ? before->jitter->highest_ns : 0);
	int64_t end_ns = t->next_ns + slow_ns + (long_ns > 0 ? long_ns : 0);

	if (*until_ns <= t->next_ns)
		*until_ns = INT64_MAX;
	if ((before->delay_ns != path->delay_ns || before->bandwidth_bps != path->bandwidth_bps) &&
	    (*until_ns == INT64_MAX || end_ns > *until_ns))
		*until_ns = end_ns;
	path->catches_up = *until_ns != INT64_MAX;
}

/* Notes what has changed between two nodes. */
static int look_at_pair(struct lh_timeline *t, size_t from, size_t to, struct lh_error *err)
{
	const struct state *there = state_between(t, from, to), *back = state_between(t, to, from);
	size_t pair = from * t->plan->n_nodes + to;
	struct lh_plan_path *now = &t->paths[pair];
	const struct lh_jitter_table *jitter = NULL;
	struct lh_plan_path path;
	int r = 0;

	if (there->changed_in != t->step && back->changed_in != t->step &&
	    t->settle_ns[pair] > t->next_ns && t->catch_up_ns[pair] > t->next_ns)
		return 0;
	if (there->change.sets & LH_JITTER)
		r = find_table(t, now->spec, there->change.jitter_ns, &jitter, err);
	if (r < 0)
		return r;
	lh_plan_change_path(t->plan, from, to, &there->change, &back->change, jitter, &path);
	if (path.varies) {
		settle(t, pair, &path);
		catch_up(t, pair, &path);
	}
	if (same_path(&path, now))
		return 0;
	t->changes[t->n_changes++] = (struct lh_net_change){
		.from = from,
		.to = to,
		.path = now,
		.is_faster = path.varies && path.bandwidth_bps > now->bandwidth_bps,
	};
	*now = path;
	return 0;
}

int lh_timeline_step(struct lh_timeline *t, const struct lh_net_change **ret_changes, size_t *ret_n,
		     struct lh_error *err)
{
	size_t n = t->plan->n_nodes;
	int r = 0;

	t->step++;
	t->n_changes = 0;
	for (size_t i = 0; i < t->n_active; i++) {
		struct state *state = &t->states[t->active[i]];
		struct lh_path_change change;

		lh_track_at(&t->plan->tracks[t->active[i]], t->next_ns, &change);
		if (memcmp(&change, &state->change, sizeof(change)) == 0)
			continue;
		state->change = change;
		state->changed_in = t->step;
	}
	for (size_t i = 0; i < n * n && r == 0; i++)
		if (i / n != i % n)
			r = look_at_pair(t, i / n, i % n, err);
	t->next_ns = next_after(t, t->next_ns);
	*ret_changes = t->changes;
	*ret_n = t->n_changes;
	return r;
}

/* ---- while something runs ---------------------------------------------------------------- */

/* A share as it was asked for: by the change, or by the path. */
static double share(const struct lh_path_change *c, unsigned sets, double changed, double own)
{
	double v = c->sets & sets ? changed : own;

	return v > 0 ? v : 0;
}

/* One row for each pair of sites whose path has changed. */
static void record(struct lh_timeline *t, int64_t planned_ns, int64_t applied_ns, int64_t skew_ns)
{
	const struct lh_site *sites = t->plan->scenario->network.sites;

	for (size_t i = 0; i < t->n_changes; i++) {
		const struct lh_net_change *change = &t->changes[i];
		struct state *state = state_between(t, change->from, change->to);
		const struct lh_plan_path *p = change->path;
		const struct lh_path_change *c = &state->change;

		if (state->recorded_in == t->step ||
		    (state->changed_in != t->step &&
		     state_between(t, change->to, change->from)->changed_in != t->step))
			continue;
		state->recorded_in = t->step;
		fprintf(t->csv,
			"%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64
			",%" PRIu32 ",%.0f,%.9g,%.9g,%.9g,%.9g,%.9g\n",
			planned_ns, applied_ns, skew_ns,
			sites[t->plan->nodes[change->from].site].name,
			sites[t->plan->nodes[change->to].site].name, p->delay_ns, p->bandwidth_bps,
			p->queue_ns, p->bottleneck.limit_bytes, p->jitter ? p->jitter->sd_ns : 0,
			c->sets & LH_CUT ? 1
					 : share(c, LH_LOSS, c->loss_ratio, p->spec->loss_ratio),
			share(c, LH_LOSS_BURST, c->loss_burst_pkts, p->spec->loss_burst_pkts),
			share(c, LH_DUPLICATE, c->duplicate_ratio, p->spec->duplicate_ratio),
			share(c, LH_CORRUPT, c->corrupt_ratio, p->spec->corrupt_ratio),
			share(c, LH_REORDER, c->reorder_ratio, p->spec->reorder_ratio));
	}
}

int lh_timeline_run(struct lh_timeline *t, struct lh_error *err)
{
	const struct lh_net_change *changes;
	size_t n;
	int r = 0;

	if (!t || lh_now_ns() < lh_timeline_due_ns(t))
		return 0;
	while (r == 0 && lh_now_ns() >= lh_timeline_due_ns(t)) {
		int64_t planned_ns = lh_timeline_due_ns(t), applied_ns;

		r = lh_timeline_step(t, &changes, &n, err);
		if (r < 0 || !n)
			continue;
		applied_ns = lh_now_ns();
		r = lh_net_change_paths(t->net, changes, n, err);
		record(t, planned_ns, applied_ns, lh_now_ns() - applied_ns);
	}
	if (r == 0 && ferror(t->csv))
		r = lh_fail(err, LH_ESYS, errno, "write timeline.csv");
	return r < 0 ? r : lh_alarm_set(&t->alarm, lh_timeline_due_ns(t), err);
}

int lh_timeline_begin(struct lh_timeline *t, struct lh_net *net, int64_t begin_ns,
		      const char *csv_path, struct lh_error *err)
{
	int r;

	if (!t)
		return 0;
	t->net = net;
	t->begin_ns = begin_ns;
	t->csv = csv_path ? fopen(csv_path, "we") : NULL;
	if (!t->csv)
		return lh_fail(err, LH_ESYS, errno, "create timeline.csv");
	fputs("planned_ns,applied_ns,skew_ns,from,to,delay_ns,bandwidth_bps,queue_ns,queue_bytes,"
	      "jitter_ns,loss_ratio,loss_burst_pkts,duplicate_ratio,corrupt_ratio,reorder_ratio\n",
	      t->csv);
	r = lh_alarm_open(&t->alarm, err);
	if (r == 0 && lh_now_ns() < lh_timeline_due_ns(t))
		return lh_alarm_set(&t->alarm, lh_timeline_due_ns(t), err);
	return r < 0 ? r : lh_timeline_run(t, err);
}

int64_t lh_timeline_due_ns(const struct lh_timeline *t)
{
	return !t || t->next_ns == INT64_MAX ? INT64_MAX : t->begin_ns + t->next_ns;
}
