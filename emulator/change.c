/* SPDX-License-Identifier: Apache-2.0 */
/* Changing paths of a running network in place. See network.h. */
#include <errno.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/cleanup.h"
#include "emulator/network_internal.h"

enum {
	WAKE_BYTES = 60,	 /* the least frame */
	WAKE_ETHERTYPE = 0x88b5, /* for experiments, IEEE 802; never leaves the port */
};

bool lh_net_port_varies(const struct lh_net *net, size_t to)
{
	for (size_t from = 0; from < net->plan->n_nodes; from++)
		if (lh_plan_path_at(net->plan, from, to)->varies)
			return true;
	return false;
}

int lh_net_open_wake(struct lh_net *net, struct lh_error *err)
{
	uint32_t priority = lh_wake_priority();
	bool varies = false;

	for (size_t i = 0; i < net->plan->n_nodes; i++)
		varies |= lh_net_port_varies(net, i);
	if (!varies)
		return 0;
	net->wake_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (net->wake_fd < 0 ||
	    setsockopt(net->wake_fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) < 0)
		return lh_fail(err, LH_ESYS, errno, "open a packet socket");
	return 0;
}

/*
 * Makes the port to a node look at its queues. A tbf whose rate has risen would sleep on for as
 * long as its next packet took at the old rate; any packet that is sent there wakes it, and this
 * one is dropped by its class.
 */
static int wake_port(const struct lh_net *net, size_t to, struct lh_error *err)
{
	const uint8_t frame[WAKE_BYTES] = {[12] = WAKE_ETHERTYPE >> 8, WAKE_ETHERTYPE & 255};
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_ifindex = net->port_ifindex[to],
		.sll_halen = 6,
	};

	if (sendto(net->wake_fd, frame, sizeof(frame), 0, (struct sockaddr *)&address,
		   sizeof(address)) < 0 &&
	    errno != ENOBUFS) /* so is its end told */
		return lh_fail(err, LH_ESYS, errno, "wake the port of %s",
			       net->plan->nodes[to].name);
	return 0;
}

struct read_back {
	const struct lh_net *net;
	const struct lh_net_change *changes;
	size_t n;
	size_t n_seen;
};

/* What the kernel says of each qdisc that it has changed. */
static int compare_change(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct read_back *rb = context;
	size_t from, to;

	if (!lh_net_pair_of(rb->net, s, &from, &to))
		return 0;
	for (size_t i = 0; i < rb->n; i++)
		if (rb->changes[i].from == from && rb->changes[i].to == to) {
			rb->n_seen++;
			return lh_net_compare(rb->net, s, from, to, rb->changes[i].path, err);
		}
	return 0;
}

static int wake_ports(const struct lh_net *net, const struct lh_net_change *changes, size_t n,
		      struct lh_error *err)
{
	lh_cleanup_free bool *is_awake = calloc(net->plan->n_nodes, sizeof(*is_awake));
	int r = is_awake ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "change paths");

	for (size_t i = 0; i < n && r == 0; i++) {
		if (!changes[i].is_faster || is_awake[changes[i].to])
			continue;
		is_awake[changes[i].to] = true;
		r = wake_port(net, changes[i].to, err);
	}
	return r;
}

int lh_net_change_paths(struct lh_net *net, const struct lh_net_change *changes, size_t n,
			struct lh_error *err)
{
	lh_cleanup_free struct nl_msg **messages =
		calloc(LH_CHANGE_MESSAGES * n + 1, sizeof(*messages));
	struct read_back rb = {.net = net, .changes = changes, .n = n};
	size_t n_messages = 0;
	int r = messages ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "change paths");

	for (size_t i = 0; i < n && r == 0; i++)
		r = lh_netem_change(net->port_ifindex[changes[i].to], (unsigned)changes[i].from,
				    changes[i].path, messages, &n_messages, err);
	if (r < 0) {
		for (size_t i = 0; i < n_messages; i++)
			nlmsg_free(messages[i]);
		return r;
	}
	r = lh_qdisc_change(net->router, messages, n_messages, compare_change, &rb, err);
	if (r == 0 && rb.n_seen != n_messages)
		r = lh_fail(err, LH_ESYS, 0, "the kernel confirmed %zu of %zu changes", rb.n_seen,
			    n_messages);
	return r < 0 ? r : wake_ports(net, changes, n, err);
}
