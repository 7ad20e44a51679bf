/* SPDX-License-Identifier: Apache-2.0 */
/* What of the plan changes in time: a path's state under changes, and its extremes. See plan.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "emulator/plan_internal.h"

static const int64_t RTO_MARGIN_NS = 200000000; /* Linux's least, on top of the round trip */
static const int64_t BITS_PER_BYTE = 8;

/*
 * What a bottleneck that changes lets go at once, beyond a frame: where it is fast whole
 * super-packets, as network cards do, else as much as its timer may be late. What is longer than
 * that when it is its turn would never pass: super-packets are cut then.
 */
static const int64_t BURST_NS = 1000000, LATE_NS_VIRTUAL = 5000;

/* In which a packet takes no time to speak of. */
static const int64_t ORDER_BPS = INT64_C(8000000000000);

/* ---- tracks ------------------------------------------------------------------------------ */

static int add_late_table(struct lh_plan *plan, size_t path_index, int64_t jitter_ns,
			  struct lh_jitter_forms *forms, struct lh_error *err)
{
	struct lh_path_spec asked = plan->scenario->network.paths[path_index];
	struct lh_jitter_table **table = &plan->late[path_index];

	if (!*table)
		*table = malloc(sizeof(**table));
	/* the deviations of both directions differ where one of them has an event of its own */
	asked.jitter_ns = jitter_ns;
	return *table ? lh_jitter_make(&asked, forms, *table, err)
		      : lh_fail(err, LH_ESYS, ENOMEM, "plan the network");
}

static bool has_node(const struct lh_scenario *sc, size_t site)
{
	for (size_t i = 0; i < sc->n_nodes; i++)
		if (sc->nodes[i].site == site)
			return true;
	return false;
}

static int add_track(struct lh_plan *plan, size_t from, size_t to, struct lh_jitter_forms *forms,
		     struct lh_error *err)
{
	const struct lh_network *net = &plan->scenario->network;
	size_t at = from * net->n_sites + to;
	const struct lh_path_spec *spec;
	int r;

	if (!has_node(plan->scenario, from) || !has_node(plan->scenario, to))
		return 0;
	spec = lh_path_spec_at(net, from, to);
	if (!spec)
		return 0;
	r = lh_track_make(plan->scenario, from, to, &plan->tracks[at], err);
	if (r < 0)
		return r;
	lh_track_extremes(&plan->tracks[at], spec, 0, INT64_MAX, &plan->extremes[at]);
	if ((plan->extremes[at].sets & LH_JITTER) && plan->extremes[at].jitter_max_ns > 0)
		r = add_late_table(plan, (size_t)(spec - net->paths),
				   plan->extremes[at].jitter_max_ns, forms, err);
	return r;
}

int lh_plan_tracks(struct lh_plan *plan, struct lh_error *err)
{
	const struct lh_network *net = &plan->scenario->network;
	struct lh_jitter_forms forms = {.quantiles = {NULL}};
	size_t n = net->n_sites;
	bool changes = false;
	int r = 0;

	for (size_t i = 0; i < plan->scenario->n_events; i++)
		changes |= plan->scenario->events[i].change.sets != 0 ||
			   plan->scenario->events[i].trace.sets != 0;
	for (size_t i = 0; i < net->n_paths; i++)
		changes |= net->paths[i].trace.sets != 0;
	if (!changes)
		return 0;
	plan->tracks = calloc(n * n, sizeof(*plan->tracks));
	plan->extremes = calloc(n * n, sizeof(*plan->extremes));
	plan->late = calloc(net->n_paths + 1, sizeof(*plan->late));
	if (!plan->tracks || !plan->extremes || !plan->late)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan the network");
	for (size_t i = 0; i < n * n && r == 0; i++)
		r = add_track(plan, i / n, i % n, &forms, err);
	lh_jitter_forms_done(&forms);
	return r;
}

void lh_plan_tracks_done(struct lh_plan *plan)
{
	size_t n = plan->scenario->network.n_sites;

	for (size_t i = 0; plan->tracks && i < n * n; i++)
		lh_track_done(&plan->tracks[i]);
	for (size_t i = 0; plan->late && i < plan->scenario->network.n_paths; i++)
		free(plan->late[i]);
	free(plan->tracks);
	free(plan->extremes);
	free(plan->late);
}

