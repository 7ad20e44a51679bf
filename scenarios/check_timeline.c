/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of events and traces. See check.h. */
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/yaml.h"
#include "scenarios/check_internal.h"
#include "scenarios/churn.h"
#include "scenarios/jitter.h"
#include "scenarios/timeline.h"
#include "scenarios/trace.h"

/* Of packets doubled, damaged, overtaken. */
static const double SHARE_MAX = 0.9;

/* What a message about an event or a path's trace is about. */
struct subject {
	struct lh_pos pos;
	const char *key_path;
	struct lh_diag *diag;
};

static const struct {
	const char *key;
	unsigned sets;
} attributes[] = {
	{"rtt", LH_DELAY},
	{"delay", LH_DELAY},
	{"bandwidth", LH_BANDWIDTH},
	{"queue", LH_QUEUE},
	{"jitter", LH_JITTER},
	{"loss", LH_LOSS},
	{"loss_burst", LH_LOSS_BURST},
	{"duplicate", LH_DUPLICATE},
	{"corrupt", LH_CORRUPT},
	{"reorder", LH_REORDER},
};

enum { N_ATTRIBUTES = sizeof(attributes) / sizeof(attributes[0]) };

/* A name for one of the attributes that two events have in common. */
static const char *name_of(unsigned sets)
{
	for (size_t i = 1; i < N_ATTRIBUTES; i++)
		if (sets & attributes[i].sets)
			return attributes[i].key;
	return "cut_off";
}

static void say(const struct subject *s, const char *what)
{
	lh_diag_add(s->diag, s->pos, s->key_path, "%s", what);
}

/* Finds out what an event sets, and complains where the keys make no event. */
static void check_form(struct lh_event *e, const struct lh_yaml *written, const struct subject *s)
{
	bool has_path = lh_yaml_get(written, "path"), has_site = lh_yaml_get(written, "site");
	bool has_from = lh_yaml_get(written, "from"), has_to = lh_yaml_get(written, "to");
	bool has_rtt = lh_yaml_get(written, "rtt"), has_delay = lh_yaml_get(written, "delay");
	bool has_cut = lh_yaml_get(written, "cut_off"), has_trace = lh_yaml_get(written, "trace");
	const struct lh_yaml *path = lh_yaml_get(written, "path");

	for (size_t i = 0; i < N_ATTRIBUTES; i++)
		if (lh_yaml_get(written, attributes[i].key))
			e->change.sets |= attributes[i].sets;
	if (has_path + has_site + (has_from || has_to) != 1 || has_from != has_to ||
	    (path && path->kind == LH_YAML_SEQUENCE && path->n_entries != 2)) {
		say(s, "expected one of `path: [A, B]`, `from: A` with `to: B`, or `site: A`");
		return;
	}
	if (has_site) {
		if (!e->cut_off || e->change.sets || has_trace)
			say(s, "expected `cut_off: true` with `site`, and nothing else beside `at` "
			       "and `for`");
		e->change.sets = LH_CUT;
		return;
	}
	if (has_cut)
		say(s, "cut_off is about a `site`; a path loses everything with `loss: 100 %`");
	if ((has_delay && !has_from) || (has_rtt && !has_path))
		say(s, "expected `rtt` with `path`, and `delay` with `from` and `to`");
	if (!e->change.sets && !has_trace)
		say(s, "changes nothing; expected rtt, delay, bandwidth, queue, jitter, loss, "
		       "loss_burst, duplicate, corrupt, reorder or trace");
	if (e->change.sets & e->trace.sets)
		lh_diag_add(s->diag, s->pos, s->key_path, "sets %s, and its trace, too",
			    name_of(e->change.sets & e->trace.sets));
}

/* Complains where an event is about what is not there. */
static void check_sites(const struct lh_scenario *sc, const struct lh_event *e,
			const int64_t *count, const struct subject *s)
{
	const struct lh_network *net = &sc->network;
	const char *names[] = {e->n_path > 0 ? e->path[0] : e->from,
			       e->n_path > 1 ? e->path[1] : e->to, e->site};
	bool are_known = true;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int site = names[i] ? lh_site_find(net, names[i]) : 0;

		if (site < 0)
			lh_say_unknown_site(net, names[i], s->pos, s->key_path, s->diag);
		else if (names[i] && !count[site])
			lh_diag_add(s->diag, s->pos, s->key_path,
				    "site '%.60s' has no nodes, so that nothing would change",
				    names[i]);
		are_known &= site >= 0;
	}
	if (!are_known || !names[0] || !names[1])
		return;
	if (!lh_path_spec_find(net, names[0], names[1]) ||
	    (e->n_path && !lh_path_spec_find(net, names[1], names[0])))
		lh_diag_add(s->diag, s->pos, s->key_path, "network %s has no path from %s to %s",
			    net->name ? net->name : "", names[0], names[1]);
}

