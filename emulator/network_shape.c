/* SPDX-License-Identifier: Apache-2.0 */
/* Rates, queues and delays of a network that network_build.c has built. See network_internal.h. */
#include "core/cleanup.h"
#include "emulator/link.h"
#include "emulator/network_internal.h"
#include "emulator/qdisc.h"

enum { UNLIMITED_BURST_BYTES = 1 << 20 };

/* The bottlenecks that the nodes of an access share. */
static int shape_access(struct lh_net *net, size_t i, struct lh_error *err)
{
	const struct lh_plan_access *access = &net->plan->accesses[i];
	uint32_t frame = net->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	int r = 0;

	if (access->up.bandwidth_bps)
		r = lh_bottleneck_add(net->routers[LH_ROUTER_ACCESS + i].nl, net->ups[i].ifindex,
				      &access->up, frame, err);
	if (r == 0 && access->down.bandwidth_bps)
		r = lh_bottleneck_add(net->routers[LH_ROUTER_GATE].nl, net->downs[i].ifindex,
				      &access->down, frame, err);
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

static int sort_senders(struct lh_net *net, const struct lh_netdev *d, const struct sorting *s,
			struct lh_error *err)
{
	lh_cleanup_close int prog_fd = -1;
	int r = lh_bpf_classifier_open(&net->bpf, net->plan, s->first_counted, s->n_counted,
				       &prog_fd, err);

	return r < 0 ? r : lh_filter_add(net->routers[d->router].nl, d->ifindex, prog_fd, err);
}

/* The classes of a link to a node, and the netem of those whose place is here. */
static int shape(struct lh_net *net, const struct lh_netdev *d, size_t to, const struct sorting *s,
		 struct lh_error *err)
{
	struct lh_nl *nl = net->routers[d->router].nl;
	uint32_t frame = net->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	int64_t share = s->rate_bps / (int64_t)(net->plan->n_nodes - 1);
	struct lh_error ignored;
	int r, released;

	lh_nl_hold(nl);
	r = lh_htb_add(nl, d->ifindex, s->rate_bps, s->burst_bytes, err);
	for (size_t from = 0; from < net->plan->n_nodes && r == 0; from++) {
		if (from == to)
			continue;
		r = lh_htb_class_add(nl, d->ifindex, (unsigned)from, share, s->rate_bps,
				     s->burst_bytes, err);
		if (r == 0 && lh_net_is_at_port(net->plan, from, to) == s->at_port)
			r = lh_netem_add(nl, d->ifindex, (unsigned)from,
					 lh_plan_path_at(net->plan, from, to), frame, err);
	}
	released = lh_nl_release(nl, r < 0 ? &ignored : err);
	return r < 0 ? r : released;
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

/* On the line to node i: delays of the senders outside its access. */
static int shape_line(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct sorting s = {.rate_bps = LH_UNLIMITED_BPS, .burst_bytes = UNLIMITED_BURST_BYTES};
	int r = shape(net, &net->lines[i], i, &s, err);

	return r < 0 ? r
		     : lh_filter_add(net->routers[net->lines[i].router].nl, net->lines[i].ifindex,
				     net->bpf.classify_prog_fd, err);
}

/* On the stage before the line to node i: the bottlenecks, one for each sender that has one. */
static int shape_stage(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct sorting none = {.n_counted = 0};
	uint32_t frame = net->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
	struct lh_netdev *d = &net->stages[i];
	struct lh_nl *nl = net->routers[LH_ROUTER_WAN].nl;
	int64_t share = LH_UNLIMITED_BPS / (int64_t)(net->plan->n_nodes - 1);
	struct lh_error ignored;
	int r, released;

	lh_nl_hold(nl);
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
	released = lh_nl_release(nl, r < 0 ? &ignored : err);
	if (r == 0)
		r = released;
	return r < 0 ? r : sort_senders(net, d, &none, err);
}

int lh_net_shape_nic(struct lh_net *net, struct lh_nl *nl, size_t i, int link, struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];

	return lh_tbf_add(nl, link, n->nic_up_bps, n->nic_burst_bytes, n->nic_limit_bytes, err);
}

static int shape_node(struct lh_net *net, size_t i, struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int link = -1, r = lh_net_enter_card(net, i, err);

	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = link = lh_link_index("eth0", err);
	if (r >= 0)
		r = lh_net_shape_nic(net, nl, i, link, err);
	lh_nl_close(nl);
	return r < 0 ? lh_error_prefix(err, "node %s", net->plan->nodes[i].name) : 0;
}

/* What stands before node i. */
static int shape_way_to(struct lh_net *net, size_t i, struct lh_error *err)
{
	int r = shape_port(net, i, err);

	if (r == 0 && net->plan->nodes[i].access)
		r = shape_line(net, i, err);
	if (r == 0 && net->plan->nodes[i].is_staged)
		r = shape_stage(net, i, err);
	return r < 0 ? lh_error_prefix(err, "port of node %s", net->plan->nodes[i].name) : 0;
}

int lh_net_add_queues(struct lh_net *net, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		r = shape_node(net, i, err);
	for (size_t i = 0; i < net->plan->n_nodes && r == 0; i++)
		if (net->plan->nodes[i].n_ranks > 1)
			r = lh_net_shape_ranks(net, i, err);
	for (size_t i = 0; i < net->plan->n_accesses && r == 0; i++)
		r = shape_access(net, i, err);
	for (size_t i = 0; i < net->plan->n_nodes && r == 0 && net->plan->n_nodes > 1; i++)
		r = shape_way_to(net, i, err);
	return r;
}
