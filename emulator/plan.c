/* SPDX-License-Identifier: Apache-2.0 */
/* The network plan. See plan.h. */
#include "emulator/plan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/rng.h"
#include "emulator/plan_internal.h"

static const int64_t TCP_RTO_MIN_NS = 200000000;		 /* Linux's shortest time-out */
static const uint32_t first_address = 10u << 24 | 64u << 16 | 1; /* 10.64.0.1 */

enum {
	LIMIT_FLOOR_PKTS = 1000,
	NIC_QUEUE_FLOOR_BYTES = 256 << 10, /* a few of the largest super-packets */
	NIC_QUEUE_NS = 100000000,
	INITIAL_WINDOW_SEGMENTS = 10, /* RFC 6928 and Linux */
	TCP_MEM_PAGES = 1 << 28,
	SEGMENTS_PER_ACK = 2,
	BURST_NS = 1000000,
	BURST_SEGMENTS_MIN = 2,	 /* Linux's default of tcp_min_tso_segs */
	BURST_SEGMENTS_MAX = 45, /* 64 KiB at the usual segment size */
	WINDOW_LOSS_DIVISOR = 200,
};

char *lh_address_format(uint32_t address, char *buf, size_t n_buf)
{
	snprintf(buf, n_buf, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255,
		 address & 255);
	return buf;
}

const struct lh_plan_path *lh_plan_path_at(const struct lh_plan *plan, size_t from, size_t to)
{
	return &plan->paths[from * plan->n_nodes + to];
}

int64_t lh_plan_rtt_ns(const struct lh_plan *plan, size_t a, size_t b)
{
	return lh_plan_path_at(plan, a, b)->delay_ns + lh_plan_path_at(plan, b, a)->delay_ns;
}

int64_t lh_plan_slowest_bps(const struct lh_plan *plan, size_t from, size_t to)
{
	int64_t slowest = lh_plan_path_at(plan, from, to)->bandwidth_bps;

	if (plan->nodes[from].nic_up_bps < slowest)
		slowest = plan->nodes[from].nic_up_bps;
	if (plan->nodes[to].nic_down_bps < slowest)
		slowest = plan->nodes[to].nic_down_bps;
	return slowest;
}

int64_t lh_plan_longest_rtt_ns(const struct lh_plan *plan)
{
	int64_t longest = 0;

	for (size_t i = 0; i < plan->n_nodes; i++)
		for (size_t j = 0; j < i; j++) {
			int64_t rtt = lh_plan_longest_delay_ns(lh_plan_path_at(plan, i, j)) +
				      lh_plan_longest_delay_ns(lh_plan_path_at(plan, j, i));

			if (rtt > longest)
				longest = rtt;
		}
	return longest;
}

double lh_plan_window_bytes(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);

	return p->clamp_segments ? (double)p->clamp_segments * plan->segment_bytes
				 : (double)plan->nodes[to].tcp->rmem_max_bytes;
}

bool lh_plan_may_drop(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);

	return lh_plan_window_bytes(plan, from, to) >
	       lh_plan_bytes_in(p->bandwidth_bps, lh_plan_rtt_ns(plan, from, to) + p->queue_ns);
}

bool lh_plan_may_queue(const struct lh_plan *plan, size_t from, size_t to)
{
	return lh_plan_window_bytes(plan, from, to) >
	       lh_plan_bytes_in(lh_plan_path_at(plan, from, to)->bandwidth_bps,
				2 * lh_plan_rtt_ns(plan, from, to));
}

