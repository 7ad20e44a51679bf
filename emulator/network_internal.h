/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make up a running network share. */
#ifndef LH_EMULATOR_NETWORK_INTERNAL_H
#define LH_EMULATOR_NETWORK_INTERNAL_H

#include "emulator/bpf.h"
#include "emulator/network.h"
#include "emulator/nl.h"
#include "emulator/qdisc.h"

/* Routers: one where nodes have no access of their own; network_build.c has the layout. */
enum { LH_ROUTER_WAN, LH_ROUTER_LINE, LH_ROUTER_GATE, LH_ROUTER_ACCESS /* and those after it */ };

struct lh_router {
	int ns_fd;	  /* -1: there is none */
	struct lh_nl *nl; /* into its namespace */
	size_t *owners;	  /* by ifindex: the node or access that the link is for */
	size_t n_owners;
};

/* A link of a router. */
struct lh_netdev {
	size_t router;
	int ifindex; /* 0: there is none */
};

/* What TCP and the links of one node have counted. */
struct lh_node_faults {
	uint64_t retransmits;
	uint64_t timeouts;
	uint64_t receive_queue_drops;
	uint64_t link_drops;
	uint64_t softnet_drops; /* of the kernel; in the last entry */
};

/* What takes a node away and brings it back: open where it is ever away. */
struct lh_away_node {
	struct lh_nl *route; /* both into its namespace */
	struct lh_nl *sockets;
	int link; /* its card */
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
	struct lh_router *routers;
	size_t n_routers;
	int *node_ns_fds;	  /* where the card of node i is */
	int *rank_ns_fds;	  /* of ranks that share a node; the others live in their node's */
	struct lh_nl **node_nls;  /* into nodes with several ranks; else NULL */
	struct lh_netdev *ports;  /* to node i */
	struct lh_netdev *lines;  /* where what goes to node i from outside its access is delayed */
	struct lh_netdev *stages; /* and where it waits at bottlenecks before */
	struct lh_netdev *ups;	  /* out of access i */
	struct lh_netdev *downs;  /* into access i */
	int wake_fd; /* a packet socket into the router of the stages; -1: no path varies */
	struct lh_away_node *away_nodes; /* by node */
	struct lh_bpf bpf;
	char *cgroup; /* folder; see cgroup.h */
	json_t *pinned;
};

/* Both ends of a link, for locally administered addresses. */
enum lh_side {
	LH_SIDE_NODE,
	LH_SIDE_PORT,
	LH_SIDE_LINE,
	LH_SIDE_GATE,
	LH_SIDE_STAGE,
	LH_SIDE_STAGED,
	LH_SIDE_UP = 8, /* and the three after it */
	LH_SIDE_RANK = 12,
	LH_SIDE_HUB,
	LH_SIDE_INNER,
	LH_SIDE_INNER_PORT,
};

void lh_net_mac_of(size_t i, enum lh_side side, uint8_t ret[6]);

enum { LH_TABLE_INWARDS = 100 }; /* in an access or node: for what comes from outside */

/* Gives the link of a rank (in the current namespace, as nl) its address, and the way to all
 * others. */
int lh_net_set_up_address(struct lh_net *net, struct lh_nl *nl, size_t rank, int link,
			  struct lh_error *err);

/* The ranks behind the router that node i is, and the network between them: building it, shaping
 * it, comparing it with the plan. On return the calling thread is in some namespace. */
int lh_net_add_ranks(struct lh_net *net, size_t i, struct lh_error *err);
int lh_net_wait_ranks(struct lh_net *net, size_t i, struct lh_error *err);
int lh_net_shape_ranks(struct lh_net *net, size_t i, struct lh_error *err);
int lh_net_read_back_ranks(struct lh_net *net, size_t i, struct lh_error *err);

/* Adds what the inner network of node i has passed on. */
int lh_net_count_inner(struct lh_net *net, size_t i, struct lh_net_counter *ret,
		       struct lh_error *err);

/* Builds routers, links and routes. On return the calling thread is in some namespace. */
int lh_net_build(struct lh_net *net, struct lh_error *err);

/* Adds rates, queues and delays to what was built. On return the calling thread is in some
 * namespace. */
int lh_net_add_queues(struct lh_net *net, struct lh_error *err);

/* What has been counted so far is no fault of the network. */
int lh_net_forget_faults(struct lh_net *net, struct lh_error *err);

/* The node whose port, line or stage, or the access whose link, the link of a router is; any number
 * where it is none of them. */
size_t lh_net_owner(const struct lh_net *net, size_t router, int ifindex);

/* Whether the netem of a pair is at the port to its receiver; otherwise it is on a line. */
bool lh_net_is_at_port(const struct lh_plan *plan, size_t from, size_t to);

/* The pair that a netem of a router delays, or whose bottleneck a tbf of a router is; false where
 * the qdisc is neither. */
bool lh_net_pair_of_netem(const struct lh_net *net, const struct lh_qdisc_state *s, size_t router,
			  size_t *ret_from, size_t *ret_to);
bool lh_net_pair_of_stage(const struct lh_net *net, const struct lh_qdisc_state *s, size_t router,
			  size_t *ret_from, size_t *ret_to);

/* Whether a path to a node varies, so that its stage has a class that wakes it. */
bool lh_net_varies_to(const struct lh_plan *plan, size_t to);

/* Opens wake_fd where a path varies. On return the calling thread is in some namespace. */
int lh_net_open_wake(struct lh_net *net, struct lh_error *err);

/* Compares a netem, or the tbf of a bottleneck, with what the path of a pair has; LH_ESYS where
 * it differs. */
int lh_net_compare_netem(const struct lh_net *net, const struct lh_qdisc_state *s, size_t from,
			 size_t to, const struct lh_plan_path *path, struct lh_error *err);
int lh_net_compare_stage(const struct lh_qdisc_state *s, const struct lh_plan_bottleneck *b,
			 struct lh_error *err);

/* Enters the namespace of a router with the calling thread. */
int lh_net_enter_router(const struct lh_net *net, size_t router, struct lh_error *err);

/* An address without a host, for cross traffic on the links of an access. */
uint32_t lh_net_cross_address(size_t access);

/* Take cross traffic out at the port to node i (nl: in its namespace), behind its line, and at the
 * far ends of the links of access i; nothing where there is none. */
int lh_net_sink_at_node(struct lh_net *net, struct lh_nl *nl, size_t i, struct lh_error *err);
int lh_net_sink_at_line(struct lh_net *net, size_t i, struct lh_error *err);
int lh_net_sink_at_links(struct lh_net *net, size_t i, struct lh_error *err);

/* Give the link of node i (nl: in its namespace) and its port the program that keeps everything
 * from it and of it while it is away; nothing where it never is. */
int lh_net_guard_at_node(struct lh_net *net, struct lh_nl *nl, size_t i, struct lh_error *err);
int lh_net_guard_at_port(struct lh_net *net, size_t i, struct lh_error *err);

/* The sending rate of node i, in whose namespace nl is, on its card. */
int lh_net_shape_nic(struct lh_net *net, struct lh_nl *nl, size_t i, int link,
		     struct lh_error *err);

/* Closes what the first of those has opened. */
void lh_net_forget_away(struct lh_net *net);

/* Rate of a link that limits nothing, bit/s. */
#define LH_UNLIMITED_BPS INT64_C(1000000000000)

/* Compares every qdisc and class with the plan; LH_ESYS names the first that differs. */
int lh_net_read_back(struct lh_net *net, struct lh_error *err);

#endif
