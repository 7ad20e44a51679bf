/* SPDX-License-Identifier: Apache-2.0 */
/* Networks as written: sites, paths, and what changes in time: of paths, and of nodes that go, come
 * and slow down. Plain data. */
#ifndef LH_SCENARIOS_NETWORK_H
#define LH_SCENARIOS_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/units.h"

enum lh_continent {
	LH_AFRICA,
	LH_ASIA,
	LH_EUROPE,
	LH_NORTH_AMERICA,
	LH_OCEANIA,
	LH_SOUTH_AMERICA,
	LH_N_CONTINENTS,
};

enum lh_jitter_distribution {
	LH_JITTER_NORMAL,
	LH_JITTER_PARETO,
	LH_JITTER_PARETONORMAL,
	LH_JITTER_UNIFORM,
	LH_JITTER_EMPIRICAL, /* not a name that can be written: samples are given */
};

enum lh_queue_discipline { LH_DROP_TAIL, LH_CODEL, LH_FQ_CODEL };

struct lh_yaml;

/* What waits at a bottleneck, and which packets are dropped or marked. */
struct lh_queue_spec {
	struct lh_queue_size size;
	int discipline;	     /* enum lh_queue_discipline */
	int64_t target_ns;   /* of an AQM; -1: the kernel's, as for the next */
	int64_t interval_ns; /* of an AQM */
	bool ecn;	     /* an AQM marks packets that can be marked */
};

/* What others send through a bottleneck; absent where mean_bps is not above 0. */
struct lh_cross_spec {
	int64_t mean_bps;
	int64_t flow_bytes; /* mean of a flow */
	int64_t peak_bps;   /* of a flow; -1: the bottleneck's */
	struct lh_pos pos;
};

/* The link between a site and all others, in one direction, that its nodes share. */
struct lh_site_link {
	int64_t bandwidth_bps; /* 0: no limit */
	struct lh_queue_spec queue;
	struct lh_cross_spec cross;
	char *source;
	struct lh_pos pos;
};

/* A zone, region or on-premise room. Optional strings are NULL when absent. */
struct lh_site {
	char *name;
	char *provider;
	int continent; /* enum lh_continent */
	char *region;
	char *zone;
	struct lh_site_link uplink;
	struct lh_site_link downlink;
	char *source;
};

/* What was measured on a path, judged by the same measurement. */
struct lh_measured {
	char *from;
	char *to;
	int64_t streams;
	int64_t duration_ns;
	int64_t throughput_bps; /* mean goodput over the duration, all streams together */
	int64_t sd_bps;		/* between repetitions */
	char *source;
};

/* What of a path may change in time, as bits. */
enum lh_attribute {
	LH_DELAY = 1, /* rtt, too */
	LH_BANDWIDTH = 2,
	LH_QUEUE = 4,
	LH_JITTER = 8,
	LH_LOSS = 16,
	LH_LOSS_BURST = 32,
	LH_DUPLICATE = 64,
	LH_CORRUPT = 128,
	LH_REORDER = 256,
	LH_CUT = 512, /* all is lost, whatever stands elsewhere */
};

/* What a path has in place of what its network says. */
struct lh_path_change {
	unsigned sets;	  /* enum lh_attribute; what is not among them means nothing below */
	int64_t rtt_ns;	  /* half of it each way; -1: delay_ns stands in its stead */
	int64_t delay_ns; /* one way */
	int64_t bandwidth_bps;
	int64_t queue_bps; /* bandwidth at which a queue's time counts; 0: the present one */
	struct lh_queue_size queue;
	int64_t jitter_ns;
	double loss_ratio;
	double loss_burst_pkts;
	double duplicate_ratio;
	double corrupt_ratio;
	double reorder_ratio;
};

struct lh_trace_row {
	int64_t at_ns;
	int64_t delay_ns;
	int64_t bandwidth_bps; /* 0: nothing passes */
	double loss_ratio;
};

/* Values that follow each other, from a file. */
struct lh_trace {
	char *csv;	     /* what the table was read from; or */
	char *mahimahi;	     /* what it was computed from */
	int64_t interval_ns; /* of a Mahimahi trace */
	bool repeat;
	int64_t length_ns; /* after which it repeats */
	char *table;	   /* the values, as CSV */

