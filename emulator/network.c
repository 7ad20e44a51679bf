/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a running network. See network.h; counters and faults are in counters.c. */
#include "emulator/network.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulator/cable.h"
#include "emulator/cgroup.h"
#include "emulator/link.h"
#include "emulator/netns.h"
#include "emulator/network_internal.h"
#include "emulator/qdisc.h"
#include "emulator/settings.h"
#include "emulator/wan.h"

static const uint32_t network_prefix = 10u << 24 | 64u << 16;		  /* 10.64.0.0/10 */
static const uint32_t gateway = 10u << 24 | 127u << 16 | 255u << 8 | 254; /* never spoken to */

enum { NETWORK_PREFIX_LEN = 10 };

/* Locally administered addresses: side 0 for nodes, 1 for the router's ports. */
static void mac_of(size_t i, uint8_t side, uint8_t ret[6])
{
	const uint8_t mac[6] = {0x02, 0x4c, 0x48, side, (uint8_t)(i >> 8), (uint8_t)i};

	memcpy(ret, mac, sizeof(mac));
}

static int ifindex_of(const char *name, struct lh_error *err)
{
	unsigned i = if_nametoindex(name);

	return i ? (int)i : lh_fail(err, LH_ESYS, errno, "look up link %s", name);
}

/* Gives a node's link its address, and the way to all others. */
static int set_up_address(struct lh_net *net, struct lh_nl *nl, size_t i, int link,
			  struct lh_error *err)
{
	uint32_t address = net->plan->nodes[i].address;
	uint8_t port_mac[6];
	int r = lh_address_add(nl, link, address, err);

	mac_of(i, 1, port_mac);
	if (r == 0)
		r = lh_neighbour_add(nl, link, gateway, port_mac, err);
	if (r == 0)
		r = lh_route_add(nl, link, network_prefix, NETWORK_PREFIX_LEN, gateway, address,
				 net->plan->initial_window_segments, err);
	return r;
}

/* Makes the link of node i, in its namespace, to the router; in the guest alone, where nodes are
 * elsewhere, the cable behind it, too. */
static int make_link(struct lh_net *net, struct lh_nl *nl, size_t i, int *ret_link,
		     struct lh_error *err)
{
	uint8_t mac[6], port_mac[6];
	char port[IFNAMSIZ];
	int r;

	mac_of(i, 0, mac);
	mac_of(i, 1, port_mac);
	snprintf(port, sizeof(port), "port%u", (unsigned)i);
	if (net->part == LH_NET_NODES)
		return lh_cable_take(net, nl, i, mac, ret_link, err);
	r = lh_veth_add(nl, "eth0", mac, port, port_mac, net->router_ns_fd, net->plan->mtu_bytes,
			err);
	if (r == 0)
		r = *ret_link = ifindex_of("eth0", err);
	if (r >= 0)
		r = lh_link_up(nl, *ret_link, err);
	if (r == 0 && net->part == LH_NET_WAN)
		r = lh_cable_join(net, nl, i, *ret_link, err);
	return r;
}

