/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel holds against what was asked for. See network_internal.h. */
#include <inttypes.h>
#include <linux/pkt_sched.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "emulator/netns.h"
#include "emulator/network_internal.h"

enum { TICK_NS = 64 };

static const int64_t BURST_MAX_NS = UINT32_MAX; /* that the kernel tells */

struct read_back {
	struct lh_net *net;
	size_t router;
	size_t n_netem;
	size_t n_bottlenecks;
	size_t n_managed; /* bottlenecks with an active queue management */
	size_t node;	  /* whose tbf is being read */
	int64_t ceil;	  /* of the classes that are being read */
	size_t n_seen;
};

static int compare_randomness(const struct lh_net *net, const struct lh_qdisc_state *s, size_t from,
			      size_t to, const struct lh_plan_path *p, struct lh_error *err)
{
	const struct lh_plan_chances *held = &s->chances, *asked = &p->chances;

	/* before Linux 6.6 the kernel takes a seed and forgets it: it does not say one then */
	if (held->loss == asked->loss && held->burst_in == asked->burst_in &&
	    held->burst_out == asked->burst_out && held->duplicate == asked->duplicate &&
	    held->corrupt == asked->corrupt && held->reorder == asked->reorder &&
	    s->gap == (asked->reorder ? 1 : 0) && !s->good_loss && !s->bad_pass &&
	    (!p->seed || s->seed == p->seed || (!s->seed && !net->owns_kernel)))
		return 0;
	return lh_fail(err, LH_ESYS, 0,
		       "netem from %s to %s holds chances of %" PRIu32 ", %" PRIu32 " and %" PRIu32
		       ", %" PRIu32 ", %" PRIu32 ", %" PRIu32 " in 2^32 (loss, bursts, duplicate, "
		       "corrupt, reorder) and the seed %" PRIu64 "; asked for %" PRIu32 ", %" PRIu32
		       " and %" PRIu32 ", %" PRIu32 ", %" PRIu32 ", %" PRIu32 ", %" PRIu64,
		       net->plan->nodes[from].name, net->plan->nodes[to].name, held->loss,
		       held->burst_in, held->burst_out, held->duplicate, held->corrupt,
		       held->reorder, s->seed, asked->loss, asked->burst_in, asked->burst_out,
		       asked->duplicate, asked->corrupt, asked->reorder, p->seed);
}

int lh_net_compare_netem(const struct lh_net *net, const struct lh_qdisc_state *s, size_t from,
			 size_t to, const struct lh_plan_path *p, struct lh_error *err)
{
	const struct lh_plan *plan = net->plan;
	int64_t rate = lh_rate_to_kernel(lh_plan_netem_bps(p));

	if (s->delay_ns == p->delay_ns && s->jitter_ns == (p->jitter ? p->jitter->sigma_ns : 0) &&
	    s->limit == p->limit_pkts && s->rate_bytes_per_s == rate)
		return compare_randomness(net, s, from, to, p, err);
	return lh_fail(err, LH_ESYS, 0,
		       "netem from %s to %s holds %" PRId64 " ns, %" PRId64 " B/s, %" PRIu32
		       " packets; asked for %" PRId64 ", %" PRId64 ", %" PRIu32,
		       plan->nodes[from].name, plan->nodes[to].name, s->delay_ns,
		       s->rate_bytes_per_s, s->limit, p->delay_ns, rate, p->limit_pkts);
}

/* Whether a tbf has a burst, which the kernel tells as time at its rate. */
static bool has_burst(const struct lh_qdisc_state *s, uint32_t bytes)
{
	double asked_ns = (double)bytes / (double)s->rate_bytes_per_s * 1e9;

	return fabs((double)s->burst_ns - asked_ns) <= TICK_NS + asked_ns / 1000 ||
	       asked_ns >= (double)BURST_MAX_NS;
}

int lh_net_compare_stage(const struct lh_qdisc_state *s, const struct lh_plan_bottleneck *b,
			 struct lh_error *err)
{
	int64_t rate = lh_rate_to_kernel(b->bandwidth_bps);

	if (s->rate_bytes_per_s == rate && s->limit == b->limit_bytes &&
	    has_burst(s, b->burst_bytes))
		return 0;
	return lh_fail(err, LH_ESYS, 0,
		       "a bottleneck holds %" PRId64 " B/s, %" PRIu32 " bytes, a burst of %" PRId64
		       " ns; asked for %" PRId64 ", %" PRIu32 ", %" PRIu32 " bytes",
		       s->rate_bytes_per_s, s->limit, s->burst_ns, rate, b->limit_bytes,
		       b->burst_bytes);
}

