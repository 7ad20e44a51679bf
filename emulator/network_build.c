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
#include "emulator/link.h"
#include "emulator/netns.h"
#include "emulator/network_internal.h"
#include "emulator/qdisc.h"
#include "emulator/settings.h"

static const uint32_t network_prefix = 10u << 24 | 64u << 16; /* 10.64.0.0/10 */

enum {
	NETWORK_PREFIX_LEN = 10,
	TABLE_INWARDS = 100, /* in an access: for what comes from outside */
	UNLIMITED_BURST_BYTES = 1 << 20,
};

/* Both ends of a link, for locally administered addresses. */
enum side { SIDE_NODE, SIDE_PORT, SIDE_LINE, SIDE_GATE, SIDE_STAGE, SIDE_STAGED, SIDE_UP = 8 };

static void mac_of(size_t i, enum side side, uint8_t ret[6])
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

/* In the namespace of node i: its link to its router, address, route and sending rate. */
static int set_up_node(struct lh_net *net, struct lh_nl *nl, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	struct lh_route route = {.prefix = network_prefix,
				 .prefix_len = NETWORK_PREFIX_LEN,
				 .gateway = LH_GATEWAY,
				 .source = n->address,
				 .initial_window = net->plan->initial_window_segments};
	uint8_t mac[6], port_mac[6];
	char port[IFNAMSIZ];
	int lo = -1, link = -1, r;

	mac_of(i, SIDE_NODE, mac);
	mac_of(i, SIDE_PORT, port_mac);
	snprintf(port, sizeof(port), "port%u", (unsigned)i);
	r = lh_settings_node(net->plan, i, net->pinned, err);
	if (r == 0)
		r = lo = lh_link_index("lo", err);
	if (r >= 0)
		r = lh_link_up(nl, lo, err);
	if (r == 0)
		r = lh_veth_add(nl, "eth0", mac, port, port_mac,
				net->routers[access_router(net->plan, i)].ns_fd,
				net->plan->mtu_bytes, err);
	if (r == 0)
		r = link = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_link_up(nl, link, err);
	if (r == 0)
		r = lh_address_add(nl, link, n->address, err);
	if (r == 0)
		r = lh_neighbour_add(nl, link, LH_GATEWAY, port_mac, err);
	if (r == 0)
		r = lh_route_add(nl, link, &route, err);
	if (r == 0)
		r = lh_tbf_add(nl, link, n->nic_up_bps, n->nic_burst_bytes, n->nic_limit_bytes,
			       err);
	return r < 0 ? r : lh_net_sink_at_node(net, nl, i, err);
}

