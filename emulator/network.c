/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a running network. See network.h; counters and faults are in counters.c. */
#include "emulator/network.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "emulator/cgroup.h"
#include "emulator/netns.h"
#include "emulator/network_internal.h"
#include "emulator/settings.h"
#include "emulator/sockets.h"
#include "emulator/wan.h"

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
	if (r == 0 && net->plan->scenario->n_absences)
		r = lh_sockets_check(err);
	if (r == 0)
		r = lh_net_build(net, err);
	return r < 0 || net->part == LH_NET_NODES ? r : lh_net_open_wake(net, err);
}

int lh_net_shape(struct lh_net *net, struct lh_error *err)
{
	struct lh_error ignored;
	int r = net->part == LH_NET_NODES ? lh_wan_shape(net->wan, err)
					  : lh_net_add_queues(net, err);

	if (r == 0 && net->part != LH_NET_NODES)
		r = lh_net_read_back(net, err);
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

/* Room for everything; nothing is open yet. */
static int alloc(struct lh_net *net, struct lh_error *err)
{
	size_t n = net->plan->n_nodes, n_accesses = net->plan->n_accesses;

	net->n_routers = LH_ROUTER_ACCESS + n_accesses;
	net->routers = calloc(net->n_routers, sizeof(*net->routers));
	net->node_ns_fds = calloc(n, sizeof(*net->node_ns_fds));
	net->rank_ns_fds = calloc(net->plan->n_ranks, sizeof(*net->rank_ns_fds));
	net->node_nls = calloc(n, sizeof(*net->node_nls));
	net->ports = calloc(n, sizeof(*net->ports));
	net->lines = calloc(n, sizeof(*net->lines));
	net->stages = calloc(n, sizeof(*net->stages));
	net->ups = calloc(n_accesses + 1, sizeof(*net->ups));
	net->downs = calloc(n_accesses + 1, sizeof(*net->downs));
	net->before = calloc(n + 1, sizeof(*net->before));
	net->away_nodes = calloc(n, sizeof(*net->away_nodes));
	net->pinned = json_object();
	for (size_t i = 0; net->routers && i < net->n_routers; i++)
		net->routers[i].ns_fd = -1;
	for (size_t i = 0; net->node_ns_fds && i < n; i++)
		net->node_ns_fds[i] = -1;
	for (size_t i = 0; net->rank_ns_fds && i < net->plan->n_ranks; i++)
		net->rank_ns_fds[i] = -1;
	return net->routers && net->rank_ns_fds && net->node_nls && net->node_ns_fds &&
			       net->ports && net->lines && net->stages && net->ups && net->downs &&
			       net->before && net->away_nodes && net->pinned
		       ? 0
		       : lh_fail(err, LH_ESYS, ENOMEM, "build the network");
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
			       .wake_fd = -1,
			       .bpf = LH_BPF_NONE};
	r = alloc(net, err);
	if (r == 0) {
		record_plan_settings(net);
		r = build(net, err);
	}
	if (net->home_ns_fd >= 0)
		lh_netns_enter(net->home_ns_fd, &ignored);
	if (r < 0) {
		lh_net_close(net);
		return r;
	}
	*ret_net = net;
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void lh_net_close(struct lh_net *net)
{
	if (!net)
		return;
	for (size_t i = 0; net->routers && i < net->n_routers; i++) {
		lh_nl_close(net->routers[i].nl);
		free(net->routers[i].owners);
		close_fd(net->routers[i].ns_fd);
	}
	for (size_t i = 0; net->node_ns_fds && i < net->plan->n_nodes; i++)
		close_fd(net->node_ns_fds[i]);
	for (size_t i = 0; net->rank_ns_fds && i < net->plan->n_ranks; i++)
		close_fd(net->rank_ns_fds[i]);
	for (size_t i = 0; net->node_nls && i < net->plan->n_nodes; i++)
		lh_nl_close(net->node_nls[i]);
	lh_net_forget_away(net);
	lh_nl_close(net->home);
	close_fd(net->home_ns_fd);
	close_fd(net->wake_fd);
	lh_bpf_close(&net->bpf);
	lh_cgroup_leave(net->cgroup);
	free(net->routers);
	free(net->node_ns_fds);
	free(net->rank_ns_fds);
	free(net->node_nls);
	free(net->ports);
	free(net->lines);
	free(net->stages);
	free(net->ups);
	free(net->downs);
	free(net->before);
	json_decref(net->pinned);
	free(net);
}

int lh_net_enter(const struct lh_net *net, size_t node, struct lh_error *err)
{
	return lh_net_enter_rank(net, net->plan->nodes[node].first_rank, err);
}

int lh_net_enter_rank(const struct lh_net *net, size_t rank, struct lh_error *err)
{
	int own = net->rank_ns_fds[rank];

	return own >= 0 ? lh_netns_enter(own, err)
			: lh_net_enter_card(net, net->plan->ranks[rank].node, err);
}

int lh_net_enter_card(const struct lh_net *net, size_t node, struct lh_error *err)
{
	return lh_netns_enter(net->node_ns_fds[node], err);
}

int lh_net_enter_router(const struct lh_net *net, size_t router, struct lh_error *err)
{
	return lh_netns_enter(net->routers[router].ns_fd, err);
}

int lh_net_leave(const struct lh_net *net, struct lh_error *err)
{
	return lh_netns_enter(net->home_ns_fd, err);
}

json_t *lh_net_pinned(const struct lh_net *net)
{
	return net->pinned;
}
