/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that go and come. See network.h and network_internal.h. A node is cut off by one store into
 * a table that programs at both ends of its link look at: at the far one what it sends is dropped
 * where it leaves its card, at the near one what arrives.
 */
#include <assert.h>
#include <linux/netlink.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "emulator/link.h"
#include "emulator/network_internal.h"
#include "emulator/sockets.h"

static int guard(struct lh_net *net, struct lh_nl *nl, int ifindex, size_t node,
		 struct lh_error *err)
{
	lh_cleanup_close int prog_fd = -1;
	int r = lh_bpf_guard_open(&net->bpf, node, &prog_fd, err);

	return r < 0 ? r : lh_ingress_add(nl, ifindex, LH_INGRESS_GUARD, prog_fd, err);
}

int lh_net_guard_at_node(struct lh_net *net, struct lh_nl *nl, size_t i, struct lh_error *err)
{
	struct lh_away_node *node = &net->away_nodes[i];
	int r;

	if (!net->plan->nodes[i].is_ever_away)
		return 0;
	r = node->link = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_nl_open(&node->route, err);
	if (r == 0)
		r = lh_nl_open_protocol(NETLINK_SOCK_DIAG, &node->sockets, err);
	return r < 0 ? r : guard(net, nl, node->link, i, err);
}

void lh_net_forget_away(struct lh_net *net)
{
	for (size_t i = 0; net->away_nodes && i < net->plan->n_nodes; i++) {
		lh_nl_close(net->away_nodes[i].route);
		lh_nl_close(net->away_nodes[i].sockets);
	}
	free(net->away_nodes);
	net->away_nodes = NULL;
}

int lh_net_guard_at_port(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_netdev *port = &net->ports[i];

	return net->plan->nodes[i].is_ever_away
		       ? guard(net, net->routers[port->router].nl, port->ifindex, i, err)
		       : 0;
}

void lh_net_cut(struct lh_net *net, size_t i)
{
	assert(net->bpf.away && net->plan->nodes[i].is_ever_away);
	__atomic_store_n(&net->bpf.away[i].is_away, 1, __ATOMIC_SEQ_CST);
}

/* Of a rank in a node of several. */
static int clear_rank(struct lh_net *net, size_t rank, struct lh_error *err)
{
	struct lh_nl *sockets = NULL;
	struct lh_error ignored;
	int r = lh_net_enter_rank(net, rank, err);

	if (r == 0)
		r = lh_nl_open_protocol(NETLINK_SOCK_DIAG, &sockets, err);
	if (r == 0)
		r = lh_sockets_end(sockets, err);
	lh_nl_close(sockets);
	lh_net_leave(net, &ignored);
	return r;
}

int lh_net_clear(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	int r = 0;

	if (n->n_ranks < 2)
		r = lh_sockets_end(net->away_nodes[i].sockets, err);
	for (size_t k = 0; r == 0 && n->n_ranks > 1 && k < n->n_ranks; k++)
		r = clear_rank(net, n->first_rank + k, err);
	return r < 0 ? lh_error_prefix(err, "node %s", net->plan->nodes[i].name) : 0;
}

int lh_net_restore(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_away_node *node = &net->away_nodes[i];
	struct lh_error ignored;
	int r, released;

	/* an empty queue in its card */
	lh_nl_hold(node->route);
	r = lh_root_delete(node->route, node->link, err);
	if (r == 0)
		r = lh_net_shape_nic(net, node->route, i, node->link, err);
	released = lh_nl_release(node->route, r < 0 ? &ignored : err);
	if (r == 0)
		r = released;
	if (r < 0)
		return lh_error_prefix(err, "node %s", net->plan->nodes[i].name);
	__atomic_store_n(&net->bpf.away[i].is_away, 0, __ATOMIC_SEQ_CST);
	return 0;
}
