/* SPDX-License-Identifier: Apache-2.0 */
/* Changing paths of a running network in place. See network.h. */
#include <errno.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/cleanup.h"
#include "emulator/netns.h"
#include "emulator/network_internal.h"

enum {
	WAKE_BYTES = 60,	 /* the least frame */
	WAKE_ETHERTYPE = 0x88b5, /* for experiments, IEEE 802; never leaves the port */
};

bool lh_net_varies_to(const struct lh_plan *plan, size_t to)
{
	for (size_t from = 0; from < plan->n_nodes; from++)
		if (lh_plan_path_at(plan, from, to)->varies)
			return true;
	return false;
}

int lh_net_open_wake(struct lh_net *net, struct lh_error *err)
{
	uint32_t priority = lh_wake_priority();
	bool varies = false;
	int r;

	for (size_t i = 0; i < net->plan->n_nodes; i++)
		varies |= lh_net_varies_to(net->plan, i);
	if (!varies)
		return 0;
	r = lh_netns_enter(net->routers[LH_ROUTER_WAN].ns_fd, err);
	if (r < 0)
		return r;
	net->wake_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (net->wake_fd < 0 ||
	    setsockopt(net->wake_fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) < 0)
		return lh_fail(err, LH_ESYS, errno, "open a packet socket");
	return 0;
}

/*
 * Makes the stage before a node look at its queues. A tbf whose rate has risen would sleep on for
 * as long as its next packet took at the old rate; any packet that is sent there wakes it, and
 * this one is dropped by its class.
 */
static int wake_stage(const struct lh_net *net, size_t to, struct lh_error *err)
{
	const uint8_t frame[WAKE_BYTES] = {[12] = WAKE_ETHERTYPE >> 8, WAKE_ETHERTYPE & 255};
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = net->stages[to].ifindex,
		.sll_halen = 6,
	};

	if (sendto(net->wake_fd, frame, sizeof(frame), 0, (struct sockaddr *)&address,
		   sizeof(address)) < 0 &&
	    errno != ENOBUFS) /* so is its end told */
		return lh_fail(err, LH_ESYS, errno, "wake the bottlenecks before %s",
			       net->plan->nodes[to].name);
	return 0;
}

/* The changes that are being made, in the routers one after the other. */
struct change {
	struct lh_net *net;
	const struct lh_net_change *list;
	size_t n;
	const struct lh_net_change **at; /* by pair: what is asked for, or NULL */
	size_t router;
	size_t n_seen;
};

static const struct lh_plan_path *asked(const struct change *c, size_t from, size_t to)
{
	const struct lh_net_change *change = c->at[from * c->net->plan->n_nodes + to];

	return change ? change->path : NULL;
}

/* What the kernel says of each qdisc that it has changed. */
static int compare_change(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct change *c = context;
	const struct lh_plan_path *p;
	size_t from, to;

	/* of what cuts super-packets the kernel does not tell at which length */
	c->n_seen++;
	if (lh_net_pair_of_netem(c->net, s, c->router, &from, &to) && (p = asked(c, from, to)))
		return lh_net_compare_netem(c->net, s, from, to, p, err);
	if (lh_net_pair_of_stage(c->net, s, c->router, &from, &to) && (p = asked(c, from, to)))
		return lh_net_compare_stage(s, &p->bottleneck, err);
	return 0;
}

/* The link that has the netem of a pair. */
static const struct lh_netdev *netem_device(const struct lh_net *net, size_t from, size_t to)
{
	return lh_net_is_at_port(net->plan, from, to) ? &net->ports[to] : &net->lines[to];
}

/* Makes all changes in one router. */
static int change_router(struct change *c, struct lh_error *err)
{
	const struct lh_net *net = c->net;
	lh_cleanup_free struct nl_msg **messages =
		calloc((1 + LH_STAGE_MESSAGES) * c->n + 1, sizeof(*messages));
	size_t n_messages = 0;
	int r = messages ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "change paths");

	for (size_t i = 0; i < c->n && r == 0; i++) {
		const struct lh_net_change *change = &c->list[i];
		const struct lh_netdev *netem = netem_device(net, change->from, change->to);
		const struct lh_netdev *stage = &net->stages[change->to];

		if (change->path->varies && stage->router == c->router)
			r = lh_stage_change(stage->ifindex, (unsigned)change->from, change->path,
					    messages, &n_messages, err);
		if (r == 0 && netem->router == c->router)
			r = lh_netem_change(netem->ifindex, (unsigned)change->from, change->path,
					    messages, &n_messages, err);
	}
	if (r < 0 || !n_messages) {
		for (size_t i = 0; i < n_messages; i++)
			nlmsg_free(messages[i]);
		return r;
	}
	c->n_seen = 0;
	r = lh_qdisc_change(net->routers[c->router].nl, messages, n_messages, compare_change, c,
			    err);
	if (r == 0 && c->n_seen != n_messages)
		r = lh_fail(err, LH_ESYS, 0, "the kernel confirmed %zu of %zu changes", c->n_seen,
			    n_messages);
	return r;
}

/* Wakes the stages with a bottleneck that has become faster. */
static int wake_stages(const struct change *c, struct lh_error *err)
{
	const struct lh_net *net = c->net;
	lh_cleanup_free bool *is_awake = calloc(net->plan->n_nodes, sizeof(*is_awake));
	int r = is_awake ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "change paths");

	for (size_t i = 0; i < c->n && r == 0; i++) {
		if (!c->list[i].is_faster || is_awake[c->list[i].to])
			continue;
		is_awake[c->list[i].to] = true;
		r = wake_stage(net, c->list[i].to, err);
	}
	return r;
}

int lh_net_change_paths(struct lh_net *net, const struct lh_net_change *changes, size_t n,
			struct lh_error *err)
{
	size_t n_nodes = net->plan->n_nodes;
	lh_cleanup_free const struct lh_net_change **at = calloc(n_nodes * n_nodes, sizeof(*at));
	struct change c = {.net = net, .list = changes, .n = n, .at = at};
	int r = at ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "change paths");

	for (size_t i = 0; at && i < n; i++)
		at[changes[i].from * n_nodes + changes[i].to] = &changes[i];
	for (c.router = 0; c.router < net->n_routers && r == 0; c.router++)
		if (net->routers[c.router].nl)
			r = change_router(&c, err);
	return r < 0 ? r : wake_stages(&c, err);
}
