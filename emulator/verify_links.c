/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links that the nodes of a site share: several nodes send half as much again as the link
 * carries, all through it. What arrives is its rate, and the longest wait its queue. See verify.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "emulator/probe_internal.h"
#include "emulator/verify_internal.h"

enum {
	N_TRAINS_MAX = 16,
	N_PACKETS = 600,       /* beyond what fills the queue */
	N_PACKETS_MAX = 50000, /* longer queues are left out */
	N_ARRIVALS_MIN = 20,
};

static const double overload = 1.5;
static const double rate_ratio_virtual = 0.01, rate_ratio_real = 0.05, queue_ratio = 0.1;

/* One direction of a site's link under test. */
struct test {
	const struct lh_plan_access *access;
	const struct lh_plan_bottleneck *link;
	bool is_up;
	struct lh_train trains[N_TRAINS_MAX];
	size_t n_trains;
};

/* Whether a node on the other side has a link of its own before it that is too slow. */
static bool is_behind_slower(const struct lh_plan *plan, const struct test *test, size_t node)
{
	const struct lh_plan_access *other = plan->nodes[node].access;
	int64_t bps = !other	    ? 0
		      : test->is_up ? other->down.bandwidth_bps
				    : other->up.bandwidth_bps;

	return bps && (double)bps < overload * (double)test->link->bandwidth_bps;
}

/* Pairs of nodes through the link, spread over both sides. */
static int choose_pairs(const struct lh_plan *plan, struct test *test, struct lh_error *err)
{
	lh_cleanup_free size_t *inside = calloc(2 * plan->n_nodes, sizeof(*inside));
	size_t *outside = inside + plan->n_nodes;
	size_t n_in = 0, n_out = 0;

	if (!inside)
		return lh_fail(err, LH_ESYS, ENOMEM, "verify the links of sites");
	for (size_t i = 0; i < plan->n_nodes; i++) {
		if (plan->nodes[i].access == test->access)
			inside[n_in++] = i;
		else if (!is_behind_slower(plan, test, i))
			outside[n_out++] = i;
	}
	for (size_t k = 0; k < n_in * n_out && test->n_trains < N_TRAINS_MAX; k++) {
		size_t in = inside[k % n_in], out = outside[(k / n_in + k % n_in) % n_out];
		size_t from = test->is_up ? in : out, to = test->is_up ? out : in;

		test->trains[test->n_trains++] =
			(struct lh_train){.from = from, .to = to, .at_once = 1, .in_one = 1};
	}
	return 0;
}

/* How many of the pairs have the same node at one end. */
static double count_sharing(const struct test *test, const struct lh_train *t, bool sender)
{
	double n = 0;

	for (size_t i = 0; i < test->n_trains; i++)
		n += sender ? test->trains[i].from == t->from : test->trains[i].to == t->to;
	return n;
}

/* Whether every pair can send its part of the overload: nothing else on its way is slower, and
 * nothing is random on it. */
static bool can_overload(const struct lh_plan *plan, const struct test *test)
{
	double part = overload * (double)test->link->bandwidth_bps / (double)test->n_trains;

	for (size_t i = 0; i < test->n_trains; i++) {
		const struct lh_train *t = &test->trains[i];
		const struct lh_plan_path *p = lh_plan_path_at(plan, t->from, t->to);
		if (p->seed || part > (double)p->bandwidth_bps ||
		    part * count_sharing(test, t, true) > (double)plan->nodes[t->from].nic_up_bps ||
		    part * count_sharing(test, t, false) > (double)plan->nodes[t->to].nic_down_bps)
			return false;
	}
	return test->n_trains > 0;
}

static struct lh_verify_row row_of(const struct test *test, enum lh_property property)
{
	struct lh_verify_row row = lh_verify_row_of(&test->trains[0], property);

	*(test->is_up ? &row.to_node : &row.from_node) = -1;
	return row;
}

/* From when until when all trains arrive. */
static void common_window(const struct test *test, int64_t *ret_begin, int64_t *ret_end)
{
	*ret_begin = INT64_MIN;
	*ret_end = INT64_MAX;
	for (size_t i = 0; i < test->n_trains; i++) {
		const struct lh_train *t = &test->trains[i];
		int64_t first = INT64_MAX, last = INT64_MIN;

		for (uint32_t k = 0; k < t->n_all; k++) {
			first = t->all_ns[k] < first ? t->all_ns[k] : first;
			last = t->all_ns[k] > last ? t->all_ns[k] : last;
		}
		*ret_begin = first > *ret_begin ? first : *ret_begin;
		*ret_end = last < *ret_end ? last : *ret_end;
	}
}

