/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of a plan, and what follows from them. See plan.h. netem holds rate and queue of
 * most paths. A queue that is counted in bytes or managed, and a link that the nodes of a site
 * share, is a bottleneck by itself.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/plan_internal.h"

static const int64_t QUEUE_MAX_NS = INT64_C(3600000000000);
static const int64_t TCP_RTO_MIN_NS = 200000000; /* Linux's shortest time-out */
static const int64_t CODEL_TARGET_NS = 5000000;	 /* the kernel's own */
static const double NEARLY_LINK_RATIO = 0.65;
static const double LONGER_RATIO_MAX = 0.02; /* by which netem's queue may be longer */

enum {
	NS_PER_S = 1000000000,
	LIMIT_FLOOR_PKTS = 1000,
	SEGMENTS_PER_ACK = 2,
	BOTTLENECK_BURST_FRAMES = 2, /* so that late wake-ups cost none of the rate */
	BOTTLENECK_BURST_NS = 10000,
};

double lh_plan_bytes_in(int64_t rate_bps, int64_t duration_ns)
{
	return (double)rate_bps / 8 * ((double)duration_ns / NS_PER_S);
}

uint32_t lh_plan_u32(double v)
{
	return v >= UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static double wire_bytes(const struct lh_plan *plan)
{
	return plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
}

static bool is_inside_site(const struct lh_plan *plan, size_t from, size_t to)
{
	return plan->nodes[from].site == plan->nodes[to].site;
}

/* The shared links between two nodes: the first and the last, each NULL where there is none. */
static void links_between(const struct lh_plan *plan, size_t from, size_t to,
			  const struct lh_plan_bottleneck *ret[2])
{
	const struct lh_plan_access *out = plan->nodes[from].access, *in = plan->nodes[to].access;
	bool outside = !is_inside_site(plan, from, to);

	ret[0] = outside && out && out->up.bandwidth_bps ? &out->up : NULL;
	ret[1] = outside && in && in->down.bandwidth_bps ? &in->down : NULL;
}

bool lh_plan_shares_link(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_bottleneck *links[2];

	links_between(plan, from, to, links);
	return links[0] || links[1];
}

bool lh_plan_has_cross(const struct lh_plan *plan, size_t from, size_t to)
{
	return lh_plan_path_at(plan, from, to)->spec->cross.mean_bps > 0;
}

int64_t lh_plan_slowest_bps(const struct lh_plan *plan, size_t from, size_t to)
{
	int64_t slowest = lh_plan_path_at(plan, from, to)->bandwidth_bps;
	const struct lh_plan_bottleneck *links[2];

	if (plan->nodes[from].nic_up_bps < slowest)
		slowest = plan->nodes[from].nic_up_bps;
	if (plan->nodes[to].nic_down_bps < slowest)
		slowest = plan->nodes[to].nic_down_bps;
	links_between(plan, from, to, links);
	for (int i = 0; i < 2; i++)
		if (links[i] && links[i]->bandwidth_bps < slowest)
			slowest = links[i]->bandwidth_bps;
	return slowest;
}

int64_t lh_plan_slowest_from_bps(const struct lh_plan *plan, size_t from)
{
	int64_t slowest = plan->nodes[from].nic_up_bps;

	for (size_t to = 0; to < plan->n_nodes; to++)
		if (to != from && lh_plan_slowest_bps(plan, from, to) < slowest)
			slowest = lh_plan_slowest_bps(plan, from, to);
	return slowest;
}

double lh_plan_window_bytes(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);

	return p->clamp_segments ? (double)p->clamp_segments * plan->segment_bytes
				 : (double)plan->nodes[to].tcp->rmem_max_bytes;
}

/* How long a packet waits before the first is dropped or marked. */
static int64_t patience_ns(const struct lh_queue_spec *queue, int64_t queue_ns)
{
	int64_t target = queue->target_ns > 0 ? queue->target_ns : CODEL_TARGET_NS;

	return queue->discipline != LH_DROP_TAIL && target < queue_ns ? target : queue_ns;
}

/* Whether one stream's window is more than what is in flight and what may wait at a rate. */
static bool fills(const struct lh_plan *plan, size_t from, size_t to, int64_t rate_bps,
		  int64_t waiting_ns)
{
	return lh_plan_window_bytes(plan, from, to) >
	       lh_plan_bytes_in(rate_bps, lh_plan_rtt_ns(plan, from, to) + waiting_ns);
}