int64_t lh_plan_stream_bps(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	double wire = plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	double link, rtt_s = (double)lh_plan_rtt_ns(plan, from, to) / NS_PER_S;
	const struct lh_tcp *receiver = plan->nodes[to].tcp;
	const struct lh_tcp *sender = plan->nodes[from].tcp;
	double buffer;

	/* after a loss CUBIC keeps 0.7 of its window: a shorter queue than this runs empty */
	if (lh_plan_is_rough(p) || lh_plan_is_rough(lh_plan_path_at(plan, to, from)) || p->jitter ||
	    lh_plan_path_at(plan, to, from)->jitter)
		return -1;
	if (lh_plan_may_drop(plan, from, to) && p->queue_ns < lh_plan_rtt_ns(plan, from, to) / 2)
		return -1;
	link = (double)lh_plan_slowest_bps(plan, from, to) * plan->segment_bytes / wire;
	if (p->clamp_segments && rtt_s > 0) {
		double window = 8.0 * p->clamp_segments * plan->segment_bytes / rtt_s;

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

static void plan_node(struct lh_plan *plan, size_t i)
{
	const struct lh_node *node = &plan->scenario->nodes[i];
	const struct lh_machine *m = node->machine;
	struct lh_plan_node *n = &plan->nodes[i];
	double queue = lh_plan_bytes_in(m->nic.up_bps, NIC_QUEUE_NS);

	n->name = node->name;
	n->site = node->site;
	n->address = first_address + (uint32_t)i;
	n->nic_up_bps = m->nic.up_bps;
	n->nic_down_bps = m->nic.down_bps;
	n->nic_limit_bytes =
		lh_to_u32(queue > NIC_QUEUE_FLOOR_BYTES ? queue : NIC_QUEUE_FLOOR_BYTES);
	n->tcp = &m->tcp;
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

/* A share as netem compares it: with 32 random bits. */
static uint32_t chance_of(double ratio)
{
	return ratio > 0 ? lh_to_u32(ratio * 0x1p32 + 0.5) : 0;
}

/*
 * Losses in bursts are Gilbert's: a packet in the bad state is lost, one in the good state
 * passes, and the state may change after each. The bad state lasts 1/r packets, the good one
 * 1/p, so that p / (p + r) of all are lost.
 */
struct lh_plan_chances lh_plan_chances_of(const struct lh_path_spec *spec)
{
	struct lh_plan_chances c = {
		.duplicate = chance_of(spec->duplicate_ratio),
		.corrupt = chance_of(spec->corrupt_ratio),
		.reorder = chance_of(spec->reorder_ratio),
	};

	if (spec->loss_ratio > 0 && spec->loss_burst_pkts > 0) {
		double r = 1 / spec->loss_burst_pkts;

		c.burst_out = chance_of(r);
		c.burst_in = chance_of(r * spec->loss_ratio / (1 - spec->loss_ratio));
	} else {
		c.loss = chance_of(spec->loss_ratio);
	}
	return c;
}

static uint64_t seed_of(const struct lh_plan *plan, size_t from, size_t to)
{
	char name[256];
	struct lh_rng rng;

	snprintf(name, sizeof(name), "netem %.100s %.100s", plan->nodes[from].name,
		 plan->nodes[to].name);
	lh_rng_init(&rng, (uint64_t)plan->scenario->run.seed, name);
	return (lh_rng_next(&rng) >> 1) | 1; /* positive in JSON, and never 0 */
}

/* The queue and netem's limit, once all delays are known. */
static void plan_queue(struct lh_plan *plan, size_t from, size_t to)
{
	struct lh_plan_path *p = &plan->paths[from * plan->n_nodes + to];
	double wire = plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	double on_the_way = lh_plan_bytes_in(p->bandwidth_bps, p->delay_ns) / wire;
	double held, acks;

	p->queue_ns = lh_plan_queue_ns(plan, &p->spec->queue, p->bandwidth_bps,
				       lh_plan_rtt_ns(plan, from, to));
	held = on_the_way + lh_plan_bytes_in(p->bandwidth_bps, p->queue_ns) / wire;
	p->splits_segments = p->spec->queue.unit == LH_QUEUE_BYTES ||
			     p->spec->queue.unit == LH_QUEUE_PACKETS || lh_plan_is_rough(p) ||
			     lh_plan_may_drop(plan, from, to) || lh_plan_is_rough_later(p);
	/* acknowledgements are short: more of them than of full packets may be on the way */
	acks = lh_plan_bytes_in(lh_plan_path_at(plan, to, from)->bandwidth_bps, p->delay_ns) /
	       wire / SEGMENTS_PER_ACK;
	if (acks > on_the_way)
		held += acks - on_the_way;
	if (p->jitter)
		held += lh_plan_bytes_in(p->bandwidth_bps, p->jitter->highest_ns) / wire;
	p->limit_pkts = lh_to_u32(ceil(held) + (p->splits_segments ? 1 : LIMIT_FLOOR_PKTS));
	if (p->varies) {
		/* a queue of bytes needs no cutting by itself */
		p->splits_segments = lh_plan_is_rough(p) || lh_plan_cuts_later(p);
		lh_plan_bottleneck(plan, from, to, p, 0);
	}
}

static void plan_path(struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_network *net = &plan->scenario->network;
	const char *a = net->sites[plan->nodes[from].site].name;
	const char *b = net->sites[plan->nodes[to].site].name;
	const struct lh_path_spec *spec = lh_path_spec_find(net, a, b);
	struct lh_plan_path *p = &plan->paths[from * plan->n_nodes + to];
	int64_t window = spec->stream_window_bytes > 0 ? spec->stream_window_bytes
						       : net->stream_window_bytes;

	p->spec = spec;
	/* an odd nanosecond of the round trip goes to the direction a < b */
	p->delay_ns = spec->n_between ? (spec->rtt_ns + (from < to)) / 2 : spec->delay_ns;
	p->bandwidth_bps = spec->bandwidth_bps;
	p->jitter = plan->jitter[spec - net->paths];
	p->chances = lh_plan_chances_of(spec);
	lh_plan_add_track(plan, from, to, p);
	if (p->jitter || lh_plan_is_rough(p) || p->late_table || lh_plan_is_rough_later(p))
		p->seed = seed_of(plan, from, to);
	if (window > 0) {
		int64_t segments = window / plan->segment_bytes;

		p->clamp_segments = segments < 2 ? 2 : lh_to_u32((double)segments);
	}
}

/* The slowest rate on the way from a node to any other. */
static int64_t slowest_bps(const struct lh_plan *plan, size_t from)
{
	int64_t slowest = plan->nodes[from].nic_up_bps;

	for (size_t to = 0; to < plan->n_nodes; to++) {
		if (to == from)
			continue;
		if (lh_plan_path_at(plan, from, to)->bandwidth_bps < slowest)
			slowest = lh_plan_path_at(plan, from, to)->bandwidth_bps;
		if (plan->nodes[to].nic_down_bps < slowest)
			slowest = plan->nodes[to].nic_down_bps;
	}
	return slowest;
}

/* Whether bursts of so many segments leave (nearly) no part of any window from the node unused. */
static bool fits_windows(const struct lh_plan *plan, size_t from, uint32_t burst)
{
	for (size_t to = 0; to < plan->n_nodes; to++) {
		uint32_t window = lh_plan_path_at(plan, from, to)->clamp_segments;

		if (to != from && window && window % burst > window / WINDOW_LOSS_DIVISOR)
			return false;
	}
	return true;
}

/*
 * Segments that a node's TCP hands over at once: as many as pass in a millisecond at the
 * slowest rate on their way, within the kernel's own bounds, and such that they fill the
 * windows. Linux aims at a millisecond, too, but at the stream's rate; larger bursts cost
 * less to emulate.
 */
static void plan_burst(struct lh_plan *plan, size_t from)
{
	double segments = lh_plan_bytes_in(slowest_bps(plan, from), BURST_NS) / plan->segment_bytes;
	uint32_t burst = segments < BURST_SEGMENTS_MIN	 ? BURST_SEGMENTS_MIN
			 : segments > BURST_SEGMENTS_MAX ? BURST_SEGMENTS_MAX
							 : (uint32_t)segments;

	while (burst > BURST_SEGMENTS_MIN && !fits_windows(plan, from, burst))
		burst--;
	plan->nodes[from].burst_segments = burst;
}

/* What a network card passes on at once: a millisecond's worth, or two of TCP's bursts. */
static void plan_nic_burst(struct lh_plan *plan, size_t i)
{
	struct lh_plan_node *n = &plan->nodes[i];
	double by_time = lh_plan_bytes_in(n->nic_up_bps, BURST_NS);
	double by_segments = 2.0 * n->burst_segments * (plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES);

	n->nic_burst_bytes = lh_to_u32(by_time > by_segments ? by_time : by_segments);
}

static void plan_settings(struct lh_plan *plan)
{
	const struct lh_scenario *sc = plan->scenario;

	plan->mtu_bytes = sc->run.segments == LH_SEGMENTS_COARSE ? LH_MTU_COARSE_BYTES
								 : (uint32_t)sc->network.mtu_bytes;
	plan->segment_bytes = plan->mtu_bytes - LH_TCP_HEADERS_BYTES;
	plan->initial_window_segments = INITIAL_WINDOW_SEGMENTS;
	if (sc->run.segments == LH_SEGMENTS_COARSE) {
		int64_t bytes =
			INITIAL_WINDOW_SEGMENTS * (sc->network.mtu_bytes - LH_TCP_HEADERS_BYTES);

		plan->initial_window_segments =
			(uint32_t)((bytes + plan->segment_bytes / 2) / plan->segment_bytes);
		if (!plan->initial_window_segments)
			plan->initial_window_segments = 1;
	}
	plan->guest_memory_bytes = sc->run.guest_memory_bytes;
	/* only bookkeeping: filler is shared pages, and hosts have memory of their own */
	for (int i = 0; i < 3; i++)
		plan->tcp_mem_pages[i] = TCP_MEM_PAGES;
}

/* The tables of all paths whose delay varies. */
static int plan_jitter(struct lh_plan *plan, struct lh_error *err)
{
	const struct lh_network *net = &plan->scenario->network;
	int r = 0;

	for (size_t i = 0; i < net->n_paths && r == 0; i++) {
		if (!lh_jitter_is_asked(&net->paths[i]))
			continue;
		plan->jitter[i] = malloc(sizeof(*plan->jitter[i]));
		r = plan->jitter[i] ? lh_jitter_make(&net->paths[i], plan->jitter[i], err)
				    : lh_fail(err, LH_ESYS, ENOMEM, "plan the network");
	}
	return r;
}

int lh_plan_build(const struct lh_scenario *scenario, struct lh_plan **ret_plan,
		  struct lh_error *err)
{
	struct lh_plan *plan = calloc(1, sizeof(*plan));
	size_t n = scenario->n_nodes;
	int r;

	if (!plan)
		goto oom;
	plan->scenario = scenario;
	plan->n_nodes = n;
	plan->nodes = calloc(n, sizeof(*plan->nodes));
	plan->paths = calloc(n * n, sizeof(*plan->paths));
	plan->jitter = calloc(scenario->network.n_paths + 1, sizeof(*plan->jitter));
	if (!plan->nodes || !plan->paths || !plan->jitter)
		goto oom;
	r = plan_jitter(plan, err);
	if (r == 0)
		r = lh_plan_tracks(plan, err);
	if (r < 0) {
		lh_plan_free(plan);
		return r;
	}
	plan_settings(plan);
	for (size_t i = 0; i < n; i++)
		plan_node(plan, i);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			if (i != j)
				plan_path(plan, i, j);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			if (i != j)
				plan_queue(plan, i, j);
	for (size_t i = 0; i < n; i++) {
		plan_burst(plan, i);
		plan_nic_burst(plan, i);
	}
	*ret_plan = plan;
	return 0;
oom:
	lh_plan_free(plan);
	return lh_fail(err, LH_ESYS, ENOMEM, "plan the network");
}

void lh_plan_free(struct lh_plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; plan->jitter && i < plan->scenario->network.n_paths; i++)
		free(plan->jitter[i]);
	free(plan->jitter);
	lh_plan_tracks_done(plan);
	free(plan->nodes);
	free(plan->paths);
	free(plan);
}

static json_t *node_to_json(const struct lh_plan *plan, size_t i)
{
	const struct lh_plan_node *n = &plan->nodes[i];
	char address[16];

	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I}", "node", n->name,
			 "site", plan->scenario->network.sites[n->site].name, "address",
			 lh_address_format(n->address, address, sizeof(address)), "nic_up_bps",
			 (json_int_t)n->nic_up_bps, "nic_down_bps", (json_int_t)n->nic_down_bps,
			 "nic_burst_bytes", (json_int_t)n->nic_burst_bytes, "nic_limit_bytes",
			 (json_int_t)n->nic_limit_bytes, "burst_segments",
			 (json_int_t)n->burst_segments, "congestion_control",
			 n->tcp->congestion_control, "rmem_max_bytes",
			 (json_int_t)n->tcp->rmem_max_bytes, "wmem_max_bytes",
			 (json_int_t)n->tcp->wmem_max_bytes);
}

