/* SPDX-License-Identifier: Apache-2.0 */
/* The network plan. See plan.h. */
#include "emulator/plan_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/rng.h"

enum {
	NIC_QUEUE_FLOOR_BYTES = 256 << 10, /* a few of the largest super-packets */
	NIC_QUEUE_NS = 100000000,
	INITIAL_WINDOW_SEGMENTS = 10, /* RFC 6928 and Linux */
	TCP_MEM_PAGES = 1 << 28,
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

static void plan_node(struct lh_plan *plan, size_t i)
{
	const struct lh_node *node = &plan->scenario->nodes[i];
	const struct lh_machine *m = node->machine;
	struct lh_plan_node *n = &plan->nodes[i];
	double queue = lh_plan_bytes_in(m->nic.up_bps, NIC_QUEUE_NS);

	n->name = node->name;
	n->site = node->site;
	n->nic_up_bps = m->nic.up_bps;
	n->nic_down_bps = m->nic.down_bps;
	n->nic_limit_bytes =
		lh_plan_u32(queue > NIC_QUEUE_FLOOR_BYTES ? queue : NIC_QUEUE_FLOOR_BYTES);
	n->tcp = &m->tcp;
	for (size_t k = 0; k < plan->scenario->n_absences && !n->is_ever_away; k++)
		n->is_ever_away = plan->scenario->absences[k].node == i;
}

/* A share as netem compares it: with 32 random bits. */
static uint32_t chance_of(double ratio)
{
	return ratio > 0 ? lh_plan_u32(ratio * 0x1p32 + 0.5) : 0;
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

static void plan_path(struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_network *net = &plan->scenario->network;
	const struct lh_path_spec *spec =
		lh_path_spec_at(net, plan->nodes[from].site, plan->nodes[to].site);
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
	if (p->jitter || p->late_table || lh_plan_is_rough(p) || lh_plan_is_rough_later(p))
		p->seed = seed_of(plan, from, to);
	if (window > 0) {
		int64_t segments = window / plan->segment_bytes;

		p->clamp_segments = segments < 2 ? 2 : lh_plan_u32((double)segments);
	}
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
	double segments = lh_plan_bytes_in(lh_plan_slowest_from_bps(plan, from), BURST_NS) /
			  plan->segment_bytes;
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

	n->nic_burst_bytes = lh_plan_u32(by_time > by_segments ? by_time : by_segments);
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

/* A table that was made for a path with the same jitter, or NULL. */
static const struct lh_jitter_table *find_table(const struct lh_plan *plan,
						const struct lh_path_spec *path)
{
	for (size_t i = 0; i < plan->n_tables; i++) {
		const struct lh_path_spec *other = plan->tables[i].path;

		if (!path->n_jitter_samples && !other->n_jitter_samples &&
		    path->jitter_ns == other->jitter_ns &&
		    path->jitter_distribution == other->jitter_distribution)
			return plan->tables[i].table;
	}
	return NULL;
}

/* The tables of all paths whose delay varies. */
static int plan_jitter(struct lh_plan *plan, struct lh_error *err)
{
	const struct lh_network *net = &plan->scenario->network;
	struct lh_jitter_forms forms = {.quantiles = {NULL}};
	int r = 0;

	for (size_t i = 0; i < net->n_paths && r == 0; i++) {
		struct lh_jitter_table *table;

		if (!lh_jitter_is_asked(&net->paths[i]))
			continue;
		plan->jitter[i] = find_table(plan, &net->paths[i]);
		if (plan->jitter[i])
			continue;
		table = malloc(sizeof(*table));
		if (!table) {
			r = lh_fail(err, LH_ESYS, ENOMEM, "plan the network");
			break;
		}
		plan->tables[plan->n_tables++] = (struct lh_plan_table){&net->paths[i], table};
		plan->jitter[i] = table;
		r = lh_jitter_make(&net->paths[i], &forms, table, err);
	}
	lh_jitter_forms_done(&forms);
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
	plan->tables = calloc(scenario->network.n_paths + 1, sizeof(*plan->tables));
	if (!plan->nodes || !plan->paths || !plan->jitter || !plan->tables)
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
	r = lh_plan_ranks(plan, err);
	if (r < 0) {
		lh_plan_free(plan);
		return r;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			if (i != j)
				plan_path(plan, i, j);
	r = lh_plan_queues(plan, err);
	if (r < 0) {
		lh_plan_free(plan);
		return r;
	}
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
	for (size_t i = 0; i < plan->n_tables; i++)
		free(plan->tables[i].table);
	free(plan->tables);
	free(plan->jitter);
	lh_plan_tracks_done(plan);
	free(plan->accesses);
	free(plan->ranks);
	free(plan->nodes);
	free(plan->paths);
	free(plan);
}