/* In the namespace of node i: its link to the router, address and route. */
static int set_up_node(struct lh_net *net, struct lh_nl *nl, size_t i, struct lh_error *err)
{
	int lo = -1, link = -1;
	int r = net->part == LH_NET_WAN ? 0 : lh_settings_node(net->plan, i, net->pinned, err);

	if (r == 0)
		r = lo = ifindex_of("lo", err);
	if (r >= 0)
		r = lh_link_up(nl, lo, err);
	if (r == 0)
		r = make_link(net, nl, i, &link, err);
	if (r == 0 && net->part != LH_NET_WAN)
		r = set_up_address(net, nl, i, link, err);
	return r;
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

/* On the router's port to node `to`: what comes from each other node is delayed and limited. */
static int shape_port(struct lh_net *net, size_t to, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[to];
	size_t others = net->plan->n_nodes - 1;
	int port = net->port_ifindex[to];
	int r = lh_htb_add(net->router, port, n->nic_down_bps, n->nic_burst_bytes, err);

	for (size_t from = 0; from < net->plan->n_nodes && r == 0; from++) {
		const struct lh_plan_path *p = lh_plan_path_at(net->plan, from, to);

		if (from == to)
			continue;
		r = lh_htb_class_add(net->router, port, (unsigned)from,
				     n->nic_down_bps / (int64_t)others, n->nic_down_bps,
				     n->nic_burst_bytes, err);
		if (r == 0)
			r = lh_netem_add(net->router, port, (unsigned)from, p,
					 net->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES, err);
	}
	return r < 0 ? r : lh_filter_add(net->router, port, net->bpf.classify_prog_fd, err);
}

/* In the router's namespace: the port to node i. */
static int set_up_port(struct lh_net *net, size_t i, struct lh_error *err)
{
	uint8_t mac[6];
	char port[IFNAMSIZ];
	int r;

	mac_of(i, 0, mac);
	snprintf(port, sizeof(port), "port%u", (unsigned)i);
	r = net->port_ifindex[i] = ifindex_of(port, err);
	if (r >= 0)
		r = lh_link_up(net->router, net->port_ifindex[i], err);
	if (r == 0)
		r = lh_route_add(net->router, net->port_ifindex[i], net->plan->nodes[i].address, 32,
				 0, 0, 0, err);
	if (r == 0)
		r = lh_neighbour_add(net->router, net->port_ifindex[i], net->plan->nodes[i].address,
				     mac, err);
	return r < 0 ? lh_error_prefix(err, "port of node %s", net->plan->nodes[i].name) : 0;
}

/* All links carry packets: none is lost before the first queue. */
static int wait_for_links(struct lh_net *net, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++) {
		struct lh_nl *nl = NULL;
		int link = -1;
		char port[IFNAMSIZ];

		snprintf(port, sizeof(port), "port%u", (unsigned)i);
		r = lh_link_wait(net->router, net->port_ifindex[i], port, err);
		if (r == 0)
			r = lh_net_enter(net, i, err);
		if (r == 0)
			r = lh_nl_open(&nl, err);
		if (r == 0)
			r = link = ifindex_of("eth0", err);
		if (r >= 0)
			r = lh_link_wait(nl, link, "eth0", err);
		lh_nl_close(nl);
		if (r == 0)
			r = lh_netns_enter(net->router_ns_fd, err);
	}
	return r;
}

/* The program that bounds windows, and the cgroup whose sockets obey it. Where nodes are apart from
 * their network, a user's host need not allow either if the plan asks for neither. */
static int open_programs(struct lh_net *net, struct lh_error *err)
{
	int r = 0;

	net->bounds_windows = net->part != LH_NET_NODES || lh_bpf_has_windows(net->plan);
	if (net->part != LH_NET_NODES)
		r = lh_bpf_open(&net->bpf, net->plan, err);
	else if (net->bounds_windows)
		r = lh_bpf_open_windows(&net->bpf, net->plan, err);
	if (r == 0 && net->bounds_windows)
		r = lh_cgroup_enter(net->owns_kernel, &net->cgroup, err);
	if (r < 0 && net->part == LH_NET_NODES)
		return lh_error_prefix(
			err, "the network has a `stream_window`, or round trips beyond half a "
			     "second, and nodes on the host obey it only with root's rights");
	return r;
}

static int build(struct lh_net *net, struct lh_error *err)
{
	int r = lh_netns_open_current(&net->home_ns_fd, err);

	if (r == 0)
		r = lh_settings_kernel(net->plan, net->owns_kernel, net->pinned, err);
	if (r == 0)
		r = open_programs(net, err);
	if (r == 0)
		r = lh_nl_open(&net->home, err);
	if (r == 0 && net->part != LH_NET_NODES)
		r = lh_netns_create(&net->router_ns_fd, err);
	if (r == 0 && net->part != LH_NET_NODES)
		r = lh_nl_open(&net->router, err);
	if (r == 0 && net->part != LH_NET_NODES)
		r = lh_settings_router(net->pinned, err);
	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		r = add_node(net, i, err);
	if (r < 0 || net->part == LH_NET_NODES)
		return r;
	r = lh_netns_enter(net->router_ns_fd, err);
	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		r = set_up_port(net, i, err);
	return r < 0 ? r : wait_for_links(net, err);
}

