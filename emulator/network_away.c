/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that go and come. See network.h and network_internal.h. A node is cut off by one store into
 * a table that programs at both ends of its link look at: at the far one what it sends is dropped
 * where it leaves its card, at the near one what arrives.
 */
#include <assert.h>

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
	int link;

	if (!net->plan->nodes[i].is_ever_away)
		return 0;
	link = lh_link_index("eth0", err);
	return link < 0 ? link : guard(net, nl, link, i, err);
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

int lh_net_clear(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	struct lh_error ignored;
	int r = 0;

	for (size_t rank = n->first_rank; r == 0 && rank < n->first_rank + n->n_ranks; rank++) {
		r = lh_net_enter_rank(net, rank, err);
		if (r == 0)
			r = lh_sockets_end(err);
	}
	lh_net_leave(net, &ignored);
	return r < 0 ? lh_error_prefix(err, "node %s", net->plan->nodes[i].name) : 0;
}

/* Gives a node's card an empty queue. */
static int renew_nic(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int link = -1, r = lh_nl_open(&nl, err);

	if (r == 0)
		r = link = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_root_delete(nl, link, err);
	if (r == 0)
		r = lh_net_shape_nic(net, nl, i, err);
	lh_nl_close(nl);
	return r;
}

int lh_net_restore(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct lh_error ignored;
	int r = lh_net_enter_card(net, i, err);

	if (r == 0)
		r = renew_nic(net, i, err);
	lh_net_leave(net, &ignored);
	if (r < 0)
		return lh_error_prefix(err, "node %s", net->plan->nodes[i].name);
	__atomic_store_n(&net->bpf.away[i].is_away, 0, __ATOMIC_SEQ_CST);
	return 0;
}