void lh_plan_add_track(const struct lh_plan *plan, size_t from, size_t to, struct lh_plan_path *p)
{
	const struct lh_network *net = &plan->scenario->network;
	size_t at = plan->nodes[from].site * net->n_sites + plan->nodes[to].site;

	if (!plan->tracks || !plan->tracks[at].n_sources)
		return;
	p->track = &plan->tracks[at];
	p->extremes = &plan->extremes[at];
	p->late_table = plan->late[p->spec - net->paths];
	p->varies = p->extremes->sets & (LH_DELAY | LH_BANDWIDTH | LH_QUEUE | LH_JITTER);
}

/* ---- states ------------------------------------------------------------------------------ */

void lh_plan_adapt_bottleneck(const struct lh_plan *plan, size_t from, size_t to,
			      struct lh_plan_path *p, int64_t queue_bps)
{
	uint32_t frame = plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	const struct lh_plan_path *own = lh_plan_path_at(plan, from, to);
	bool cuts = lh_plan_bytes_in(p->bandwidth_bps, BURST_NS) < LH_SUPER_PACKET_BYTES ||
		    lh_plan_is_rough(own) || lh_plan_is_rough_later(p);
	bool is_exact = cuts && plan->scenario->run.clock == LH_CLOCK_VIRTUAL;
	double burst = lh_plan_bytes_in(p->bandwidth_bps, is_exact ? LATE_NS_VIRTUAL : BURST_NS);
	int64_t longest = p->extremes->delay_max_ns + lh_plan_latest_ns(own);
	int64_t fastest = p->extremes->bandwidth_max_bps;
	double held;

	/* what passes at once waits in the netem behind, and is part of the queue, too */
	held = lh_plan_bytes_in(queue_bps, p->queue_ns) - (frame + burst);
	p->bottleneck.limit_bytes = lh_plan_u32(held > frame ? held : frame);
	p->bottleneck.burst_bytes = lh_plan_u32(frame + burst);
	p->uncut_bytes = cuts ? frame : LH_SUPER_PACKET_BYTES;
	/* the same at all times, so that nothing but the queue drops: not even acknowledgements
	 * alone fill it */
	p->limit_pkts = lh_plan_u32(lh_plan_bytes_in(fastest, longest) / LH_PURE_ACK_BYTES +
				    (double)LH_SUPER_PACKET_BYTES);
	if (p->bottleneck.queue->discipline != LH_DROP_TAIL)
		p->bottleneck.limit_pkts =
			lh_plan_u32(ceil(lh_plan_bytes_in(fastest, own->queue_ns) / frame) + 1);
}

int64_t lh_plan_netem_bps(const struct lh_plan_path *p)
{
	/* with a rate, any rate, netem keeps the order */
	return p->catches_up || !p->bandwidth_bps ? ORDER_BPS : p->bandwidth_bps;
}

static int64_t delay_under(const struct lh_path_change *c, int64_t own_ns, bool is_forward)
{
	if (!(c->sets & LH_DELAY))
		return own_ns;
	/* an odd nanosecond of the round trip goes to the direction a < b, as in the plan */
	return c->rtt_ns >= 0 ? (c->rtt_ns + is_forward) / 2 : c->delay_ns;
}

/* The shares of a path under a change. */
static struct lh_plan_chances chances_under(const struct lh_plan_path *p,
					    const struct lh_path_change *c)
{
	struct lh_path_spec asked = *p->spec;

	if (c->sets & LH_LOSS)
		asked.loss_ratio = c->loss_ratio;
	if (c->sets & LH_LOSS_BURST)
		asked.loss_burst_pkts = c->loss_burst_pkts;
	if (c->sets & LH_DUPLICATE)
		asked.duplicate_ratio = c->duplicate_ratio;
	if (c->sets & LH_CORRUPT)
		asked.corrupt_ratio = c->corrupt_ratio;
	if (c->sets & LH_REORDER)
		asked.reorder_ratio = c->reorder_ratio;
	/* nothing must be doubled then: of a packet that is doubled netem loses one only */
	if ((c->sets & LH_CUT) || asked.loss_ratio >= 1)
		return (struct lh_plan_chances){.loss = UINT32_MAX};
	return lh_plan_chances_of(&asked);
}

/* The bottleneck of a path that varies, as it is now. */
static void change_bottleneck(const struct lh_plan *plan, size_t from, size_t to,
			      struct lh_plan_path *p, const struct lh_path_change *there,
			      int64_t rtt_ns)
{
	const struct lh_queue_size *size =
		there->sets & LH_QUEUE ? &there->queue : &p->spec->queue.size;
	int64_t queue_bps;

	if (there->sets & LH_BANDWIDTH)
		p->bandwidth_bps = there->bandwidth_bps;
	queue_bps = there->queue_bps ? there->queue_bps : p->bandwidth_bps;
	p->queue_ns = lh_plan_queue_ns(plan, size, queue_bps, rtt_ns);
	p->bottleneck.queue_ns = p->queue_ns;
	p->bottleneck.bandwidth_bps = p->bandwidth_bps ? p->bandwidth_bps : BITS_PER_BYTE;
	lh_plan_adapt_bottleneck(plan, from, to, p, queue_bps);
}

