/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes with several ranks. See network_internal.h. The node is a router; each rank is a namespace
 * behind it with two links:
 *
 *   rank --eth0 ------> gpu --redirect--> eth0 of the node --tbf: the node's card--> its router
 *   rank --inner0 (tbf: port outwards)--> inner --routes--> inner of another (netem: delay and
 *                                                           port inwards) --> inner0 of that rank
 *
 * What a rank sends to other nodes is redirected to the node's card, not routed: so a packet stays
 * its socket's until the card has sent it, and TCP hands over no more than tcp_limit_output_bytes
 * of each (routing ends that). The card needs no bound for what waits then.
 */
#include <linux/pkt_sched.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "core/cleanup.h"
#include "emulator/link.h"
#include "emulator/netns.h"
#include "emulator/network_internal.h"
#include "emulator/settings.h"

/* A rank while its links are made. */
struct place {
	struct lh_net *net;
	size_t node;
	size_t rank;
	struct lh_nl *own; /* into its namespace */
	struct lh_nl *hub; /* into the node's */
};

/* The names of a rank's links in the node. */
static void hub_name(const struct lh_plan *plan, size_t rank, const char *kind, char ret[IFNAMSIZ])
{
	snprintf(ret, IFNAMSIZ, "%s%u", kind, (unsigned)plan->ranks[rank].local);
}

/* A link from a rank's namespace, where the thread is, into its node. */
static int add_link(const struct place *p, const char *name, const char *kind, enum lh_side side,
		    uint32_t mtu_bytes, struct lh_error *err)
{
	uint8_t mac[6], hub_mac[6];
	char hub[IFNAMSIZ];
	int link = -1, r;

	lh_net_mac_of(p->rank, side, mac);
	lh_net_mac_of(p->rank, side + 1, hub_mac);
	hub_name(p->net->plan, p->rank, kind, hub);
	r = lh_veth_add(p->own, name, mac, hub, hub_mac, p->net->node_ns_fds[p->node], mtu_bytes,
			err);
	if (r == 0)
		r = link = lh_link_index(name, err);
	return r < 0 ? r : lh_link_up(p->own, link, err);
}

/* In a rank's namespace: addresses and routes. */
static int set_up_rank(const struct place *p, struct lh_error *err)
{
	const struct lh_plan *plan = p->net->plan;
	const struct lh_plan_node *n = &plan->nodes[p->node];
	struct lh_route inside = {.prefix = n->address,
				  .prefix_len = n->prefix_len,
				  .gateway = LH_GATEWAY,
				  .source = plan->ranks[p->rank].address};
	uint8_t hub_mac[6];
	int lo = -1, link = -1, inner = -1;
	int r = lh_settings_node(plan, p->node, p->net->pinned, err);

	if (r == 0)
		r = lo = lh_link_index("lo", err);
	if (r >= 0)
		r = lh_link_up(p->own, lo, err);
	if (r == 0)
		r = add_link(p, "eth0", "gpu", LH_SIDE_RANK, plan->mtu_bytes, err);
	if (r == 0)
		r = add_link(p, "inner0", "inner", LH_SIDE_INNER, LH_INNER_MTU_BYTES, err);
	if (r == 0)
		r = link = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_net_set_up_address(p->net, p->own, p->rank, link, err);
	if (r == 0)
		r = inner = lh_link_index("inner0", err);
	lh_net_mac_of(p->rank, LH_SIDE_INNER_PORT, hub_mac);
	if (r >= 0)
		r = lh_neighbour_add(p->own, inner, LH_GATEWAY, hub_mac, err);
	return r < 0 ? r : lh_route_add(p->own, inner, &inside, err);
}

