/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner networks of nodes: between the first two ranks of the first node of each kind, as all
 * others of the kind are made of the same numbers. See probe.h.
 */
#include <errno.h>

#include "emulator/probe_internal.h"

enum {
	SPAN_FLOOR_NS = 2 * LH_NS_PER_MS,
	SETTLE_RTTS = 20,
	SPAN_PKTS = 100, /* that take at least as long: one more or less is 1 % */
};

static const double ratio = 0.05;
/* A reading of the virtual clock moves it by 256 ns, and an echo takes several. */
static const double rtt_abs_ms_virtual = 0.002, rtt_abs_ms_real = 1;

int64_t lh_inner_stream_bps(const struct lh_plan *plan, size_t node)
{
	const struct lh_plan_node *n = &plan->nodes[node];
	double payload = (double)(LH_INNER_MTU_BYTES - LH_TCP_HEADERS_BYTES) /
			 (LH_INNER_MTU_BYTES + LH_ETHERNET_HEADER_BYTES);
	double link = (double)n->inner.bandwidth_bps * payload;
	int64_t smaller = n->tcp->rmem_max_bytes < n->tcp->wmem_max_bytes ? n->tcp->rmem_max_bytes
									  : n->tcp->wmem_max_bytes;
	double rtt_s = 2.0 * (double)n->inner.delay_ns / LH_NS_PER_S;

	/* a buffer holds overhead, too: count on half of it, and on room for the queue */
	if (rtt_s > 0 && 4.0 * (double)smaller / rtt_s < 1.2 * link)
		return -1;
	return (int64_t)link;
}

/* Time that bytes take at a port. */
static double time_ns(const struct lh_plan_inner *inner, double bytes)
{
	return bytes * 8 / (double)inner->bandwidth_bps * LH_NS_PER_S;
}

static int add_rtt(const struct lh_plan *plan, size_t node, int64_t rtt_ns, struct lh_links *links,
		   struct lh_error *err)
{
	bool is_virtual = lh_run_is_exact(&plan->scenario->run);
	const struct lh_plan_inner *inner = &plan->nodes[node].inner;
	struct lh_link_row *row = lh_links_add(links);

	if (!row)
		return lh_fail(err, LH_ESYS, ENOMEM, "probe inner networks");
	row->kind = LH_LINK_INNER_RTT;
	row->from_node = row->to_node = node;
	row->target = 2 * (double)inner->delay_ns / LH_NS_PER_MS;
	row->achieved = rtt_ns < 0 ? -1 : (double)rtt_ns / LH_NS_PER_MS;
	row->tolerance_ratio = ratio;
	row->tolerance_abs = (is_virtual ? rtt_abs_ms_virtual : rtt_abs_ms_real) +
			     2 * time_ns(inner, LH_ECHO_WIRE_BYTES) / LH_NS_PER_MS;
	row->published = -1;
	lh_links_judge(links, row);
	return 0;
}

static int add_stream(struct lh_net *net, const struct lh_plan *plan, size_t node,
		      struct lh_links *links, struct lh_error *err)
{
	const struct lh_plan_inner *inner = &plan->nodes[node].inner;
	int64_t span_ns = (int64_t)time_ns(inner, (double)SPAN_PKTS * LH_INNER_MTU_BYTES);
	struct lh_stream_job job = {.from = node,
				    .to = node,
				    .streams = 1,
				    .measure_ns = span_ns > SPAN_FLOOR_NS ? span_ns : SPAN_FLOOR_NS,
				    .n_phases = 1};
	int64_t target_bps = lh_inner_stream_bps(plan, node);
	struct lh_link_row *row;
	int r;

	job.settle_ns = job.measure_ns + 2 * SETTLE_RTTS * inner->delay_ns;
	r = lh_probe_streams(net, plan, &job, 1, err);
	row = r < 0 ? NULL : lh_links_add(links);
	if (!row)
		return r < 0 ? r : lh_fail(err, LH_ESYS, ENOMEM, "probe inner networks");
	row->kind = LH_LINK_INNER_THROUGHPUT;
	row->from_node = row->to_node = node;
	row->streams = 1;
	row->duration_s = (double)job.measure_ns / LH_NS_PER_S;
	/* in real time a stream is as fast as the machine */
	row->target = target_bps < 0 || plan->scenario->run.clock == LH_CLOCK_REAL
			      ? -1
			      : (double)target_bps / 1e6;
	row->achieved = job.achieved_bps / 1e6;
	row->tolerance_ratio = ratio;
	row->published = -1;
	lh_links_judge(links, row);
	return 0;
}

int lh_probe_inner(struct lh_net *net, const struct lh_plan *plan, const int64_t *rtts,
		   struct lh_links *links, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < plan->n_nodes && r == 0; i++) {
		if (!lh_plan_is_first_inner(plan, i))
			continue;
		r = add_rtt(plan, i, rtts[i * plan->n_nodes + i], links, err);
		if (r == 0)
			r = add_stream(net, plan, i, links, err);
	}
	return r;
}