bool lh_plan_may_drop(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);

	return fills(plan, from, to, p->bandwidth_bps, patience_ns(&p->spec->queue, p->queue_ns));
}

bool lh_plan_may_queue(const struct lh_plan *plan, size_t from, size_t to)
{
	return fills(plan, from, to, lh_plan_path_at(plan, from, to)->bandwidth_bps,
		     lh_plan_rtt_ns(plan, from, to));
}

bool lh_plan_is_rough(const struct lh_plan_path *p)
{
	const struct lh_plan_chances *c = &p->chances;

	return c->loss || c->burst_in || c->duplicate || c->corrupt || c->reorder;
}

bool lh_plan_may_mislead(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_jitter_table *j = lh_plan_path_at(plan, from, to)->jitter;
	int64_t rtt = lh_plan_rtt_ns(plan, from, to);

	return j && j->highest_ns - j->lowest_ns > (rtt < TCP_RTO_MIN_NS ? rtt : TCP_RTO_MIN_NS);
}

/* Whether one stream runs a queue that drops so early that it empties: after a loss CUBIC keeps
 * 0.7 of its window. */
static bool may_run_empty(const struct lh_plan *plan, size_t from, size_t to, int64_t rate_bps,
			  const struct lh_queue_spec *queue, int64_t queue_ns)
{
	int64_t patience = patience_ns(queue, queue_ns);

	return fills(plan, from, to, rate_bps, patience) &&
	       (queue->discipline != LH_DROP_TAIL || patience < lh_plan_rtt_ns(plan, from, to) / 2);
}

/* Whether losses decide the speed of a stream: those of the path, of its way back, or of a queue.
 */
static bool is_loss_limited(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	const struct lh_plan_path *back = lh_plan_path_at(plan, to, from);
	const struct lh_plan_bottleneck *links[2];
	bool limited =
		lh_plan_is_rough(p) || lh_plan_is_rough(back) || p->jitter || back->jitter ||
		may_run_empty(plan, from, to, p->bandwidth_bps, &p->spec->queue, p->queue_ns);

	links_between(plan, from, to, links);
	for (int i = 0; i < 2; i++)
		limited |= links[i] && may_run_empty(plan, from, to, links[i]->bandwidth_bps,
						     links[i]->queue, links[i]->queue_ns);
	return limited;
}

int64_t lh_plan_stream_bps(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	double link, rtt_s = (double)lh_plan_rtt_ns(plan, from, to) / NS_PER_S;
	const struct lh_tcp *receiver = plan->nodes[to].tcp;
	const struct lh_tcp *sender = plan->nodes[from].tcp;
	double buffer;

	if (is_loss_limited(plan, from, to))
		return -1;
	link = (double)lh_plan_slowest_bps(plan, from, to) * plan->segment_bytes / wire_bytes(plan);
	if (p->clamp_segments && rtt_s > 0) {
		double window = 8.0 * p->clamp_segments * plan->segment_bytes / rtt_s;

		/* a window near what the link holds comes in bursts that queue there: it carries
		 * less than either, by up to a quarter */
		if (window < link && window > NEARLY_LINK_RATIO * link)
			return -1;
		if (window < link)
			return (int64_t)window;
	}
	/* a buffer holds overhead too: count on half of it, and on room for the queue */
	buffer = (double)(receiver->rmem_max_bytes < sender->wmem_max_bytes
				  ? receiver->rmem_max_bytes
				  : sender->wmem_max_bytes) /
		 2;
	if (rtt_s > 0 && 8.0 * buffer / rtt_s < 1.2 * link)
		return -1;
	return (int64_t)link;
}

int64_t lh_plan_queue_ns(const struct lh_plan *plan, const struct lh_queue_size *size,
			 int64_t rate_bps, int64_t rtt_ns)
{
	double bytes;

	switch (size->unit) {
	case LH_QUEUE_BYTES:
		bytes = (double)size->amount;
		break;
	case LH_QUEUE_PACKETS:
		bytes = (double)size->amount * wire_bytes(plan);
		break;
	case LH_QUEUE_BDP:
		return (int64_t)((double)size->amount / 1000 * (double)rtt_ns);
	default:
		return size->amount;
	}
	bytes = bytes * 8 / (double)rate_bps * NS_PER_S;
	return bytes >= (double)QUEUE_MAX_NS ? QUEUE_MAX_NS : (int64_t)bytes;
}