static int compare_aqm(const struct lh_qdisc_state *s, const struct lh_plan_bottleneck *b,
		       struct lh_error *err)
{
	const struct lh_queue_spec *q = b->queue;
	const char *kind = q->discipline == LH_CODEL ? "codel" : "fq_codel";
	int64_t target_us = q->target_ns > 0 ? q->target_ns / 1000 : LH_CODEL_TARGET_US;
	int64_t interval_us = q->interval_ns > 0 ? q->interval_ns / 1000 : LH_CODEL_INTERVAL_US;

	/* the kernel keeps times in units of 1024 ns */
	if (strcmp(s->kind, kind) == 0 && s->limit == b->limit_pkts && s->ecn == q->ecn &&
	    s->target_us <= target_us && s->target_us >= target_us - 2 &&
	    s->interval_us <= interval_us && s->interval_us >= interval_us - 2)
		return 0;
	return lh_fail(err, LH_ESYS, 0,
		       "%s holds %" PRIu32 " packets, %" PRIu32 " us, %" PRIu32 " us, ecn %" PRIu32
		       "; asked for %s with %" PRIu32 ", %" PRId64 ", %" PRId64 ", %d",
		       s->kind, s->limit, s->target_us, s->interval_us, s->ecn, kind, b->limit_pkts,
		       target_us, interval_us, q->ecn);
}

/* The link of a site whose tbf has the handle; NULL where it is none. */
static const struct lh_plan_bottleneck *link_of(const struct read_back *rb, int ifindex,
						uint32_t handle)
{
	const struct lh_net *net = rb->net;
	const struct lh_plan_access *access;
	size_t i = lh_net_owner(net, rb->router, ifindex);

	if (TC_H_MAJ(handle) >> 16 != LH_LINK_MAJOR || i >= net->plan->n_accesses)
		return NULL;
	access = &net->plan->accesses[i];
	if (net->ups[i].router == rb->router && net->ups[i].ifindex == ifindex)
		return access->up.bandwidth_bps ? &access->up : NULL;
	if (net->downs[i].router == rb->router && net->downs[i].ifindex == ifindex)
		return access->down.bandwidth_bps ? &access->down : NULL;
	return NULL;
}

/* The bottleneck that a tbf with the handle is, or NULL. */
static const struct lh_plan_bottleneck *bottleneck_at(const struct read_back *rb, int ifindex,
						      uint32_t handle)
{
	const struct lh_qdisc_state at = {.kind = "tbf", .ifindex = ifindex, .handle = handle};
	size_t from, to;

	if (lh_net_pair_of_stage(rb->net, &at, rb->router, &from, &to))
		return &lh_plan_path_at(rb->net->plan, from, to)->bottleneck;
	return link_of(rb, ifindex, handle);
}

static int compare_qdisc(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct read_back *rb = context;
	const struct lh_plan_bottleneck *b;
	size_t from, to;

	if (lh_net_pair_of_netem(rb->net, s, rb->router, &from, &to)) {
		rb->n_netem++;
		return lh_net_compare_netem(rb->net, s, from, to,
					    lh_plan_path_at(rb->net->plan, from, to), err);
	}
	if (strcmp(s->kind, "tbf") == 0 && (b = bottleneck_at(rb, s->ifindex, s->handle))) {
		rb->n_bottlenecks++;
		return lh_net_compare_stage(s, b, err);
	}
	if ((strcmp(s->kind, "codel") == 0 || strcmp(s->kind, "fq_codel") == 0) &&
	    (b = bottleneck_at(rb, s->ifindex, s->parent & TC_H_MAJ_MASK))) {
		rb->n_managed++;
		return compare_aqm(s, b, err);
	}
	return 0;
}

static int compare_class(const struct lh_class_state *s, void *context, struct lh_error *err)
{
	struct read_back *rb = context;

	rb->n_seen++;
	if (s->ceil_bytes_per_s == rb->ceil)
		return 0;
	return lh_fail(err, LH_ESYS, 0,
		       "htb class %x of %s holds %" PRId64 " B/s; asked for %" PRId64, s->minor,
		       rb->net->plan->nodes[rb->node].name, s->ceil_bytes_per_s, rb->ceil);
}

/* The classes of a link to the node that is being read. */
static int read_back_classes(struct read_back *rb, const struct lh_netdev *d, int64_t rate_bps,
			     struct lh_error *err)
{
	bool wakes = d == &rb->net->stages[rb->node] && lh_net_varies_to(rb->net->plan, rb->node);
	size_t n = rb->net->plan->n_nodes + wakes;
	int r;

