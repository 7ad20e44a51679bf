/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network plan: from a scenario to addresses, queues and windows. Pure: touches no
 * kernel. One router namespace ("wan") has a link to every node; what goes from node a to
 * node b is delayed and limited there, on the way out to b:
 *
 *   node a --nic up (tbf)--> wan --htb: nic down of b; one class per sender a, with netem:
 *                                  delay, path bandwidth, queue--> node b
 *
 * A node with several ranks, one for each of its GPUs, is a router itself, with a namespace for
 * each of them behind it; between these there is its inner network.
 *
 * Nodes with a bottleneck that netem cannot be have more routers before them; network_build.c
 * says which.
 */
#ifndef LH_EMULATOR_PLAN_H
#define LH_EMULATOR_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "scenarios/jitter.h"
#include "scenarios/scenario.h"
#include "scenarios/timeline.h"

enum {
	LH_ETHERNET_HEADER_BYTES = 14,
	LH_TCP_HEADERS_BYTES = 52, /* IPv4 20, TCP 20, timestamps 12 */
	LH_PURE_ACK_BYTES = LH_ETHERNET_HEADER_BYTES + LH_TCP_HEADERS_BYTES,
	LH_MTU_COARSE_BYTES = 32000,
	LH_SUPER_PACKET_BYTES = 80000, /* at most, with the headers of its parts */
	LH_ADDRESS_BITS = 32,
	LH_INNER_MTU_BYTES = 65535, /* the most that a veth pair takes */
};

/* Linux's longest retransmission time-out: above this round-trip time TCP always repeats itself. */
#define LH_TCP_RTO_MAX_NS INT64_C(120000000000)

/* Probabilities as netem holds them: of 2^32. */
struct lh_plan_chances {
	uint32_t loss;	   /* independent */
	uint32_t burst_in; /* Gilbert: from passing to losing, and back; 0: no bursts */
	uint32_t burst_out;
	uint32_t duplicate;
	uint32_t corrupt;
	uint32_t reorder;
};

/* A rate, and what waits before it, in a queue of its own. */
struct lh_plan_bottleneck {
	const struct lh_queue_spec *queue;
	int64_t bandwidth_bps; /* 0: there is no such bottleneck */
	int64_t queue_ns;
	uint32_t burst_bytes; /* that pass at once */
	uint32_t limit_bytes; /* of a queue without management */
	uint32_t limit_pkts;  /* of one with it */
};

/* What a directed pair of nodes gets. */
struct lh_plan_path {
	const struct lh_path_spec *spec;
	const struct lh_jitter_table *jitter; /* NULL: the delay does not vary */
	struct lh_plan_chances chances;
	uint64_t seed;			      /* of all that is random here; 0: nothing is */
	bool splits_segments;		      /* super-packets are cut before the queue */
	struct lh_plan_bottleneck bottleneck; /* before netem, where its queue is not drop-tail */
	int64_t delay_ns;
	int64_t bandwidth_bps;
	int64_t queue_ns;
	uint32_t limit_pkts;	 /* of netem: what is in flight plus the queue */
	uint32_t clamp_segments; /* congestion window's upper bound; 0: none */

	/* what changes in time */
	const struct lh_track *track;		  /* NULL: nothing does */
	const struct lh_path_extremes *extremes;  /* over all time; NULL as track */
	const struct lh_jitter_table *late_table; /* of the largest deviation that events give */
	bool varies;	      /* rate, queue or delay: the bottleneck stands by itself */
	bool catches_up;      /* netem keeps the order, but no rate of its own */
	uint32_t uncut_bytes; /* of super-packets, where the path varies: longer ones are cut */
};

/*
 * Nodes that reach the others through routers of their own: those of a site with shared links,
 * or (site NULL) all others with a bottleneck before them.
 */
struct lh_plan_access {
	const struct lh_site *site;
	struct lh_plan_bottleneck up, down;
};

/* What each rank of a node has towards the others in it; bandwidth_bps 0: it is alone. */
struct lh_plan_inner {
	int64_t bandwidth_bps; /* of its port, in each direction */
	int64_t delay_ns;
	uint32_t burst_bytes; /* of the port outwards: pass at once */
	uint32_t limit_bytes;
	uint32_t limit_pkts; /* of the netem inwards */
};

struct lh_plan_rank {
	const char *name; /* borrowed from the scenario */
	size_t node;
	size_t local;	  /* its number in the node, from 0 on */
	uint32_t address; /* IPv4, host byte order */
};

struct lh_plan_node {
	const char *name; /* borrowed from the scenario */
	size_t site;
	const struct lh_plan_access *access; /* NULL: straight to the router */
	bool is_staged;			     /* some path to it has a bottleneck of its own */
	bool is_ever_away;
	size_t first_rank;
	size_t n_ranks;
	uint32_t address; /* of its first rank, IPv4, host byte order; those of the others follow */
	int prefix_len;	  /* of the block of addresses that begins there */
	struct lh_plan_inner inner;
	int64_t nic_up_bps;
	int64_t nic_down_bps;
	uint32_t nic_burst_bytes;
	uint32_t nic_limit_bytes;
	uint32_t burst_segments; /* that TCP sends at once, at least */
	const struct lh_tcp *tcp;
};

/* A table of delays, and the first path that has it. */
struct lh_plan_table {
	const struct lh_path_spec *path;
	struct lh_jitter_table *table;
};

