/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make up a running network share. */
#ifndef LH_EMULATOR_NETWORK_INTERNAL_H
#define LH_EMULATOR_NETWORK_INTERNAL_H

#include "emulator/bpf.h"
#include "emulator/network.h"
#include "emulator/nl.h"
#include "emulator/qdisc.h"

struct lh_net {
	const struct lh_plan *plan;
	bool owns_kernel;
	int home_ns_fd;
	int router_ns_fd;
	struct lh_nl *router; /* netlink into the router's namespace */
	int *node_ns_fds;
	int *port_ifindex; /* of the router's link to node i */
	struct lh_bpf bpf;
	int wake_fd;  /* a packet socket in the router's namespace; -1: no path varies */
	char *cgroup; /* folder; see cgroup.h */
	json_t *pinned;
};

/* Whether a path to node `to` varies, so that its port has the class that wakes it. */
bool lh_net_port_varies(const struct lh_net *net, size_t to);

/* Opens wake_fd in the current namespace, the router's, where a path varies. */
int lh_net_open_wake(struct lh_net *net, struct lh_error *err);

/* The pair that a netem of the router, or the tbf behind it, serves; false where it is none of
 * ours. */
bool lh_net_pair_of(const struct lh_net *net, const struct lh_qdisc_state *state, size_t *ret_from,
		    size_t *ret_to);

/* Compares what a netem or the tbf behind it holds with what a path has; LH_ESYS where it
 * differs. */
int lh_net_compare(const struct lh_net *net, const struct lh_qdisc_state *state, size_t from,
		   size_t to, const struct lh_plan_path *path, struct lh_error *err);

/* Compares every qdisc and class with the plan; LH_ESYS names the first that differs. */
int lh_net_read_back(struct lh_net *net, struct lh_error *err);

#endif
