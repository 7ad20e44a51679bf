/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where cross traffic is taken out again: behind the delay lines of a path, at the far end of a
 * site's link. See network_internal.h and cross.h.
 */
#include <net/if.h>
#include <stdio.h>

#include "core/cleanup.h"
#include "emulator/link.h"
#include "emulator/network_internal.h"

static const uint32_t first_cross_address = 10u << 24 | 127u << 16 | 1; /* 10.127.0.1 */

uint32_t lh_net_cross_address(size_t access)
{
	return first_cross_address + (uint32_t)access;
}

/* Takes cross traffic out of what comes in on the named link of the current namespace, by its
 * sender where to is a node. */
static int sink(struct lh_net *net, struct lh_nl *nl, const char *link, long to, uint32_t key,
		struct lh_error *err)
{
	lh_cleanup_close int prog_fd = -1;
	int ifindex = -1;
	int r = ifindex = lh_link_index(link, err);

	if (r >= 0)
		r = lh_bpf_sink_open(&net->bpf, net->plan, to, key, &prog_fd, err);
	return r < 0 ? r : lh_ingress_add(nl, ifindex, LH_INGRESS_FIRST, prog_fd, err);
}

/* Whether some path to a node has cross traffic whose way ends at the port (or at the line). */
static bool is_crossed(const struct lh_plan *plan, size_t to, bool at_port)
{
	for (size_t from = 0; from < plan->n_nodes; from++)
		if (from != to && lh_net_is_at_port(plan, from, to) == at_port &&
		    lh_plan_has_cross(plan, from, to))
			return true;
	return false;
}

int lh_net_sink_at_node(struct lh_net *net, struct lh_nl *nl, size_t i, struct lh_error *err)
{
	return is_crossed(net->plan, i, true) ? sink(net, nl, "eth0", (long)i, 0, err) : 0;
}

int lh_net_sink_at_line(struct lh_net *net, size_t i, struct lh_error *err)
{
	char link[IFNAMSIZ];
	int r;

	if (!is_crossed(net->plan, i, false))
		return 0;
	snprintf(link, sizeof(link), "line%u", (unsigned)i);
	r = lh_net_enter_router(net, LH_ROUTER_GATE, err);
	return r < 0 ? r : sink(net, net->routers[LH_ROUTER_GATE].nl, link, (long)i, 0, err);
}

int lh_net_sink_at_links(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_site *site = net->plan->accesses[i].site;
	struct lh_route route = {
		.prefix = lh_net_cross_address(i), .prefix_len = 32, .gateway = LH_GATEWAY};
	char link[IFNAMSIZ];
	int r = 0;

	if (site && site->uplink.cross.mean_bps > 0) {
		snprintf(link, sizeof(link), "up%u", (unsigned)i);
		r = lh_net_enter_router(net, LH_ROUTER_WAN, err);
		if (r == 0)
			r = sink(net, net->routers[LH_ROUTER_WAN].nl, link, -1,
				 lh_bpf_link_key(net->plan, i, true), err);
	}
	if (r == 0 && site && site->downlink.cross.mean_bps > 0) {
		snprintf(link, sizeof(link), "down%u", (unsigned)i);
		r = lh_route_add(net->routers[LH_ROUTER_GATE].nl, net->downs[i].ifindex, &route,
				 err);
		if (r == 0)
			r = lh_net_enter_router(net, LH_ROUTER_ACCESS + i, err);
		if (r == 0)
			r = sink(net, net->routers[LH_ROUTER_ACCESS + i].nl, link, -1,
				 lh_bpf_link_key(net->plan, i, false), err);
	}
	return r;
}