	/* resolved from the table */
	unsigned sets; /* enum lh_attribute: its columns; 0: there is no trace */
	struct lh_trace_row *rows;
	size_t n_rows;
	int64_t mean_bps; /* over its length */
};

/* Why a node is away. */
enum lh_absence_cause { LH_AWAY_BY_TIMELINE, LH_AWAY_BY_SPOT, LH_AWAY_BY_LATE_START };

/* A node (its VM) that is away: not there yet, or taken away. Times count from the start of what
 * runs. */
struct lh_absence {
	size_t node;
	int64_t from_ns;   /* -1: it was not there at the start */
	int64_t to_ns;	   /* INT64_MAX: it stays away */
	int64_t notice_ns; /* before from_ns, in which it is told; 0: it is not */
	enum lh_absence_cause cause;
};

/* A node whose computing takes factor times as long, from from_ns until before to_ns. */
struct lh_slowdown {
	size_t node;
	int64_t from_ns;
	int64_t to_ns; /* INT64_MAX: to the end */
	double factor;
};

enum { LH_ABSENCES_MAX = 100000 };

/* Interruptions of spot VMs: drawn, or as a file has them. */
struct lh_spot_spec {
	int64_t mean_time_to_preemption_ns; /* -1: as the table has them */
	int64_t mean_return_ns;		    /* -1: none comes back */
	int64_t for_ns;			    /* how long they are drawn; -1: LH_SPOT_FOR_NS */
	int64_t notice_ns;		    /* -1: none */
	char **nodes;			    /* nodes and sites; none: all */
	size_t n_nodes;
	char *trace; /* what the table was read from */
	char *table; /* CSV */
	struct lh_pos pos;
};

#define LH_SPOT_FOR_NS INT64_C(86400000000000) /* a day */

/* A change at a time, counted from the start of what runs: of paths, or of nodes. */
struct lh_event {
	int64_t at_ns;
	int64_t for_ns; /* -1: until the next of its kind, or the end */
	char **path;	/* two sites, both directions; or */
	size_t n_path;
	char *from; /* one direction; or */
	char *to;
	char *site; /* all paths to and from it */
	bool cut_off;
	struct lh_path_change change; /* sets: what is written */
	struct lh_trace trace;
	/* of nodes; each word is a node or a site, whose nodes are all meant */
	char **preempt;
	size_t n_preempt;
	int64_t return_after_ns; /* -1: never */
	int64_t notice_ns;	 /* -1: none */
	char **slow;
	size_t n_slow;
	double factor; /* -1: not written */
	char **join;
	size_t n_join;
	struct lh_pos pos;
};

/* A path as written: between two sites (both directions) or from one to the other. */
struct lh_path_spec {
	char **between; /* two names, or none */
	size_t n_between;
	char *from;
	char *to;
	int64_t rtt_ns;	  /* with between; else -1 */
	int64_t delay_ns; /* one way, with from and to; else -1 */
	int64_t bandwidth_bps;
	struct lh_queue_spec queue;
	struct lh_cross_spec cross;
	int64_t stream_window_bytes; /* -1: the network's */
	int64_t jitter_ns;	     /* standard deviation; -1: none, or that of the samples */
	int jitter_distribution;     /* enum lh_jitter_distribution */
	char **jitter_samples;	     /* delays or deviations, in ms */
	size_t n_jitter_samples;
	double loss_ratio;	/* -1: none, as for the others */
	double loss_burst_pkts; /* mean length of a burst; -1: losses are independent */
	double duplicate_ratio;
	double corrupt_ratio;
	double reorder_ratio;
	struct lh_trace trace; /* from the start of what runs on */
	char *source;
	struct lh_measured *measured;
	size_t n_measured;
	struct lh_pos pos;
};

struct lh_network {
	char *name;
	char *about;
	char *source;
	int64_t mtu_bytes;
	int64_t stream_window_bytes; /* -1: no limit but the hosts' buffers */
	struct lh_site *sites;
	size_t n_sites;
	struct lh_path_spec *paths;
	size_t n_paths;
	const struct lh_path_spec **path_at; /* [from * n_sites + to], NULL: none */
};

#endif
