/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routers, links, queues and routes of a network. See network.h.
 *
 * A node without an access of its own hangs on the router "wan": its port there has the delay
 * lines of all senders and the rate at which it receives. Nodes of a site with shared links, and
 * nodes with a bottleneck before them that netem cannot be, have more on the way to them:
 *
 *   node --> access --up: the site's uplink--> wan --stage: bottlenecks--> line
 *        --line: netem--> gate --down: the site's downlink--> access --port: rate--> node
 *
 * Without bottlenecks to a node wan itself has its line. Inside a site with shared links the
 * access hands packets over by itself; the port then has their delay lines.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/cable.h"
#include "emulator/link.h"
#include "emulator/netns.h"
#include "emulator/network_internal.h"
#include "emulator/qdisc.h"
#include "emulator/settings.h"

static const uint32_t network_prefix = 10u << 24 | 64u << 16; /* 10.64.0.0/10 */

enum { NETWORK_PREFIX_LEN = 10 };

void lh_net_mac_of(size_t i, enum lh_side side, uint8_t ret[6])
{
	const uint8_t mac[6] = {0x02, 0x4c, 0x48, (uint8_t)side, (uint8_t)(i >> 8), (uint8_t)i};

	memcpy(ret, mac, sizeof(mac));
}

bool lh_net_is_at_port(const struct lh_plan *plan, size_t from, size_t to)
{
	const struct lh_plan_access *access = plan->nodes[to].access;

	return !access || (access->site && plan->nodes[from].access == access);
}

static size_t access_router(const struct lh_plan *plan, size_t node)
{
	const struct lh_plan_access *access = plan->nodes[node].access;

	return access ? LH_ROUTER_ACCESS + (size_t)(access - plan->accesses) : LH_ROUTER_WAN;
}

static size_t line_router(const struct lh_plan *plan, size_t node)
{
	return plan->nodes[node].is_staged ? LH_ROUTER_LINE : LH_ROUTER_WAN;
}

static bool is_needed(const struct lh_plan *plan, size_t router)
{
	bool staged = false;

	for (size_t i = 0; i < plan->n_nodes; i++)
		staged |= plan->nodes[i].is_staged;
	return router == LH_ROUTER_LINE	  ? staged
	       : router == LH_ROUTER_GATE ? plan->n_accesses > 0
					  : true;
}

/* Its own addresses: without any the kernel takes no gateway. */
static int set_up_router(struct lh_net *net, struct lh_nl *nl, struct lh_error *err)
{
	int lo = -1;
	int r = lh_settings_router(net->pinned, err);

	if (r == 0)
		r = lo = lh_link_index("lo", err);
	return r < 0 ? r : lh_link_up(nl, lo, err);
}

static int add_routers(struct lh_net *net, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < net->n_routers && r == 0; i++) {
		struct lh_router *router = &net->routers[i];

		if (!is_needed(net->plan, i))
			continue;
		r = lh_netns_create(&router->ns_fd, err);
		if (r == 0)
			r = lh_nl_open(&router->nl, err);
		if (r == 0)
			r = set_up_router(net, router->nl, err);
	}
	return r;
}

int lh_net_set_up_address(struct lh_net *net, struct lh_nl *nl, size_t rank, int link,
			  struct lh_error *err)
{
	uint32_t address = net->plan->ranks[rank].address;
	struct lh_route route = {.prefix = network_prefix,
				 .prefix_len = NETWORK_PREFIX_LEN,
				 .gateway = LH_GATEWAY,
				 .source = address,
				 .initial_window = net->plan->initial_window_segments};
	uint8_t port_mac[6];
	int r = lh_address_add(nl, link, address, err);

	lh_net_mac_of(net->plan->ranks[rank].node, LH_SIDE_PORT, port_mac);
	if (r == 0)
		r = lh_neighbour_add(nl, link, LH_GATEWAY, port_mac, err);
	return r < 0 ? r : lh_route_add(nl, link, &route, err);
}