static struct lh_plan_bottleneck bottleneck_of(const struct lh_plan *plan,
					       const struct lh_queue_spec *queue, int64_t rate_bps,
					       int64_t queue_ns)
{
	double wire = wire_bytes(plan), held = lh_plan_bytes_in(rate_bps, queue_ns);
	double by_time = lh_plan_bytes_in(rate_bps, BOTTLENECK_BURST_NS);
	double by_frames = BOTTLENECK_BURST_FRAMES * wire;

	return (struct lh_plan_bottleneck){
		.queue = queue,
		.bandwidth_bps = rate_bps,
		.queue_ns = queue_ns,
		.burst_bytes = lh_plan_u32(by_time > by_frames ? by_time : by_frames),
		.limit_bytes = lh_plan_u32(held > wire ? held : wire),
		.limit_pkts = lh_plan_u32(ceil(held / wire) + 1),
	};
}

/* What a bottleneck lets pass at once waits in the netem behind it, which has the same rate. */
static void leave_to_netem(const struct lh_plan *plan, struct lh_plan_bottleneck *b)
{
	uint32_t frame = (uint32_t)wire_bytes(plan);

	b->limit_bytes =
		b->limit_bytes > b->burst_bytes + frame ? b->limit_bytes - b->burst_bytes : frame;
}

/* Full packets that are in flight on a path. */
static double full_in_flight(const struct lh_plan *plan, const struct lh_plan_path *p)
{
	return lh_plan_bytes_in(p->bandwidth_bps, lh_plan_longest_delay_ns(p)) / wire_bytes(plan);
}

/* Acknowledgements of a stream in the other direction that are in flight: they are short, and on
 * the way there may be more of them than of full packets. */
static double acks_in_flight(const struct lh_plan *plan, size_t from, size_t to)
{
	return lh_plan_bytes_in(lh_plan_path_at(plan, to, from)->bandwidth_bps,
				lh_plan_longest_delay_ns(lh_plan_path_at(plan, from, to))) /
	       wire_bytes(plan) / SEGMENTS_PER_ACK;
}

static double waiting_pkts(const struct lh_plan *plan, const struct lh_plan_path *p)
{
	return lh_plan_bytes_in(p->bandwidth_bps, p->queue_ns) / wire_bytes(plan);
}

/* Whether super-packets have to be cut before netem: what they are counted as matters. */
static bool is_split(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);

	return p->spec->queue.size.unit == LH_QUEUE_PACKETS || lh_plan_is_rough(p) ||
	       lh_plan_is_rough_later(p) || lh_plan_has_cross(plan, from, to) ||
	       lh_plan_may_drop(plan, from, to);
}

/* Whether the queue of a path is one that netem cannot be: managed, in bytes, or notably longer
 * by the room for acknowledgements. Inside a site with shared links no router stands before the
 * last, and netem is as near as one gets. */
static bool wants_bottleneck(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	const struct lh_queue_spec *queue = &p->spec->queue;
	const struct lh_plan_access *access = plan->nodes[from].access;
	double longer = acks_in_flight(plan, from, to) - full_in_flight(plan, p);
	bool is_longer = longer > 1 && longer > waiting_pkts(plan, p) * LONGER_RATIO_MAX &&
			 is_split(plan, from, to);

	return (queue->discipline != LH_DROP_TAIL || queue->size.unit == LH_QUEUE_BYTES ||
		p->varies || is_longer) &&
	       !(is_inside_site(plan, from, to) && access && access->site);
}

/* Packets that are in flight on a path, short ones counted as far as they are more. */
static double packets_in_flight(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	double late = lh_plan_bytes_in(p->bandwidth_bps, lh_plan_latest_ns(p)) / wire_bytes(plan);

	return fmax(acks_in_flight(plan, from, to), full_in_flight(plan, p)) + late;
}

