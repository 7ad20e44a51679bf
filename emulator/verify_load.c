/* SPDX-License-Identifier: Apache-2.0 */
/* Rate and queue: full packets on one path at a time. See verify.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "core/stats.h"
#include "emulator/probe_internal.h"
#include "emulator/verify_internal.h"

enum {
	N_RATE = 200,
	N_RATE_MAX = 20000,
	RATE_NS = LH_NS_PER_MS, /* at least, of sending */
	SINGLE_NS = 3000,
	SUPER_BYTES = 64000,
	N_QUEUE_MAX = 50000, /* longer queues are left out */
	OVERLOAD = 4,	     /* times what the path carries */
};

static const double rate_ratio_virtual = 0.01, rate_ratio_real = 0.05;
static const double queue_ratio = 0.1;

/* Arrivals in order; how many. */
static size_t take_arrivals(const struct lh_train *t, double *ret)
{
	for (uint32_t i = 0; i < t->n_all; i++)
		ret[i] = (double)t->all_ns[i];
	lh_sort_doubles(ret, t->n_all);
	return t->n_all;
}

/* Whether super-packets are cut somewhere on the way. */
static bool is_cut(const struct lh_plan *plan, const struct lh_train *t)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, t->from, t->to);

	return p->splits_segments || p->bottleneck.bandwidth_bps ||
	       lh_plan_shares_link(plan, t->from, t->to);
}

/* Whether a path's queue can be made to overflow, and holds as much as it says then: it is drop-
 * tail, and nothing before or after it is slower. */
static bool has_plain_queue(const struct lh_plan *plan, const struct lh_train *t)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, t->from, t->to);
	int64_t nic = plan->nodes[t->from].nic_up_bps;

	if (plan->nodes[t->to].nic_down_bps < nic)
		nic = plan->nodes[t->to].nic_down_bps;
	return (p->splits_segments || p->bottleneck.bandwidth_bps) &&
	       p->spec->queue.discipline == LH_DROP_TAIL && !p->jitter &&
	       !lh_plan_shares_link(plan, t->from, t->to) && OVERLOAD * p->bandwidth_bps <= nic;
}

int lh_verify_rate(struct lh_verify *v, const struct lh_train *idle, struct lh_error *err)
{
	const struct lh_plan *plan = v->plan;
	const struct lh_plan_path *p = lh_verify_path(v, idle);
	int64_t slowest = lh_plan_slowest_bps(plan, idle->from, idle->to);
	double wire = lh_probe_wire_bytes(lh_probe_full_bytes(plan));
	double burst = plan->nodes[idle->from].nic_burst_bytes, n = N_RATE;
	struct lh_train t = {.from = idle->from, .to = idle->to, .at_once = 1, .in_one = 1};
	struct lh_verify_row row = lh_verify_row_of(&t, LH_PROPERTY_RATE);
	lh_cleanup_free double *arrivals = NULL;
	size_t n_arrived, half;
	uint32_t room;
	int r;

	if (plan->nodes[idle->to].nic_burst_bytes > burst)
		burst = plan->nodes[idle->to].nic_burst_bytes;
	/* a card lets a burst go before it holds its rate */
	if (slowest < p->bandwidth_bps)
		n += 4 * burst / wire;
	/* reading a clock takes virtual time: single packets cannot be sent at any rate */
	if (lh_verify_ns(wire, slowest) < SINGLE_NS && !is_cut(plan, &t))
		t.in_one = SUPER_BYTES / lh_probe_full_bytes(plan);
	if (lh_verify_ns(wire, slowest) * n < RATE_NS)
		n = RATE_NS / lh_verify_ns(wire, slowest);
	if (p->jitter)
		n += 4 * (double)(p->jitter->highest_ns - p->jitter->lowest_ns) /
		     lh_verify_ns(wire, slowest);
	t.n = t.n_full = n > N_RATE_MAX ? N_RATE_MAX : (uint32_t)n;
	t.no_checksum = p->chances.corrupt > 0;
	/* no more at once than the queue has room for */
	room = lh_plan_room_pkts(plan, t.from, t.to);
	if (t.n > room)
		t.n = t.n_full = room < 2 ? 2 : room;
	r = lh_trains_run(v->net, plan, &t, 1, err);
	arrivals = r == 0 ? calloc(2 * t.n, sizeof(*arrivals)) : NULL;
	if (r == 0 && !arrivals)
		r = lh_fail(err, LH_ESYS, ENOMEM, "verify the network");
	if (r == 0) {
		n_arrived = take_arrivals(&t, arrivals);
		half = n_arrived / 2;
		/* the last of those that came as one */
		while (half + 1 < n_arrived && arrivals[half + 1] <= arrivals[half])
			half++;
		row.n = (int64_t)(n_arrived - half);
		row.target = (double)slowest / 1e6;
		row.tolerance = row.target * (v->is_virtual ? rate_ratio_virtual : rate_ratio_real);
		if (n_arrived > half + 1)
			row.achieved = (double)(n_arrived - 1 - half) * wire * 8e3 /
				       (arrivals[n_arrived - 1] - arrivals[half]);
		r = lh_verify_add(v, row, err);
	}
	/* jitter reorders nothing, however close packets are */
	if (r == 0 && p->jitter && !p->chances.reorder) {
		row = lh_verify_row_of(&t, LH_PROPERTY_ORDER);
		row.achieved = t.n_overtaken;
		r = lh_verify_add(v, row, err);
	}
	lh_train_done(&t);
	return r;
}

/* Sends what the path carries until it is full, then four times as much until its queue is, and
 * looks at the longest delay. */
int lh_verify_queue(struct lh_verify *v, const struct lh_train *idle, struct lh_error *err)
{
	const struct lh_plan *plan = v->plan;
	const struct lh_plan_path *p = lh_verify_path(v, idle);
	double wire_ns =
		lh_verify_ns(lh_probe_wire_bytes(lh_probe_full_bytes(plan)), p->bandwidth_bps);
	double n_before = (double)p->delay_ns / wire_ns + 1;
	double n_after = 1.2 * (double)p->queue_ns / wire_ns * OVERLOAD / (OVERLOAD - 1) + 20;
	struct lh_train t = {.from = idle->from, .to = idle->to, .at_once = OVERLOAD, .in_one = 1};
	struct lh_verify_row row = lh_verify_row_of(&t, LH_PROPERTY_QUEUE);
	double longest = 0;
	int r;

	if (!v->is_virtual || n_before + n_after > N_QUEUE_MAX || !has_plain_queue(plan, &t))
		return 0;
	t.n = t.n_full = (uint32_t)(n_before + n_after);
	t.n_before = (uint32_t)n_before;
	t.gap_ns = wire_ns < 1 ? 1 : (int64_t)wire_ns;
	r = lh_trains_run(v->net, plan, &t, 1, err);
	for (uint32_t i = 0; i < t.n && r == 0; i++)
		if (t.arrival_ns[i] >= 0 && (double)t.delay_ns[i] > longest)
			longest = (double)t.delay_ns[i];
	if (r == 0) {
		row.n = t.n_arrived;
		row.target = (double)p->queue_ns / LH_NS_PER_MS;
		row.achieved = (longest - (double)p->delay_ns - wire_ns) / LH_NS_PER_MS;
		/* to whole packets, and to those that come together */
		row.tolerance = queue_ratio * row.target + OVERLOAD * wire_ns / LH_NS_PER_MS +
				lh_delay_abs_ms_virtual;
		r = lh_verify_add(v, row, err);
	}
	lh_train_done(&t);
	return r;
}