static int add_node(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int r = lh_netns_create(&net->node_ns_fds[i], err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = set_up_node(net, nl, i, err);
	lh_nl_close(nl);
	return r < 0 ? lh_error_prefix(err, "node %s", net->plan->nodes[i].name) : 0;
}

/* Brings the named link of a router up. */
static int open_device(struct lh_net *net, size_t router, const char *name, struct lh_device *ret,
		       struct lh_error *err)
{
	int ifindex = -1;
	int r = lh_netns_enter(net->routers[router].ns_fd, err);

	if (r == 0)
		r = ifindex = lh_link_index(name, err);
	if (r >= 0)
		r = lh_link_up(net->routers[router].nl, ifindex, err);
	if (r == 0)
		*ret = (struct lh_device){router, ifindex};
	return r;
}

/* A link between two routers, named NAMEi at both ends, that packets take one way only: those for
 * the route, by way of the far end. */
static int connect_routers(struct lh_net *net, size_t from, size_t to, const char *name, size_t i,
			   enum side side, struct lh_device *ret, struct lh_error *err)
{
	uint8_t mac[6], peer_mac[6];
	char link[IFNAMSIZ];
	struct lh_device far;
	int r = lh_netns_enter(net->routers[from].ns_fd, err);

	mac_of(i, side, mac);
	mac_of(i, side + 1, peer_mac);
	snprintf(link, sizeof(link), "%s%u", name, (unsigned)i);
	if (r == 0)
		r = lh_veth_add(net->routers[from].nl, link, mac, link, peer_mac,
				net->routers[to].ns_fd, net->plan->mtu_bytes, err);
	if (r == 0)
		r = open_device(net, to, link, &far, err);
	if (r == 0)
		r = open_device(net, from, link, ret, err);
	if (r == 0)
		r = lh_neighbour_add(net->routers[from].nl, ret->ifindex, LH_GATEWAY, peer_mac,
				     err);
	return r;
}

/* Routes to a node out of a router's link, to the router at its other end. */
static int route_to_node(struct lh_net *net, const struct lh_device *d, size_t node,
			 struct lh_error *err)
{
	struct lh_route route = {
		.prefix = net->plan->nodes[node].address, .prefix_len = 32, .gateway = LH_GATEWAY};

	return lh_route_add(net->routers[d->router].nl, d->ifindex, &route, err);
}

/* Everything out of an access but what stays in it goes up; what comes down goes to the ports. */
static int add_access(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_access *access = &net->plan->accesses[i];
	struct lh_route out = {
		.prefix = network_prefix, .prefix_len = NETWORK_PREFIX_LEN, .gateway = LH_GATEWAY};
	size_t router = LH_ROUTER_ACCESS + i;
	uint32_t frame = net->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	char down[IFNAMSIZ];
	int r = connect_routers(net, router, LH_ROUTER_WAN, "up", i, SIDE_UP, &net->ups[i], err);

	if (r == 0)
		r = lh_route_add(net->routers[router].nl, net->ups[i].ifindex, &out, err);
	if (r == 0)
		r = connect_routers(net, LH_ROUTER_GATE, router, "down", i, SIDE_UP + 2,
				    &net->downs[i], err);
	snprintf(down, sizeof(down), "down%u", (unsigned)i);
	if (r == 0)
		r = lh_rule_add(net->routers[router].nl, down, TABLE_INWARDS, err);
	if (r == 0 && access->up.bandwidth_bps)
		r = lh_bottleneck_add(net->routers[router].nl, net->ups[i].ifindex, &access->up,
				      frame, err);
	if (r == 0 && access->down.bandwidth_bps)
		r = lh_bottleneck_add(net->routers[LH_ROUTER_GATE].nl, net->downs[i].ifindex,
				      &access->down, frame, err);
	if (r == 0)
		r = lh_net_sink_at_links(net, i, err);
	return r < 0 && access->site ? lh_error_prefix(err, "links of site %s", access->site->name)
				     : r;
}

/* How a link sorts packets by sender: who has a class, and who is counted. */
struct sorting {
	bool at_port; /* those whose netem is at the port, else the others */
	int64_t rate_bps;
	uint32_t burst_bytes;
	size_t first_counted;
	size_t n_counted;
};

static int sort_senders(struct lh_net *net, const struct lh_device *d, const struct sorting *s,
			struct lh_error *err)
{
	lh_cleanup_close int prog_fd = -1;
	int r = lh_bpf_classifier_open(&net->bpf, net->plan, s->first_counted, s->n_counted,
				       &prog_fd, err);

	return r < 0 ? r : lh_filter_add(net->routers[d->router].nl, d->ifindex, prog_fd, err);
}

/* The classes of a link to a node, and the netem of those whose place is here. */
static int shape(struct lh_net *net, const struct lh_device *d, size_t to, const struct sorting *s,
		 struct lh_error *err)
{
	struct lh_nl *nl = net->routers[d->router].nl;
	uint32_t frame = net->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	int64_t share = s->rate_bps / (int64_t)(net->plan->n_nodes - 1);
	int r = lh_htb_add(nl, d->ifindex, s->rate_bps, s->burst_bytes, err);

	for (size_t from = 0; from < net->plan->n_nodes && r == 0; from++) {
		if (from == to)
			continue;
		r = lh_htb_class_add(nl, d->ifindex, (unsigned)from, share, s->rate_bps,
				     s->burst_bytes, err);
		if (r == 0 && lh_net_is_at_port(net->plan, from, to) == s->at_port)
			r = lh_netem_add(nl, d->ifindex, (unsigned)from,
					 lh_plan_path_at(net->plan, from, to), frame, err);
	}
	return r;
}

/* The senders inside the site of a node with an access, as a range. */
static void count_inside(const struct lh_plan *plan, size_t to, struct sorting *s)
{
	s->n_counted = 0;
	for (size_t i = 0; i < plan->n_nodes; i++)
		if (lh_net_is_at_port(plan, i, to) && s->n_counted++ == 0)
			s->first_counted = i;
}

/* The port to node i: what comes from each other node is limited, and delayed unless a line has
 * done it. */
static int shape_port(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	struct sorting s = {.at_port = true,
			    .rate_bps = n->nic_down_bps,
			    .burst_bytes = n->nic_burst_bytes,
			    .n_counted = net->plan->n_nodes};
	int r = shape(net, &net->ports[i], i, &s, err);

	if (r < 0)
		return r;
	if (!n->access)
		return lh_filter_add(net->routers[net->ports[i].router].nl, net->ports[i].ifindex,
				     net->bpf.classify_prog_fd, err);
	count_inside(net->plan, i, &s);
	return sort_senders(net, &net->ports[i], &s, err);
}

/* In a router's namespace: the port to node i. */
static int set_up_port(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	struct lh_route route = {.prefix = n->address, .prefix_len = 32};
	size_t router = access_router(net->plan, i);
	struct lh_nl *nl = net->routers[router].nl;
	uint8_t mac[6];
	char port[IFNAMSIZ];
	int r;

	mac_of(i, SIDE_NODE, mac);
	snprintf(port, sizeof(port), "port%u", (unsigned)i);
	r = open_device(net, router, port, &net->ports[i], err);
	if (r == 0 && (!n->access || n->access->site))
		r = lh_route_add(nl, net->ports[i].ifindex, &route, err);
	route.table = TABLE_INWARDS;
	if (r == 0 && n->access)
		r = lh_route_add(nl, net->ports[i].ifindex, &route, err);
	if (r == 0)
		r = lh_neighbour_add(nl, net->ports[i].ifindex, n->address, mac, err);
	if (r == 0 && net->plan->n_nodes > 1)
		r = shape_port(net, i, err);
	return r;
}

/* The line to a node with an access: delays of the senders outside. */
static int add_line(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct sorting s = {.rate_bps = LH_UNLIMITED_BPS, .burst_bytes = UNLIMITED_BURST_BYTES};
	struct lh_device *access_down =
		&net->downs[net->plan->nodes[i].access - net->plan->accesses];
	int r = connect_routers(net, line_router(net->plan, i), LH_ROUTER_GATE, "line", i,
				SIDE_LINE, &net->lines[i], err);

	if (r == 0)
		r = route_to_node(net, &net->lines[i], i, err);
	if (r == 0)
		r = route_to_node(net, access_down, i, err);
	if (r == 0)
		r = shape(net, &net->lines[i], i, &s, err);
	if (r == 0)
		r = lh_net_sink_at_line(net, i, err);
	return r < 0 ? r
		     : lh_filter_add(net->routers[net->lines[i].router].nl, net->lines[i].ifindex,
				     net->bpf.classify_prog_fd, err);
}

/* The bottlenecks before the line to a node, one for each sender that has one. */
static int add_stage(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct sorting none = {.n_counted = 0};
	uint32_t frame = net->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	struct lh_device *d = &net->stages[i];
	struct lh_nl *nl = net->routers[LH_ROUTER_WAN].nl;
	int64_t share = LH_UNLIMITED_BPS / (int64_t)(net->plan->n_nodes - 1);
	int r = connect_routers(net, LH_ROUTER_WAN, LH_ROUTER_LINE, "stage", i, SIDE_STAGE, d, err);

	if (r == 0)
		r = route_to_node(net, d, i, err);
	if (r == 0)
		r = lh_htb_add(nl, d->ifindex, LH_UNLIMITED_BPS, UNLIMITED_BURST_BYTES, err);
	for (size_t from = 0; from < net->plan->n_nodes && r == 0; from++) {
		const struct lh_plan_path *p = lh_plan_path_at(net->plan, from, i);
		const struct lh_plan_bottleneck *b = &p->bottleneck;

		if (from == i)
			continue;
		r = lh_htb_class_add(nl, d->ifindex, (unsigned)from, share, LH_UNLIMITED_BPS,
				     UNLIMITED_BURST_BYTES, err);
		if (r == 0 && b->bandwidth_bps)
			r = lh_stage_add(nl, d->ifindex, (unsigned)from, b,
					 p->varies ? p->uncut_bytes : frame, err);
	}
	if (r == 0 && lh_net_varies_to(net->plan, i))
		r = lh_wake_class_add(nl, d->ifindex, LH_UNLIMITED_BPS, err);
	return r < 0 ? r : sort_senders(net, d, &none, err);
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

static int wait_for_device(struct lh_net *net, const struct lh_device *d, struct lh_error *err)
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
	int r = lh_net_enter(net, i, err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = link = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_link_wait(nl, link, "eth0", err);
	lh_nl_close(nl);
	return r;
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
	int r = add_routers(net, err);

	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		r = add_node(net, i, err);
	for (size_t i = 0; i < net->plan->n_accesses && r == 0; i++)
		r = add_access(net, i, err);
	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		r = add_way_to(net, i, err);
	return r < 0 ? r : wait_for_links(net, err);
}
