/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make up a running network share. */
#ifndef LH_EMULATOR_NETWORK_INTERNAL_H
#define LH_EMULATOR_NETWORK_INTERNAL_H

#include "emulator/bpf.h"
#include "emulator/network.h"
#include "emulator/nl.h"

/* What TCP and the links of one node have counted. */
struct lh_node_faults {
	uint64_t retransmits;
	uint64_t timeouts;
	uint64_t receive_queue_drops;
	uint64_t link_drops;
	uint64_t softnet_drops; /* of the kernel; in the last entry */
};

struct lh_net {
	const struct lh_plan *plan;
	bool owns_kernel;
	enum lh_net_part part;
	struct lh_wan *wan; /* borrowed; with LH_NET_NODES */
	bool bounds_windows;
	int64_t counted_ns;
	struct lh_nl *home;	       /* netlink into the namespace that we came from */
	struct lh_node_faults *before; /* per node, and the kernel: not this network's faults */
	int home_ns_fd;
	int router_ns_fd;
	struct lh_nl *router; /* netlink into the router's namespace */
	int *node_ns_fds;
	int *port_ifindex; /* of the router's link to node i */
	struct lh_bpf bpf;
	char *cgroup; /* folder; see cgroup.h */
	json_t *pinned;
};

/* What has been counted so far is no fault of the network. */
int lh_net_forget_faults(struct lh_net *net, struct lh_error *err);

/* Compares every qdisc and class with the plan; LH_ESYS names the first that differs. */
int lh_net_read_back(struct lh_net *net, struct lh_error *err);

#endif
