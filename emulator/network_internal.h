/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make up a running network share. */
#ifndef LH_EMULATOR_NETWORK_INTERNAL_H
#define LH_EMULATOR_NETWORK_INTERNAL_H

#include "emulator/bpf.h"
#include "emulator/network.h"
#include "emulator/nl.h"

struct lh_net {
	const struct lh_plan *plan;
	bool owns_kernel;
	int home_ns_fd;
	int router_ns_fd;
	struct lh_nl *router; /* netlink into the router's namespace */
	int *node_ns_fds;
	int *port_ifindex; /* of the router's link to node i */
	struct lh_bpf bpf;
	char *cgroup; /* folder; see cgroup.h */
	json_t *pinned;
};

/* Compares every qdisc and class with the plan; LH_ESYS names the first that differs. */
int lh_net_read_back(struct lh_net *net, struct lh_error *err);

#endif