/* In the node's namespace: one of a rank's links, and the way to the rank over it. */
static int set_up_hub_link(const struct place *p, const char *kind, enum lh_side side,
			   uint32_t table, int *ret_link, struct lh_error *err)
{
	uint32_t address = p->net->plan->ranks[p->rank].address;
	struct lh_route route = {.prefix = address, .prefix_len = LH_ADDRESS_BITS, .table = table};
	uint8_t mac[6];
	char name[IFNAMSIZ];
	int r;

	lh_net_mac_of(p->rank, side, mac);
	hub_name(p->net->plan, p->rank, kind, name);
	r = *ret_link = lh_link_index(name, err);
	if (r >= 0)
		r = lh_link_up(p->hub, *ret_link, err);
	if (r == 0)
		r = lh_route_add(p->hub, *ret_link, &route, err);
	return r < 0 ? r : lh_neighbour_add(p->hub, *ret_link, address, mac, err);
}

/* In the node's namespace: what comes from other ranks of it goes on by the inner network, what
 * comes from outside by the rank's other link, and what a rank sends there to the card. */
static int set_up_hub(const struct place *p, int card, struct lh_error *err)
{
	lh_cleanup_close int prog_fd = -1;
	int gpu = -1, inner = -1;
	int r = set_up_hub_link(p, "gpu", LH_SIDE_RANK, LH_TABLE_INWARDS, &gpu, err);

	if (r == 0)
		r = set_up_hub_link(p, "inner", LH_SIDE_INNER, 0, &inner, err);
	if (r == 0)
		r = lh_bpf_load_redirect(card, &prog_fd, err);
	return r < 0 ? r : lh_ingress_add(p->hub, gpu, LH_INGRESS_FIRST, prog_fd, err);
}

static int add_rank(struct place *p, int card, struct lh_error *err)
{
	int r = lh_netns_create(&p->net->rank_ns_fds[p->rank], err);

	if (r == 0)
		r = lh_nl_open(&p->own, err);
	if (r == 0)
		r = set_up_rank(p, err);
	lh_nl_close(p->own);
	p->own = NULL;
	if (r == 0)
		r = lh_net_enter_card(p->net, p->node, err);
	return r < 0 ? r : set_up_hub(p, card, err);
}

int lh_net_add_ranks(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	struct place p = {.net = net, .node = i};
	int card = -1;
	int r = lh_net_enter_card(net, i, err);

	if (r == 0)
		r = lh_nl_open(&net->node_nls[i], err);
	p.hub = net->node_nls[i];
	if (r == 0)
		r = card = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_rule_add(p.hub, "eth0", LH_TABLE_INWARDS, err);
	for (size_t k = n->first_rank; k < n->first_rank + n->n_ranks && r == 0; k++) {
		p.rank = k;
		r = add_rank(&p, card, err);
	}
	return r;
}

/* Waits for a link of the current namespace. */
static int wait_for(struct lh_nl *nl, const char *name, struct lh_error *err)
{
	int link = lh_link_index(name, err);

	return link < 0 ? link : lh_link_wait(nl, link, name, err);
}