static void add_chance(json_t *path, const char *key, uint32_t chance)
{
	if (chance)
		json_object_set_new(path, key, json_integer(chance));
}

/* What is random on a path; keys of what is not are left out. */
static void add_randomness(json_t *path, const struct lh_plan_path *p)
{
	static const char *const names[] = {[LH_JITTER_NORMAL] = "normal",
					    [LH_JITTER_PARETO] = "pareto",
					    [LH_JITTER_PARETONORMAL] = "paretonormal",
					    [LH_JITTER_UNIFORM] = "uniform",
					    [LH_JITTER_EMPIRICAL] = "empirical"};

	if (p->jitter) {
		json_object_set_new(path, "jitter_ns", json_integer(llround(p->jitter->sd_ns)));
		json_object_set_new(
			path, "jitter_distribution",
			json_string(
				names[p->spec->n_jitter_samples ? LH_JITTER_EMPIRICAL
								: p->spec->jitter_distribution]));
		json_object_set_new(path, "jitter_sigma_ns", json_integer(p->jitter->sigma_ns));
		json_object_set_new(path, "jitter_lowest_ns", json_integer(p->jitter->lowest_ns));
		json_object_set_new(path, "jitter_highest_ns", json_integer(p->jitter->highest_ns));
	}
	add_chance(path, "loss_of_2_32", p->chances.loss);
	add_chance(path, "burst_in_of_2_32", p->chances.burst_in);
	add_chance(path, "burst_out_of_2_32", p->chances.burst_out);
	add_chance(path, "duplicate_of_2_32", p->chances.duplicate);
	add_chance(path, "corrupt_of_2_32", p->chances.corrupt);
	add_chance(path, "reorder_of_2_32", p->chances.reorder);
	if (p->seed)
		json_object_set_new(path, "seed", json_integer((json_int_t)p->seed));
}