/* Makes the link of node i, in its namespace, to its router; in a guest that is the network alone,
 * the cable behind it, too. */
static int make_link(struct lh_net *net, struct lh_nl *nl, size_t i, int *ret_link,
		     struct lh_error *err)
{
	uint8_t mac[6], port_mac[6];
	char port[IFNAMSIZ];
	int r;

	lh_net_mac_of(i, LH_SIDE_NODE, mac);
	lh_net_mac_of(i, LH_SIDE_PORT, port_mac);
	snprintf(port, sizeof(port), "port%u", (unsigned)i);
	if (net->part == LH_NET_NODES)
		return lh_cable_take(net, nl, i, mac, ret_link, err);
	r = lh_veth_add(nl, "eth0", mac, port, port_mac,
			net->routers[access_router(net->plan, i)].ns_fd, net->plan->mtu_bytes, err);
	if (r == 0)
		r = *ret_link = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_link_up(nl, *ret_link, err);
	if (r == 0 && net->part == LH_NET_WAN)
		r = lh_cable_join(net, nl, i, *ret_link, err);
	return r;
}

/* In the namespace of node i: its link to its router, address and route. */
static int set_up_node(struct lh_net *net, struct lh_nl *nl, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	int lo = -1, link = -1, r = 0;

	if (n->n_ranks > 1)
		r = lh_settings_router(net->pinned, err);
	else if (net->part != LH_NET_WAN)
		r = lh_settings_node(net->plan, i, net->pinned, err);
	if (r == 0)
		r = lo = lh_link_index("lo", err);
	if (r >= 0)
		r = lh_link_up(nl, lo, err);
	if (r == 0)
		r = make_link(net, nl, i, &link, err);
	if (r == 0 && net->part != LH_NET_WAN && n->n_ranks < 2)
		r = lh_net_set_up_address(net, nl, n->first_rank, link, err);
	if (r == 0 && net->part == LH_NET_ALL)
		r = lh_net_sink_at_node(net, nl, i, err);
	return r < 0 || net->part != LH_NET_ALL ? r : lh_net_guard_at_node(net, nl, i, err);
}