struct lh_plan {
	const struct lh_scenario *scenario;
	struct lh_plan_node *nodes;
	size_t n_nodes;
	struct lh_plan_rank *ranks;
	size_t n_ranks;
	unsigned rank_bits; /* of an address, its number in the node */
	struct lh_plan_access *accesses;
	size_t n_accesses;
	bool uses_ecn;
	struct lh_plan_table *tables; /* all that differ */
	size_t n_tables;
	const struct lh_jitter_table **jitter; /* by path of the scenario's network; NULL: none */
	struct lh_jitter_table **late; /* the same of the largest deviations that events give */
	struct lh_track *tracks;       /* [from site * n_sites + to site]; NULL: nothing changes */
	struct lh_path_extremes *extremes;
	struct lh_plan_path *paths; /* [from * n_nodes + to] */
	uint32_t mtu_bytes;
	uint32_t segment_bytes; /* TCP payload of a full packet */
	uint32_t initial_window_segments;
	int64_t tcp_mem_pages[3];
	int64_t guest_memory_bytes;
};

/* Builds the plan of a resolved scenario, which must outlive it. *ret_plan is owned by the caller.
 */
int lh_plan_build(const struct lh_scenario *scenario, struct lh_plan **ret_plan,
		  struct lh_error *err);
void lh_plan_free(struct lh_plan *plan);

const struct lh_plan_path *lh_plan_path_at(const struct lh_plan *plan, size_t from, size_t to);

/* The node that an address belongs to (host byte order); n_nodes where it is none's. */
size_t lh_plan_node_at(const struct lh_plan *plan, uint32_t address);

/* Whether a node has an inner network, and none before it has the same: one of each kind is
 * measured. */
bool lh_plan_is_first_inner(const struct lh_plan *plan, size_t node);

/* "10.64.0.1" in buf, which is returned; n_buf at least 16. */
char *lh_address_format(uint32_t address, char *buf, size_t n_buf);

/* Round-trip time between two nodes with nothing else on the way, in ns. */
int64_t lh_plan_rtt_ns(const struct lh_plan *plan, size_t a, size_t b);

/* Whether a path leaves one site with shared links or enters one. */
bool lh_plan_shares_link(const struct lh_plan *plan, size_t from, size_t to);

/* Whether others send through the bottleneck of a path, too. */
bool lh_plan_has_cross(const struct lh_plan *plan, size_t from, size_t to);

/* Full packets that the path's queue has room for, with all that is in flight. */
uint32_t lh_plan_room_pkts(const struct lh_plan *plan, size_t from, size_t to);

/* Rate of the slowest link from one node to another: the path, a network card or a link that
 * their sites share; bit/s. */
int64_t lh_plan_slowest_bps(const struct lh_plan *plan, size_t from, size_t to);

/* The longest round-trip time between any two nodes at any time, in ns. */
int64_t lh_plan_longest_rtt_ns(const struct lh_plan *plan);

/*
 * Steady goodput of one TCP stream from a to b, bit/s: its window per round trip or the
 * path's bandwidth without headers, whichever is less; -1 where the hosts' buffers or losses
 * in the path's queue decide.
 */
int64_t lh_plan_stream_bps(const struct lh_plan *plan, size_t from, size_t to);

/* Whether one TCP stream can fill the path's queue to overflowing: its window is larger than
 * what is in flight and in the queue. Losses there are the path's own. */
bool lh_plan_may_drop(const struct lh_plan *plan, size_t from, size_t to);

/* Whether one TCP stream can fill the path's queue so far that a round trip takes more than
 * twice as long. TCP may then repeat itself although nothing was lost. */
bool lh_plan_may_queue(const struct lh_plan *plan, size_t from, size_t to);

/* Whether a path loses, doubles, damages or overtakes packets by itself: TCP then repeats
 * segments, and its speed cannot be foretold. */
bool lh_plan_is_rough(const struct lh_plan_path *path);

/* Whether a path's delay varies so much that TCP may take a late packet for a lost one. */
bool lh_plan_may_mislead(const struct lh_plan *plan, size_t from, size_t to);

/*
 * What a pair of nodes has where its path and the one back have been changed: *ret is the plan's
 * own with all that depends on the changes computed anew. jitter: the table of the changed
 * deviation, where there sets one (NULL: no jitter); it must outlive *ret.
 */
void lh_plan_change_path(const struct lh_plan *plan, size_t from, size_t to,
			 const struct lh_path_change *there, const struct lh_path_change *back,
			 const struct lh_jitter_table *jitter, struct lh_plan_path *ret);

/* bit/s that netem itself holds the packets of a path to. */
int64_t lh_plan_netem_bps(const struct lh_plan_path *path);

/* Whether TCP may repeat itself for what a path's changes do to packets at some time. */
bool lh_plan_may_ever_repeat(const struct lh_plan *plan, size_t from, size_t to);

/* Whether the path's queue may drop packets at some time. */
bool lh_plan_may_ever_drop(const struct lh_plan *plan, size_t from, size_t to);

/* The most that a path loses by chance at any time; loses_all: everything, for a while. */
struct lh_plan_chances lh_plan_worst_chances(const struct lh_plan_path *path, bool *ret_loses_all);

/* The longest stretch of time for which nothing comes through between two sites, in ns. */
int64_t lh_plan_longest_outage_ns(const struct lh_plan *plan);

/* The plan as JSON (network.json): every number that is applied. Owned by the caller. */
json_t *lh_plan_to_json(const struct lh_plan *plan);

/* The same into a file, path by path: 256 nodes have 65,280, which as one document would take
 * more memory than their network. LH_ESYS. */
int lh_plan_write(const struct lh_plan *plan, const char *path, struct lh_error *err);

#endif