/* Shares and bursts that an event itself says. */
static void check_shares(const struct lh_event *e, const struct subject *s)
{
	const struct {
		const char *key;
		unsigned sets;
		double ratio;
	} shares[] = {{"duplicate", LH_DUPLICATE, e->change.duplicate_ratio},
		      {"corrupt", LH_CORRUPT, e->change.corrupt_ratio},
		      {"reorder", LH_REORDER, e->change.reorder_ratio}};

	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		if ((e->change.sets & shares[i].sets) && shares[i].ratio > SHARE_MAX)
			lh_diag_add(s->diag, s->pos, s->key_path, "%s: more than %.0f %%",
				    shares[i].key, 100 * SHARE_MAX);
	if ((e->change.sets & LH_LOSS_BURST) && e->change.loss_burst_pkts < 1)
		say(s, "loss_burst: at least 1 packet");
}

/* Whether both are about one directed path, or cut off one site. */
static bool share_a_path(const struct lh_event *a, const struct lh_event *b)
{
	if (a->site || b->site)
		return a->site && b->site && strcmp(a->site, b->site) == 0;
	if (b->n_path == 2)
		return lh_event_matches(a, b->path[0], b->path[1]) ||
		       lh_event_matches(a, b->path[1], b->path[0]);
	return b->from && b->to && lh_event_matches(a, b->from, b->to);
}

static bool holds_at(const struct lh_event *e, int64_t t_ns)
{
	return t_ns >= e->at_ns && t_ns - e->at_ns < e->for_ns;
}

/* Whether it is open what holds: what has an end must stand alone until then, and of what has
 * none only one can begin at a time. A site that is cut off for ever is cut off once. */
static bool overlap(const struct lh_event *a, const struct lh_event *b)
{
	bool a_is_open = a->for_ns < 0, b_is_open = b->for_ns < 0;

	if (a->site)
		return (a_is_open && b->at_ns >= a->at_ns) || (b_is_open && a->at_ns >= b->at_ns) ||
		       holds_at(a, b->at_ns) || holds_at(b, a->at_ns);
	if (a_is_open && b_is_open)
		return a->at_ns == b->at_ns;
	if (a_is_open)
		return holds_at(b, a->at_ns);
	if (b_is_open)
		return holds_at(a, b->at_ns);
	return holds_at(a, b->at_ns) || holds_at(b, a->at_ns);
}

static void check_overlaps(const struct lh_scenario *sc, size_t index, const struct subject *s)
{
	const struct lh_event *e = &sc->events[index];

	for (size_t i = 0; i < index; i++) {
		const struct lh_event *before = &sc->events[i];
		unsigned both = (e->change.sets | e->trace.sets) &
				(before->change.sets | before->trace.sets);

		if (both && share_a_path(e, before) && overlap(e, before))
			lh_diag_add(s->diag, s->pos, s->key_path,
				    "sets %s while the event in line %d does", name_of(both),
				    before->pos.line);
	}
}

/* Complains where something changes of a bottleneck that cannot; true where it did. */
static bool check_bottleneck(const struct lh_scenario *sc, const struct lh_track *t,
			     const struct lh_track_source *source, const struct lh_path_spec *spec,
			     const struct subject *s)
{
	const struct lh_site *site = &sc->network.sites[t->from];
	bool has_link = site->uplink.bandwidth_bps > 0 || site->downlink.bandwidth_bps > 0;
	unsigned sets = source->sets & (LH_BANDWIDTH | LH_QUEUE);

	if (sets && t->from == t->to && has_link)
		lh_diag_add(s->diag, s->pos, s->key_path,
			    "%s of the path inside %s, a site with a shared link, cannot change",
			    name_of(sets), site->name);
	else if ((sets & LH_QUEUE) && spec->queue.discipline != LH_DROP_TAIL)
		say(s, "queue: only one that is drop-tail can change its length");
	else
		return false;
	return true;
}

/* Complains where a packet would have to arrive before it was sent, or more be lost than its
 * bursts allow; true where it did. What the source itself sets holds alone while it does. */