void lh_plan_change_path(const struct lh_plan *plan, size_t from, size_t to,
			 const struct lh_path_change *there, const struct lh_path_change *back,
			 const struct lh_jitter_table *jitter, struct lh_plan_path *ret)
{
	const struct lh_plan_path *own = lh_plan_path_at(plan, from, to);
	int64_t back_ns = delay_under(back, lh_plan_path_at(plan, to, from)->delay_ns, to < from);
	struct lh_plan_path p = *own;

	p.chances = chances_under(own, there);
	p.delay_ns = delay_under(there, own->delay_ns, from < to);
	if (there->sets & LH_JITTER)
		p.jitter = jitter;
	if (own->varies)
		change_bottleneck(plan, from, to, &p, there, p.delay_ns + back_ns);
	*ret = p;
}

/* ---- extremes ---------------------------------------------------------------------------- */

int64_t lh_plan_longest_delay_ns(const struct lh_plan_path *p)
{
	return p->extremes && p->extremes->delay_max_ns > p->delay_ns ? p->extremes->delay_max_ns
								      : p->delay_ns;
}

int64_t lh_plan_latest_ns(const struct lh_plan_path *p)
{
	int64_t own = p->jitter ? p->jitter->highest_ns : 0;
	int64_t late = p->late_table ? p->late_table->highest_ns : 0;

	return own > late ? own : late;
}

static int64_t shortest_delay_ns(const struct lh_plan_path *p)
{
	return p->extremes && p->extremes->delay_min_ns < p->delay_ns ? p->extremes->delay_min_ns
								      : p->delay_ns;
}

bool lh_plan_is_rough_later(const struct lh_plan_path *p)
{
	const struct lh_path_extremes *x = p->extremes;

	return x && (((x->sets & LH_LOSS) && x->loss_max_ratio > 0) || x->duplicate_max_ratio > 0 ||
		     x->corrupt_max_ratio > 0 || x->reorder_max_ratio > 0);
}

bool lh_plan_may_ever_drop(const struct lh_plan *plan, size_t from, size_t to)
{
	/* where the path varies nothing but its queue drops: netem has room for all */
	return lh_plan_may_drop(plan, from, to) || lh_plan_path_at(plan, from, to)->varies;
}

/* Whether TCP may repeat itself for what happens on the path at some time. */
bool lh_plan_may_ever_repeat(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	const struct lh_plan_path *back = lh_plan_path_at(plan, to, from);
	int64_t shortest = shortest_delay_ns(p) + shortest_delay_ns(back);
	int64_t rise = lh_plan_longest_delay_ns(p) + lh_plan_longest_delay_ns(back) - shortest;
	const struct lh_path_extremes *x = p->extremes;

	if (!x)
		return false;
	if (x->loss_max_ratio >= 1 || lh_plan_is_rough_later(p) || !x->bandwidth_min_bps)
		return true;
	/* a round trip that gets longer at once, a delay that begins to vary, or a queue */
	return rise > (shortest < RTO_MARGIN_NS ? shortest : RTO_MARGIN_NS) || p->late_table ||
	       (x->sets & LH_JITTER) ||
	       lh_plan_window_bytes(plan, from, to) >
		       lh_plan_bytes_in(x->bandwidth_min_bps, 2 * shortest);
}

struct lh_plan_chances lh_plan_worst_chances(const struct lh_plan_path *p, bool *ret_loses_all)
{
	const struct lh_path_extremes *x = p->extremes;
	struct lh_path_spec worst = *p->spec;

	*ret_loses_all = x && x->loss_max_ratio >= 1;
	if (!x || *ret_loses_all)
		return p->chances;
	worst.loss_ratio = x->loss_max_ratio;
	worst.loss_burst_pkts = x->loss_burst_max_pkts;
	return lh_plan_chances_of(&worst);
}

int64_t lh_plan_longest_outage_ns(const struct lh_plan *plan)
{
	size_t n = plan->scenario->network.n_sites;
	int64_t longest = 0;

	for (size_t i = 0; plan->extremes && i < n * n; i++)
		if (plan->extremes[i].outage_max_ns > longest)
			longest = plan->extremes[i].outage_max_ns;
	return longest;
}