	if (!d->ifindex || rb->net->plan->n_nodes < 2)
		return 0;
	rb->n_seen = 0;
	rb->ceil = lh_rate_to_kernel(rate_bps);
	r = lh_class_dump(rb->net->routers[d->router].nl, d->ifindex, compare_class, rb, err);
	if (r == 0 && rb->n_seen != n)
		r = lh_fail(err, LH_ESYS, 0, "a port of %s has %zu classes; asked for %zu",
			    rb->net->plan->nodes[rb->node].name, rb->n_seen, n);
	return r;
}

static int compare_tbf(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct read_back *rb = context;
	const struct lh_plan_node *n = &rb->net->plan->nodes[rb->node];

	if (strcmp(s->kind, "tbf") != 0)
		return 0;
	rb->n_seen++;
	if (s->rate_bytes_per_s == lh_rate_to_kernel(n->nic_up_bps) &&
	    s->limit == n->nic_limit_bytes)
		return 0;
	return lh_fail(err, LH_ESYS, 0, "tbf of %s holds %" PRId64 " B/s; asked for %" PRId64,
		       n->name, s->rate_bytes_per_s, lh_rate_to_kernel(n->nic_up_bps));
}

static int read_back_node(struct read_back *rb, struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int r = lh_net_enter_card(rb->net, rb->node, err);

	rb->n_seen = 0;
	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = lh_qdisc_dump(nl, compare_tbf, rb, err);
	lh_nl_close(nl);
	if (r == 0 && rb->n_seen != 1)
		r = lh_fail(err, LH_ESYS, 0, "node %s has %zu tbf; asked for 1",
			    rb->net->plan->nodes[rb->node].name, rb->n_seen);
	return r;
}

/* Counts what the routers should hold. */
static struct read_back count_asked(const struct lh_plan *plan)
{
	struct read_back asked = {.n_netem = plan->n_nodes * (plan->n_nodes - 1)};

	for (size_t i = 0; i < plan->n_nodes * plan->n_nodes; i++) {
		const struct lh_plan_bottleneck *b = &plan->paths[i].bottleneck;

		asked.n_bottlenecks += b->bandwidth_bps > 0;
		asked.n_managed += b->bandwidth_bps > 0 && b->queue->discipline != LH_DROP_TAIL;
	}
	for (size_t i = 0; i < 2 * plan->n_accesses; i++) {
		const struct lh_plan_access *access = &plan->accesses[i / 2];
		const struct lh_plan_bottleneck *b = i % 2 ? &access->up : &access->down;

		asked.n_bottlenecks += b->bandwidth_bps > 0;
		asked.n_managed += b->bandwidth_bps > 0 && b->queue->discipline != LH_DROP_TAIL;
	}
	return asked;
}

static int read_back_routers(struct read_back *rb, struct lh_error *err)
{
	struct read_back asked = count_asked(rb->net->plan);
	int r = 0;

	for (rb->router = 0; rb->router < rb->net->n_routers && r == 0; rb->router++)
		if (rb->net->routers[rb->router].nl)
			r = lh_qdisc_dump(rb->net->routers[rb->router].nl, compare_qdisc, rb, err);
	if (r < 0 || (rb->n_netem == asked.n_netem && rb->n_bottlenecks == asked.n_bottlenecks &&
		      rb->n_managed == asked.n_managed))
		return r;
	return lh_fail(err, LH_ESYS, 0,
		       "the routers hold %zu netem, %zu bottlenecks, %zu of them managed; asked "
		       "for %zu, %zu, %zu",
		       rb->n_netem, rb->n_bottlenecks, rb->n_managed, asked.n_netem,
		       asked.n_bottlenecks, asked.n_managed);
}

int lh_net_read_back(struct lh_net *net, struct lh_error *err)
{
	struct read_back rb = {.net = net};
	int r = read_back_routers(&rb, err);

	for (rb.node = 0; rb.node < net->plan->n_nodes && r == 0; rb.node++) {
		r = read_back_classes(&rb, &net->ports[rb.node],
				      net->plan->nodes[rb.node].nic_down_bps, err);
		if (r == 0)
			r = read_back_classes(&rb, &net->lines[rb.node], LH_UNLIMITED_BPS, err);
		if (r == 0)
			r = read_back_classes(&rb, &net->stages[rb.node], LH_UNLIMITED_BPS, err);
		if (r == 0)
			r = read_back_node(&rb, err);
		if (r == 0 && net->plan->nodes[rb.node].n_ranks > 1)
			r = lh_net_read_back_ranks(net, rb.node, err);
	}
	return r;
}