static bool check_together(const struct lh_track *t, const struct lh_track_source *source,
			   const struct lh_path_spec *spec, const struct subject *s)
{
	struct lh_path_spec asked = *spec;
	lh_cleanup_free struct lh_jitter_table *table = malloc(sizeof(*table));
	struct lh_track own = {.sources = (struct lh_track_source *)source, .n_sources = 1};
	struct lh_path_extremes all, alone;
	size_t before = s->diag->n_messages;
	struct lh_error err = {0};
	double loss, burst;

	lh_track_extremes(t, spec, source->begin_ns, source->end_ns, &all);
	lh_track_extremes(&own, spec, source->begin_ns, source->end_ns, &alone);
	loss = source->sets & LH_LOSS ? alone.loss_max_ratio : all.loss_max_ratio;
	burst = all.loss_burst_max_pkts;
	if ((source->sets & LH_LOSS) && source->change && (source->change->sets & LH_LOSS))
		loss = source->change->loss_ratio;
	if (source->change && (source->change->sets & LH_LOSS_BURST))
		burst = source->change->loss_burst_pkts;
	if ((source->sets & LH_LOSS_BURST) && !(loss > 0))
		say(s, "loss_burst without loss");
	if ((source->sets & (LH_LOSS | LH_LOSS_BURST)) && burst >= 1 && loss < 1 &&
	    loss > burst / (1 + burst))
		lh_diag_add(s->diag, s->pos, s->key_path,
			    "bursts of %g packets with at least one between them lose at most "
			    "%.3g %%",
			    burst, 100 * burst / (1 + burst));
	if (all.jitter_max_ns > 0)
		asked.jitter_ns = all.jitter_max_ns;
	if (source->change && (source->change->sets & LH_JITTER))
		asked.jitter_ns = source->change->jitter_ns;
	if (!(source->sets & (LH_DELAY | LH_JITTER)) || !lh_jitter_is_asked(&asked) ||
	    asked.jitter_ns == 0 || !table)
		return s->diag->n_messages > before;
	if (source->change && (source->change->sets & LH_DELAY))
		all.delay_min_ns = source->change->rtt_ns >= 0 ? source->change->rtt_ns / 2
							       : source->change->delay_ns;
	if (lh_jitter_make(&asked, NULL, table, &err) < 0)
		lh_diag_add(s->diag, s->pos, s->key_path, "jitter: %s", err.message);
	else if (all.delay_min_ns + table->lowest_ns < 0)
		say(s,
		    "with this delay and this jitter packets would arrive before they were sent");
	return s->diag->n_messages > before;
}

/* Checks what holds together on one directed path; said: by event, and the last for the path's
 * own trace, what has been complained about already. */
static void check_track(const struct lh_scenario *sc, const struct lh_path_spec *spec, int from,
			int to, bool *said, struct lh_diag *diag)
{
	struct lh_track t;
	struct lh_error err;

	if (from < 0 || to < 0 || lh_track_make(sc, (size_t)from, (size_t)to, &t, &err) < 0)
		return;
	for (size_t i = 0; i < t.n_sources; i++) {
		const struct lh_track_source *source = &t.sources[i];
		size_t index = source->event ? (size_t)(source->event - sc->events) : sc->n_events;
		lh_cleanup_free char *key_path =
			source->event ? lh_strf("timeline[%zu]", index)
				      : lh_strf("network.paths[%zu].trace",
						(size_t)(spec - sc->network.paths));
		struct subject s = {source->event ? source->event->pos : spec->pos, key_path, diag};

		if (!said[index])
			said[index] = check_bottleneck(sc, &t, source, spec, &s) ||
				      check_together(&t, source, spec, &s);
	}
	lh_track_done(&t);
}

static void check_all_tracks(const struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_network *net = &sc->network;
	lh_cleanup_free bool *said = calloc(sc->n_events + 1, sizeof(*said));

	for (size_t i = 0; said && i < net->n_paths; i++) {
		const struct lh_path_spec *p = &net->paths[i];
		int a = lh_site_find(net, p->n_between ? p->between[0] : p->from);
		int b = lh_site_find(net, p->n_between > 1 ? p->between[1] : p->to);

		said[sc->n_events] = false;
		check_track(sc, p, a, b, said, diag);
		if (p->n_between == 2)
			check_track(sc, p, b, a, said, diag);
	}
}

static void resolve_path_traces(struct lh_scenario *sc, struct lh_diag *diag)
{
	const struct lh_yaml *paths = lh_yaml_get(lh_yaml_get(sc->tree, "network"), "paths");

	for (size_t i = 0; i < sc->network.n_paths; i++) {
		const struct lh_yaml *written = lh_yaml_get(paths->entries[i].value, "trace");
		lh_cleanup_free char *key_path = lh_strf("network.paths[%zu].trace", i);

		if (written)
			lh_trace_resolve(&sc->network.paths[i].trace, written, key_path, diag);
	}
}

void lh_timeline_check(struct lh_scenario *sc, const int64_t *count, struct lh_diag *diag)
{
	const struct lh_yaml *timeline = lh_yaml_get(sc->tree, "timeline");

	resolve_path_traces(sc, diag);
	for (size_t i = 0; i < sc->n_events; i++) {
		const struct lh_yaml *written = timeline->entries[i].value;
		lh_cleanup_free char *key_path = lh_strf("timeline[%zu]", i);
		lh_cleanup_free char *trace_path = lh_strf("timeline[%zu].trace", i);
		struct lh_event *e = &sc->events[i];
		struct subject s = {e->pos, key_path, diag};

		if (written->kind != LH_YAML_MAPPING)
			continue;
		if (lh_yaml_get(written, "trace"))
			lh_trace_resolve(&e->trace, lh_yaml_get(written, "trace"), trace_path,
					 diag);
		if (lh_event_is_of_nodes(written)) {
			lh_node_event_check(sc, e, written, key_path, diag);
			continue;
		}
		check_form(e, written, &s);
		check_sites(sc, e, count, &s);
		check_shares(e, &s);
		check_overlaps(sc, i, &s);
	}
	if (!diag->n_messages)
		check_all_tracks(sc, diag);
}