static int judge_rate(struct lh_verify *v, const struct test *test, double wire,
		      struct lh_error *err)
{
	struct lh_verify_row row =
		row_of(test, test->is_up ? LH_PROPERTY_UPLINK_RATE : LH_PROPERTY_DOWNLINK_RATE);
	int64_t begin, end;

	common_window(test, &begin, &end);
	row.n = 0;
	for (size_t i = 0; i < test->n_trains; i++)
		for (uint32_t k = 0; k < test->trains[i].n_all; k++)
			row.n += test->trains[i].all_ns[k] >= begin &&
				 test->trains[i].all_ns[k] < end;
	row.target = (double)test->link->bandwidth_bps / 1e6;
	row.tolerance = row.target * (v->is_virtual ? rate_ratio_virtual : rate_ratio_real);
	if (row.n >= N_ARRIVALS_MIN)
		row.achieved = (double)row.n * wire * 8e3 / (double)(end - begin);
	return lh_verify_add(v, row, err);
}

static int judge_queue(struct lh_verify *v, const struct test *test, double wire,
		       struct lh_error *err)
{
	struct lh_verify_row row =
		row_of(test, test->is_up ? LH_PROPERTY_UPLINK_QUEUE : LH_PROPERTY_DOWNLINK_QUEUE);
	double longest = 0;

	row.n = 0;
	for (size_t i = 0; i < test->n_trains; i++) {
		const struct lh_train *t = &test->trains[i];
		const struct lh_plan_path *p = lh_verify_path(v, t);
		double alone = (double)p->delay_ns + lh_verify_ns(wire, p->bandwidth_bps);

		row.n += t->n_arrived;
		for (uint32_t k = 0; k < t->n; k++)
			if (t->arrival_ns[k] >= 0)
				longest = fmax(longest, (double)t->delay_ns[k] - alone);
	}
	row.target = (double)test->link->queue_ns / LH_NS_PER_MS;
	row.achieved = longest / LH_NS_PER_MS;
	row.tolerance = queue_ratio * row.target +
			(double)test->n_trains * lh_verify_ns(wire, test->link->bandwidth_bps) /
				LH_NS_PER_MS +
			lh_delay_abs_ms_virtual;
	return lh_verify_add(v, row, err);
}

static int run_test(struct lh_verify *v, struct test *test, struct lh_error *err)
{
	double wire = lh_probe_wire_bytes(lh_probe_full_bytes(v->plan));
	double fill = 1.2 * test->link->limit_pkts * overload / (overload - 1);
	bool fills = v->is_virtual && test->link->queue->discipline == LH_DROP_TAIL &&
		     fill + N_PACKETS < N_PACKETS_MAX;
	double n = (N_PACKETS + (fills ? fill : 0)) / (double)test->n_trains;
	double gap_ns = (double)test->n_trains * lh_verify_ns(wire, test->link->bandwidth_bps);
	int r;

	for (size_t i = 0; i < test->n_trains; i++) {
		test->trains[i].n = test->trains[i].n_full = (uint32_t)ceil(n);
		test->trains[i].gap_ns = (int64_t)ceil(gap_ns / overload);
	}
	r = lh_trains_run(v->net, v->plan, test->trains, test->n_trains, err);
	if (r == 0)
		r = judge_rate(v, test, wire, err);
	if (r == 0 && fills)
		r = judge_queue(v, test, wire, err);
	for (size_t i = 0; i < test->n_trains; i++)
		lh_train_done(&test->trains[i]);
	return r;
}

int lh_verify_site_links(struct lh_verify *v, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < 2 * v->plan->n_accesses && r == 0; i++) {
		const struct lh_plan_access *access = &v->plan->accesses[i / 2];
		struct test test = {.access = access,
				    .link = i % 2 ? &access->down : &access->up,
				    .is_up = i % 2 == 0};

		if (!test.link->bandwidth_bps)
			continue;
		r = choose_pairs(v->plan, &test, err);
		if (r == 0 && can_overload(v->plan, &test))
			r = run_test(v, &test, err);
	}
	return r;
}
