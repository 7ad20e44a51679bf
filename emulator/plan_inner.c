/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks and the networks between those of one node. See plan.h. Every node has a block of
 * addresses, as large as the node with the most ranks needs; with one rank each, one address.
 */
#include <errno.h>
#include <stdlib.h>

#include "emulator/plan_internal.h"

static const uint32_t network_address = 10u << 24 | 64u << 16; /* 10.64.0.0 */

enum {
	PORT_BURST_NS = 10000,
	PORT_QUEUE_NS = 100000000,
	PORT_QUEUE_FLOOR_BYTES = 16 << 20,
	PORT_LIMIT_PKTS = 1000000,
};

/* As many bits as count the ranks of a node. */
static unsigned bits_of_ranks(const struct lh_scenario *sc)
{
	unsigned bits = 0;

	for (size_t i = 0; i < sc->n_nodes; i++)
		while (sc->nodes[i].n_ranks > (size_t)1 << bits)
			bits++;
	return bits;
}

/* The port of one rank: nothing but its rate and the delay holds a packet up, and none is lost. */
static struct lh_plan_inner inner_of(const struct lh_inner *inner)
{
	double by_time = lh_plan_bytes_in(inner->bandwidth_bps, PORT_BURST_NS);
	double by_packets = 2.0 * LH_SUPER_PACKET_BYTES;
	double queue = lh_plan_bytes_in(inner->bandwidth_bps, PORT_QUEUE_NS);

	return (struct lh_plan_inner){
		.bandwidth_bps = inner->bandwidth_bps,
		.delay_ns = inner->delay_ns,
		.burst_bytes = lh_plan_u32(by_time > by_packets ? by_time : by_packets),
		.limit_bytes = lh_plan_u32(queue > PORT_QUEUE_FLOOR_BYTES ? queue
									  : PORT_QUEUE_FLOOR_BYTES),
		.limit_pkts = PORT_LIMIT_PKTS,
	};
}

static void plan_node(struct lh_plan *plan, size_t i)
{
	const struct lh_node *node = &plan->scenario->nodes[i];
	struct lh_plan_node *n = &plan->nodes[i];

	n->first_rank = node->first_rank;
	n->n_ranks = node->n_ranks;
	n->address = network_address + ((uint32_t)(i + 1) << plan->rank_bits);
	n->prefix_len = LH_ADDRESS_BITS - (int)plan->rank_bits;
	for (size_t k = 0; k < n->n_ranks; k++)
		plan->ranks[n->first_rank + k] = (struct lh_plan_rank){
			.name = plan->scenario->ranks[n->first_rank + k].name,
			.node = i,
			.local = k,
			.address = n->address + (uint32_t)k,
		};
	if (n->n_ranks < 2)
		return;
	n->inner = inner_of(&node->machine->inner);
	/* senders are held back before the shared card is full: see network_inner.c */
	n->nic_limit_bytes = UINT32_MAX;
}

int lh_plan_ranks(struct lh_plan *plan, struct lh_error *err)
{
	plan->n_ranks = plan->scenario->n_ranks;
	plan->rank_bits = bits_of_ranks(plan->scenario);
	plan->ranks = calloc(plan->n_ranks + 1, sizeof(*plan->ranks));
	if (!plan->ranks)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan the network");
	for (size_t i = 0; i < plan->n_nodes; i++)
		plan_node(plan, i);
	return 0;
}

size_t lh_plan_node_at(const struct lh_plan *plan, uint32_t address)
{
	size_t node = (size_t)(address - plan->nodes[0].address) >> plan->rank_bits;

	return address < plan->nodes[0].address || node >= plan->n_nodes ? plan->n_nodes : node;
}

static bool is_same(const struct lh_plan_inner *a, const struct lh_plan_inner *b)
{
	return a->bandwidth_bps == b->bandwidth_bps && a->delay_ns == b->delay_ns;
}

bool lh_plan_is_first_inner(const struct lh_plan *plan, size_t node)
{
	const struct lh_plan_node *n = &plan->nodes[node];

	if (n->n_ranks < 2)
		return false;
	for (size_t i = 0; i < node; i++)
		if (plan->nodes[i].n_ranks == n->n_ranks &&
		    is_same(&plan->nodes[i].inner, &n->inner) && plan->nodes[i].tcp == n->tcp)
			return false;
	return true;
}