static int add_node(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int r = lh_netns_create(&net->node_ns_fds[i], err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = set_up_node(net, nl, i, err);
	if (r == 0 && net->plan->nodes[i].n_ranks > 1)
		r = lh_net_add_ranks(net, i, err);
	lh_nl_close(nl);
	return r < 0 ? lh_error_prefix(err, "node %s", net->plan->nodes[i].name) : 0;
}

size_t lh_net_owner(const struct lh_net *net, size_t router, int ifindex)
{
	const struct lh_router *r = &net->routers[router];

	return ifindex >= 0 && (size_t)ifindex < r->n_owners ? r->owners[ifindex] : SIZE_MAX;
}

/* Keeps whose link it is: looking for it among all takes as long as there are nodes. */
static int note_owner(struct lh_router *r, int ifindex, size_t owner, struct lh_error *err)
{
	size_t n = (size_t)ifindex + 1;

	if (n > r->n_owners) {
		size_t *grown = reallocarray(r->owners, 2 * n, sizeof(*grown));

		if (!grown)
			return lh_fail(err, LH_ESYS, ENOMEM, "build the network");
		for (size_t i = r->n_owners; i < 2 * n; i++)
			grown[i] = SIZE_MAX;
		r->owners = grown;
		r->n_owners = 2 * n;
	}
	r->owners[ifindex] = owner;
	return 0;
}

/* Brings the named link of a router up; it is for that node or access. */
static int open_device(struct lh_net *net, size_t router, const char *name, size_t owner,
		       struct lh_netdev *ret, struct lh_error *err)
{
	int ifindex = -1;
	int r = lh_netns_enter(net->routers[router].ns_fd, err);

	if (r == 0)
		r = ifindex = lh_link_index(name, err);
	if (r >= 0)
		r = lh_link_up(net->routers[router].nl, ifindex, err);
	if (r == 0)
		r = note_owner(&net->routers[router], ifindex, owner, err);
	if (r == 0)
		*ret = (struct lh_netdev){router, ifindex};
	return r;
}

/* A link between two routers, named NAMEi at both ends, that packets take one way only: those for
 * the route, by way of the far end. */
static int connect_routers(struct lh_net *net, size_t from, size_t to, const char *name, size_t i,
			   enum lh_side side, struct lh_netdev *ret, struct lh_error *err)
{
	uint8_t mac[6], peer_mac[6];
	char link[IFNAMSIZ];
	struct lh_netdev far;
	int r = lh_netns_enter(net->routers[from].ns_fd, err);

	lh_net_mac_of(i, side, mac);
	lh_net_mac_of(i, side + 1, peer_mac);
	snprintf(link, sizeof(link), "%s%u", name, (unsigned)i);
	if (r == 0)
		r = lh_veth_add(net->routers[from].nl, link, mac, link, peer_mac,
				net->routers[to].ns_fd, net->plan->mtu_bytes, err);
	if (r == 0)
		r = open_device(net, to, link, i, &far, err);
	if (r == 0)
		r = open_device(net, from, link, i, ret, err);
	if (r == 0)
		r = lh_neighbour_add(net->routers[from].nl, ret->ifindex, LH_GATEWAY, peer_mac,
				     err);
	return r;
}

/* Routes to a node out of a router's link, to the router at its other end. */
static int route_to_node(struct lh_net *net, const struct lh_netdev *d, size_t node,
			 struct lh_error *err)
{
	struct lh_route route = {.prefix = net->plan->nodes[node].address,
				 .prefix_len = net->plan->nodes[node].prefix_len,
				 .gateway = LH_GATEWAY};

	return lh_route_add(net->routers[d->router].nl, d->ifindex, &route, err);
}

/* Everything out of an access but what stays in it goes up; what comes down goes to the ports. */
static int add_access(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_access *access = &net->plan->accesses[i];
	struct lh_route out = {
		.prefix = network_prefix, .prefix_len = NETWORK_PREFIX_LEN, .gateway = LH_GATEWAY};
	size_t router = LH_ROUTER_ACCESS + i;
	char down[IFNAMSIZ];
	int r = connect_routers(net, router, LH_ROUTER_WAN, "up", i, LH_SIDE_UP, &net->ups[i], err);

	if (r == 0)
		r = lh_route_add(net->routers[router].nl, net->ups[i].ifindex, &out, err);
	if (r == 0)
		r = connect_routers(net, LH_ROUTER_GATE, router, "down", i, LH_SIDE_UP + 2,
				    &net->downs[i], err);
	snprintf(down, sizeof(down), "down%u", (unsigned)i);
	if (r == 0)
		r = lh_rule_add(net->routers[router].nl, down, LH_TABLE_INWARDS, err);
	if (r == 0)
		r = lh_net_sink_at_links(net, i, err);
	return r < 0 && access->site ? lh_error_prefix(err, "links of site %s", access->site->name)
				     : r;
}

/* In a router's namespace: the port to node i. */
static int set_up_port(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	struct lh_route route = {.prefix = n->address,
				 .prefix_len = n->prefix_len,
				 /* a node with several ranks hands on to them */
				 .gateway = n->n_ranks > 1 ? n->address : 0};
	size_t router = access_router(net->plan, i);
	struct lh_nl *nl = net->routers[router].nl;
	uint8_t mac[6];
	char port[IFNAMSIZ];
	int r;

	lh_net_mac_of(i, LH_SIDE_NODE, mac);
	snprintf(port, sizeof(port), "port%u", (unsigned)i);
	r = open_device(net, router, port, i, &net->ports[i], err);
	if (r == 0 && (!n->access || n->access->site))
		r = lh_route_add(nl, net->ports[i].ifindex, &route, err);
	route.table = LH_TABLE_INWARDS;
	if (r == 0 && n->access)
		r = lh_route_add(nl, net->ports[i].ifindex, &route, err);
	if (r == 0)
		r = lh_neighbour_add(nl, net->ports[i].ifindex, n->address, mac, err);
	return r < 0 || net->part != LH_NET_ALL ? r : lh_net_guard_at_port(net, i, err);
}

/* The line to a node with an access. */
static int add_line(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct lh_netdev *access_down =
		&net->downs[net->plan->nodes[i].access - net->plan->accesses];
	int r = connect_routers(net, line_router(net->plan, i), LH_ROUTER_GATE, "line", i,
				LH_SIDE_LINE, &net->lines[i], err);

	if (r == 0)
		r = route_to_node(net, &net->lines[i], i, err);
	if (r == 0)
		r = route_to_node(net, access_down, i, err);
	return r < 0 ? r : lh_net_sink_at_line(net, i, err);
}

/* The link before that line, where there are bottlenecks. */
static int add_stage(struct lh_net *net, size_t i, struct lh_error *err)
{
	int r = connect_routers(net, LH_ROUTER_WAN, LH_ROUTER_LINE, "stage", i, LH_SIDE_STAGE,
				&net->stages[i], err);

	return r < 0 ? r : route_to_node(net, &net->stages[i], i, err);
}

/* What stands before the port to a node. */
static int add_way_to(struct lh_net *net, size_t i, struct lh_error *err)
{
	int r = set_up_port(net, i, err);

	if (r == 0 && net->plan->nodes[i].access && net->plan->n_nodes > 1)
		r = add_line(net, i, err);
	if (r == 0 && net->plan->nodes[i].is_staged)
		r = add_stage(net, i, err);
	return r < 0 ? lh_error_prefix(err, "port of node %s", net->plan->nodes[i].name) : 0;
}

static int wait_for_device(struct lh_net *net, const struct lh_netdev *d, struct lh_error *err)
{
	char name[IFNAMSIZ];
	int r = d->ifindex ? lh_netns_enter(net->routers[d->router].ns_fd, err) : 0;

	if (r < 0 || !d->ifindex)
		return r;
	if (!if_indextoname((unsigned)d->ifindex, name))
		return lh_fail(err, LH_ESYS, errno, "look up link %d", d->ifindex);
	return lh_link_wait(net->routers[d->router].nl, d->ifindex, name, err);
}

static int wait_for_node(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int link = -1;
	int r = lh_net_enter_card(net, i, err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = link = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_link_wait(nl, link, "eth0", err);
	lh_nl_close(nl);
	return r < 0 || net->plan->nodes[i].n_ranks < 2 ? r : lh_net_wait_ranks(net, i, err);
}

/* All links carry packets: none is lost before the first queue. */
static int wait_for_links(struct lh_net *net, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++) {
		r = wait_for_device(net, &net->ports[i], err);
		if (r == 0)
			r = wait_for_device(net, &net->lines[i], err);
		if (r == 0)
			r = wait_for_device(net, &net->stages[i], err);
		if (r == 0)
			r = wait_for_node(net, i, err);
	}
	for (size_t i = 0; i < net->plan->n_accesses && r == 0; i++) {
		r = wait_for_device(net, &net->ups[i], err);
		if (r == 0)
			r = wait_for_device(net, &net->downs[i], err);
	}
	return r;
}

int lh_net_build(struct lh_net *net, struct lh_error *err)
{
	int r = net->part == LH_NET_NODES ? 0 : add_routers(net, err);

	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		r = add_node(net, i, err);
	if (r < 0 || net->part == LH_NET_NODES)
		return r;
	for (size_t i = 0; i < net->plan->n_accesses && r == 0; i++)
		r = add_access(net, i, err);
	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		r = add_way_to(net, i, err);
	return r < 0 ? r : wait_for_links(net, err);
}