/* The queue and netem's limit. */
static void plan_path_queue(struct lh_plan *plan, size_t from, size_t to)
{
	struct lh_plan_path *p = &plan->paths[from * plan->n_nodes + to];
	const struct lh_queue_spec *queue = &p->spec->queue;
	double in_flight = packets_in_flight(plan, from, to);

	p->queue_ns = lh_plan_queue_ns(plan, &queue->size, p->bandwidth_bps,
				       lh_plan_rtt_ns(plan, from, to));
	if (wants_bottleneck(plan, from, to)) {
		p->bottleneck = bottleneck_of(plan, queue, p->bandwidth_bps, p->queue_ns);
		leave_to_netem(plan, &p->bottleneck);
		p->limit_pkts = lh_plan_u32(ceil(in_flight) + LIMIT_FLOOR_PKTS);
		plan->uses_ecn |= queue->ecn;
		if (p->varies)
			lh_plan_adapt_bottleneck(plan, from, to, p, p->bandwidth_bps);
		return;
	}
	p->varies = false;
	p->splits_segments = queue->size.unit == LH_QUEUE_BYTES || is_split(plan, from, to);
	p->limit_pkts = lh_plan_u32(ceil(in_flight + waiting_pkts(plan, p)) +
				    (p->splits_segments ? 1 : LIMIT_FLOOR_PKTS));
}

uint32_t lh_plan_room_pkts(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	const struct lh_plan_bottleneck *links[2];
	uint32_t room = p->limit_pkts;

	if (p->bottleneck.bandwidth_bps)
		room = p->bottleneck.limit_pkts;
	links_between(plan, from, to, links);
	for (int i = 0; i < 2; i++)
		if (links[i] && links[i]->limit_pkts < room)
			room = links[i]->limit_pkts;
	return room;
}

static bool has_links(const struct lh_site *site)
{
	return site->uplink.bandwidth_bps > 0 || site->downlink.bandwidth_bps > 0;
}

static void plan_site_link(struct lh_plan *plan, const struct lh_site_link *link,
			   struct lh_plan_bottleneck *ret)
{
	if (link->bandwidth_bps <= 0)
		return;
	*ret = bottleneck_of(plan, &link->queue, link->bandwidth_bps,
			     lh_plan_queue_ns(plan, &link->queue.size, link->bandwidth_bps, 0));
	plan->uses_ecn |= link->queue.ecn;
}

/* The nodes of every site with shared links, and the links. */
static void plan_sites(struct lh_plan *plan)
{
	const struct lh_network *net = &plan->scenario->network;

	for (size_t s = 0; s < net->n_sites; s++) {
		struct lh_plan_access *access = &plan->accesses[plan->n_accesses];
		bool in_use = false;

		if (!has_links(&net->sites[s]))
			continue;
		for (size_t i = 0; i < plan->n_nodes; i++)
			if (plan->nodes[i].site == s) {
				plan->nodes[i].access = access;
				in_use = true;
			}
		if (!in_use)
			continue;
		plan->n_accesses++;
		access->site = &net->sites[s];
		plan_site_link(plan, &net->sites[s].uplink, &access->up);
		plan_site_link(plan, &net->sites[s].downlink, &access->down);
	}
}

/* The nodes with a bottleneck before them that have no routers of their site's. */
static void plan_staged(struct lh_plan *plan)
{
	struct lh_plan_access *common = &plan->accesses[plan->n_accesses];
	bool in_use = false;

	for (size_t to = 0; to < plan->n_nodes; to++) {
		struct lh_plan_node *node = &plan->nodes[to];

		for (size_t from = 0; from < plan->n_nodes; from++)
			node->is_staged |=
				from != to &&
				lh_plan_path_at(plan, from, to)->bottleneck.bandwidth_bps;
		if (node->is_staged && !node->access) {
			node->access = common;
			in_use = true;
		}
	}
	plan->n_accesses += in_use;
}

int lh_plan_queues(struct lh_plan *plan, struct lh_error *err)
{
	plan->accesses = calloc(plan->scenario->network.n_sites + 1, sizeof(*plan->accesses));
	if (!plan->accesses)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan the network");
	plan_sites(plan);
	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < plan->n_nodes; j++)
			if (i != j)
				plan_path_queue(plan, i, j);
	plan_staged(plan);
	return 0;
}