/* In the namespace of node i: its sending rate. */
static int shape_node(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	struct lh_nl *nl = NULL;
	int link = -1, r = lh_net_enter(net, i, err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = link = ifindex_of("eth0", err);
	if (r >= 0)
		r = lh_tbf_add(nl, link, n->nic_up_bps, n->nic_burst_bytes, n->nic_limit_bytes,
			       err);
	lh_nl_close(nl);
	return r < 0 ? lh_error_prefix(err, "node %s", n->name) : 0;
}

static int shape_all(struct lh_net *net, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		r = shape_node(net, i, err);
	if (r == 0)
		r = lh_netns_enter(net->router_ns_fd, err);
	for (size_t i = 0; i < net->plan->n_nodes && r == 0 && net->plan->n_nodes > 1; i++) {
		r = shape_port(net, i, err);
		if (r < 0)
			return lh_error_prefix(err, "port of node %s", net->plan->nodes[i].name);
	}
	return r < 0 ? r : lh_net_read_back(net, err);
}

int lh_net_shape(struct lh_net *net, struct lh_error *err)
{
	struct lh_error ignored;
	int r = net->part == LH_NET_NODES ? lh_wan_shape(net->wan, err) : shape_all(net, err);

	lh_netns_enter(net->home_ns_fd, &ignored);
	if (r == 0 && net->bounds_windows)
		r = lh_bpf_attach_windows(&net->bpf, net->cgroup, err);
	return r < 0 ? r : lh_net_forget_faults(net, err);
}

static void record_plan_settings(struct lh_net *net)
{
	json_object_set_new(net->pinned, "mtu_bytes", json_integer(net->plan->mtu_bytes));
	json_object_set_new(net->pinned, "segment_bytes", json_integer(net->plan->segment_bytes));
	json_object_set_new(net->pinned, "initial_window_segments",
			    json_integer(net->plan->initial_window_segments));
}

int lh_net_open(const struct lh_plan *plan, const struct lh_net_options *options,
		struct lh_net **ret_net, struct lh_error *err)
{
	struct lh_net *net = calloc(1, sizeof(*net));
	struct lh_error ignored;
	int r;

	if (!net)
		return lh_fail(err, LH_ESYS, ENOMEM, "build the network");
	*net = (struct lh_net){.plan = plan,
			       .owns_kernel = options->owns_kernel,
			       .part = options->part,
			       .wan = options->wan,
			       .home_ns_fd = -1,
			       .router_ns_fd = -1,
			       .bpf = LH_BPF_NONE};
	net->before = calloc(plan->n_nodes + 1, sizeof(*net->before));
	net->node_ns_fds = calloc(plan->n_nodes, sizeof(*net->node_ns_fds));
	net->port_ifindex = calloc(plan->n_nodes, sizeof(*net->port_ifindex));
	net->pinned = json_object();
	if (!net->before || !net->node_ns_fds || !net->port_ifindex || !net->pinned) {
		lh_net_close(net);
		return lh_fail(err, LH_ESYS, ENOMEM, "build the network");
	}
	for (size_t i = 0; i < plan->n_nodes; i++)
		net->node_ns_fds[i] = -1;
	record_plan_settings(net);
	r = build(net, err);
	if (net->home_ns_fd >= 0)
		lh_netns_enter(net->home_ns_fd, &ignored);
	if (r < 0) {
		lh_net_close(net);
		return r;
	}
	*ret_net = net;
	return 0;
}

void lh_net_close(struct lh_net *net)
{
	if (!net)
		return;
	lh_nl_close(net->router);
	lh_nl_close(net->home);
	for (size_t i = 0; net->node_ns_fds && i < net->plan->n_nodes; i++)
		if (net->node_ns_fds[i] >= 0)
			close(net->node_ns_fds[i]);
	if (net->router_ns_fd >= 0)
		close(net->router_ns_fd);
	if (net->home_ns_fd >= 0)
		close(net->home_ns_fd);
	lh_bpf_close(&net->bpf);
	lh_cgroup_leave(net->cgroup);
	free(net->node_ns_fds);
	free(net->port_ifindex);
	free(net->before);
	json_decref(net->pinned);
	free(net);
}

int lh_net_enter(const struct lh_net *net, size_t node, struct lh_error *err)
{
	return lh_netns_enter(net->node_ns_fds[node], err);
}

int lh_net_leave(const struct lh_net *net, struct lh_error *err)
{
	return lh_netns_enter(net->home_ns_fd, err);
}

json_t *lh_net_pinned(const struct lh_net *net)
{
	return net->pinned;
}