static json_t *path_to_json(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);

	json_t *path =
		json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "from",
			  plan->nodes[from].name, "to", plan->nodes[to].name, "delay_ns",
			  (json_int_t)p->delay_ns, "bandwidth_bps", (json_int_t)p->bandwidth_bps,
			  "queue_ns", (json_int_t)p->queue_ns, "limit_pkts",
			  (json_int_t)p->limit_pkts, "clamp_segments",
			  (json_int_t)p->clamp_segments, "splits_segments", p->splits_segments);

	add_randomness(path, p);
	if (p->varies) {
		json_object_set_new(path, "queue_bytes", json_integer(p->queue_bytes));
		json_object_set_new(path, "burst_bytes", json_integer(p->burst_bytes));
		json_object_set_new(path, "uncut_bytes", json_integer(p->uncut_bytes));
	}
	return path;
}

json_t *lh_plan_to_json(const struct lh_plan *plan)
{
	json_t *nodes = json_array();
	json_t *paths = json_array();

	for (size_t i = 0; i < plan->n_nodes; i++) {
		json_array_append_new(nodes, node_to_json(plan, i));
		for (size_t j = 0; j < plan->n_nodes; j++)
			if (i != j)
				json_array_append_new(paths, path_to_json(plan, i, j));
	}
	return json_pack("{s:s, s:I, s:I, s:I, s:[I,I,I], s:o, s:o}", "format",
			 "longhaul-network/1", "mtu_bytes", (json_int_t)plan->mtu_bytes,
			 "segment_bytes", (json_int_t)plan->segment_bytes,
			 "initial_window_segments", (json_int_t)plan->initial_window_segments,
			 "tcp_mem_pages", (json_int_t)plan->tcp_mem_pages[0],
			 (json_int_t)plan->tcp_mem_pages[1], (json_int_t)plan->tcp_mem_pages[2],
			 "nodes", nodes, "paths", paths);
}
