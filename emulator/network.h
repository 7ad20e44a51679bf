/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as a running network: namespaces, links, queues, windows. Held by descriptors of
 * this process; when it ends, however it ends, the kernel takes the network back.
 */
#ifndef LH_EMULATOR_NETWORK_H
#define LH_EMULATOR_NETWORK_H

#include <jansson.h>
#include <stdbool.h>

#include "emulator/plan.h"

struct lh_net;
struct lh_wan;

/* What of a network is in the kernel that this process runs on. */
enum lh_net_part {
	LH_NET_ALL,
	LH_NET_WAN,   /* all but the nodes, which are at the other ends of cables (cable.h) */
	LH_NET_NODES, /* the nodes; the rest is in a guest, wan */
};

struct lh_net_options {
	bool owns_kernel; /* it is ours alone (the guest): its global settings are pinned, too;
			   * otherwise they are read and recorded */
	enum lh_net_part part;
	struct lh_wan *wan; /* with LH_NET_NODES; must outlive the network */
};

/*
 * Builds the network of a plan (which must outlive it) without delays and limits: links that carry
 * what the machine can. LH_ESYS, LH_EENV. *ret_net is owned by the caller; main thread only.
 */
int lh_net_open(const struct lh_plan *plan, const struct lh_net_options *options,
		struct lh_net **ret_net, struct lh_error *err);
void lh_net_close(struct lh_net *net);

/* Sets delays, rates, queues and windows as the plan has them; reads back and compares all that
 * was set. What happened until then counts for no fault. */
int lh_net_shape(struct lh_net *net, struct lh_error *err);

/* Enters the namespace of node i, of several ranks in it the first one's, with the calling thread;
 * lh_net_leave goes back. */
int lh_net_enter(const struct lh_net *net, size_t node, struct lh_error *err);
int lh_net_enter_rank(const struct lh_net *net, size_t rank, struct lh_error *err);

/* Enters the namespace where node i's card is: another one where it has several ranks. */
int lh_net_enter_card(const struct lh_net *net, size_t node, struct lh_error *err);
int lh_net_leave(const struct lh_net *net, struct lh_error *err);

/* A pair of nodes, and what it is to have from now on. */
struct lh_net_change {
	size_t from;
	size_t to;
	const struct lh_plan_path *path; /* as lh_plan_change_path makes it */
	bool is_faster;			 /* than what it has now */
};

/*
 * Changes paths in place, all together: what is under way or waits stays, in its order. Reads back
 * and compares. LH_ESYS.
 */
int lh_net_change_paths(struct lh_net *net, const struct lh_net_change *changes, size_t n,
			struct lh_error *err);

/*
 * Nodes that go and come (the plan says which ever do; network of LH_NET_ALL only). lh_net_cut:
 * from now on nothing comes from node i or to it, at once and without a word; what has left it
 * before goes on. lh_net_clear, when all that ran there has been killed: ends the connections that
 * its kernel still holds, without a word, too. lh_net_restore: it is back as a new host, with
 * nothing under way from it. LH_ESYS.
 */
void lh_net_cut(struct lh_net *net, size_t i);
int lh_net_clear(struct lh_net *net, size_t i, struct lh_error *err);
int lh_net_restore(struct lh_net *net, size_t i, struct lh_error *err);

/* What the queues of one directed pair of nodes have passed on since the network began. */
struct lh_net_counter {
	uint64_t wire_bytes;
	uint64_t wire_packets;
	uint64_t ack_bytes;
	uint64_t ack_packets;
	uint64_t dropped_packets;
};

/* Reads the counters of all pairs into counters[from * n_nodes + to]; where both are one node,
 * those of its inner network. */
int lh_net_read_counters(struct lh_net *net, struct lh_net_counter *counters, struct lh_error *err);

/* When that was last, by the clock of the kernel that counted. */
int64_t lh_net_counted_ns(const struct lh_net *net);

/* What a link that the nodes of a site share has passed on. */
struct lh_site_counter {
	uint64_t wire_bytes;
	uint64_t wire_packets;
	uint64_t dropped_packets;
};

/* Reads links[2 i] (up) and links[2 i + 1] (down) for every access i of the plan. */
int lh_net_read_site_links(struct lh_net *net, struct lh_site_counter *links, struct lh_error *err);

/*
 * What a network must not show but where its paths explain it, summed over all namespaces.
 * The path_ numbers are explained: by a queue that overflowed or that can more than double a
 * round trip, or by a round trip beyond TCP's longest time-out.
 */
struct lh_net_faults {
	uint64_t path_losses; /* as often as paths were asked to lose packets */
	uint64_t path_drops;  /* by queues that a stream can overflow */
	uint64_t path_retransmits;
	uint64_t path_timeouts;
	uint64_t retransmits;
	uint64_t timeouts;
	uint64_t receive_queue_drops;
	uint64_t qdisc_drops; /* by all other queues */
	uint64_t unclassified_packets;
	uint64_t softnet_drops;
	uint64_t link_drops; /* by the cables of nodes on the host */
};

int lh_net_read_faults(struct lh_net *net, struct lh_net_faults *ret_faults, struct lh_error *err);

/* What was pinned (or, on a shared kernel, found), as a JSON object; borrowed. */
json_t *lh_net_pinned(const struct lh_net *net);

#endif