/* Both links of a rank, seen from it. */
static int wait_for_rank(struct lh_net *net, size_t rank, struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int r = lh_net_enter_rank(net, rank, err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = wait_for(nl, "eth0", err);
	if (r == 0)
		r = wait_for(nl, "inner0", err);
	lh_nl_close(nl);
	return r;
}

int lh_net_wait_ranks(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	char name[IFNAMSIZ];
	int r = 0;

	for (size_t k = n->first_rank; k < n->first_rank + n->n_ranks && r == 0; k++) {
		r = lh_net_enter_card(net, i, err);
		hub_name(net->plan, k, "gpu", name);
		if (r == 0)
			r = wait_for(net->node_nls[i], name, err);
		hub_name(net->plan, k, "inner", name);
		if (r == 0)
			r = wait_for(net->node_nls[i], name, err);
		if (r == 0)
			r = wait_for_rank(net, k, err);
	}
	return r;
}

/* What the netem of a port inwards is to hold. */
static struct lh_plan_path port_path(const struct lh_plan_inner *inner)
{
	return (struct lh_plan_path){.delay_ns = inner->delay_ns,
				     .bandwidth_bps = inner->bandwidth_bps,
				     .limit_pkts = inner->limit_pkts};
}

static int shape_rank(struct lh_net *net, size_t i, size_t rank, struct lh_error *err)
{
	const struct lh_plan_inner *inner = &net->plan->nodes[i].inner;
	const struct lh_plan_path path = port_path(inner);
	struct lh_nl *nl = NULL;
	char name[IFNAMSIZ];
	int link = -1, r = lh_net_enter_card(net, i, err);

	hub_name(net->plan, rank, "inner", name);
	if (r == 0)
		r = link = lh_link_index(name, err);
	if (r >= 0)
		r = lh_netem_root_add(net->node_nls[i], link, &path, err);
	if (r == 0)
		r = lh_net_enter_rank(net, rank, err);
	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = link = lh_link_index("inner0", err);
	if (r >= 0)
		r = lh_tbf_add(nl, link, inner->bandwidth_bps, inner->burst_bytes,
			       inner->limit_bytes, err);
	lh_nl_close(nl);
	return r;
}

int lh_net_shape_ranks(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	int r = 0;

	for (size_t k = n->first_rank; k < n->first_rank + n->n_ranks && r == 0; k++)
		r = shape_rank(net, i, k, err);
	return r < 0 ? lh_error_prefix(err, "inner network of node %s", n->name) : 0;
}

/* Qdiscs of one kind, while they are compared: netem inwards, tbf outwards. */
struct comparison {
	const struct lh_plan_node *node;
	bool is_inwards;
	size_t n_seen;
};

static int compare(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct comparison *c = context;
	const struct lh_plan_inner *inner = &c->node->inner;
	uint32_t limit = c->is_inwards ? inner->limit_pkts : inner->limit_bytes;

	if (strcmp(s->kind, c->is_inwards ? "netem" : "tbf") != 0)
		return 0;
	c->n_seen++;
	if (s->rate_bytes_per_s == lh_rate_to_kernel(inner->bandwidth_bps) && s->limit == limit &&
	    s->delay_ns == (c->is_inwards ? inner->delay_ns : 0))
		return 0;
	return lh_fail(err, LH_ESYS, 0,
		       "%s of the inner network of %s holds %lld ns, %lld B/s, %lu; asked for "
		       "%lld, %lld, %lu",
		       s->kind, c->node->name, (long long)s->delay_ns,
		       (long long)s->rate_bytes_per_s, (unsigned long)s->limit,
		       (long long)inner->delay_ns,
		       (long long)lh_rate_to_kernel(inner->bandwidth_bps), (unsigned long)limit);
}

static int read_back_rank(struct lh_net *net, size_t rank, struct comparison *c,
			  struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int r = lh_net_enter_rank(net, rank, err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = lh_qdisc_dump(nl, compare, c, err);
	lh_nl_close(nl);
	return r;
}

int lh_net_read_back_ranks(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	struct comparison c = {.node = n, .is_inwards = true};
	int r = lh_qdisc_dump(net->node_nls[i], compare, &c, err);

	c.is_inwards = false;
	for (size_t k = n->first_rank; k < n->first_rank + n->n_ranks && r == 0; k++)
		r = read_back_rank(net, k, &c, err);
	if (r == 0 && c.n_seen != 2 * n->n_ranks)
		r = lh_fail(err, LH_ESYS, 0,
			    "the inner network of %s has %zu tbf and netem; asked for %zu", n->name,
			    c.n_seen, 2 * n->n_ranks);
	return r;
}

static int count(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct lh_net_counter *sum = context;

	(void)err;
	if (strcmp(s->kind, "netem") != 0)
		return 0;
	sum->wire_bytes += s->bytes;
	sum->wire_packets += s->packets;
	sum->dropped_packets += s->drops;
	return 0;
}

int lh_net_count_inner(struct lh_net *net, size_t i, struct lh_net_counter *ret,
		       struct lh_error *err)
{
	return lh_qdisc_dump(net->node_nls[i], count, ret, err);
}
