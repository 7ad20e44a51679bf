/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the probe share. */
#ifndef LH_EMULATOR_PROBE_INTERNAL_H
#define LH_EMULATOR_PROBE_INTERNAL_H

#include "emulator/probe.h"

/* An echo of the round-trip probe on the wire: Ethernet, IPv4, ICMP and what it carries. */
enum { LH_ECHO_WIRE_BYTES = 14 + 20 + 24 };

enum { LH_NS_PER_MS = 1000000, LH_NS_PER_S = 1000000000 };

/* Adds a row of zeros; NULL where memory is out. */
struct lh_link_row *lh_links_add(struct lh_links *links);

/* Compares what a row has achieved with its target. */
void lh_links_judge(struct lh_links *links, struct lh_link_row *row);

/* Adds rows for one inner network of each kind, whose round trips are on the diagonal of rtts. */
int lh_probe_inner(struct lh_net *net, const struct lh_plan *plan, const int64_t *rtts,
		   struct lh_links *links, struct lh_error *err);

/* What one TCP stream must carry there, bit/s; -1 where the hosts' buffers decide. */
int64_t lh_inner_stream_bps(const struct lh_plan *plan, size_t node);

/* Measures the median round trip of every ordered pair: ret_ns[from * n + to], -1: no answer; where
 * both are the same node, of the inner network if it is the first of its kind. */
int lh_probe_rtts(struct lh_net *net, const struct lh_plan *plan, int64_t *ret_ns,
		  struct lh_error *err);

enum { LH_PROBE_PHASES_MAX = 16 };

/*
 * One throughput measurement to be made. A stream that its window limits comes in one burst a round
 * trip: over four of them a burst more or less, which falls in or out at the ends, is a quarter. So
 * it is counted several times, each a part of a round trip later, and the mean taken.
 */
struct lh_stream_job {
	size_t from; /* node; its first rank */
	size_t to;   /* the same node: its second rank, by the inner network */
	int streams;
	int64_t settle_ns;   /* from the begin of sending to the begin of counting */
	int64_t measure_ns;  /* how long is counted */
	int n_phases;	     /* how often, 1 to LH_PROBE_PHASES_MAX */
	int64_t phase_ns;    /* from one to the next */
	double achieved_bps; /* filled in */
};

/* Runs all jobs at the same time. */
int lh_probe_streams(struct lh_net *net, const struct lh_plan *plan, struct lh_stream_job *jobs,
		     size_t n_jobs, struct lh_error *err);

/* CLOCK_MONOTONIC in ns. */
int64_t lh_now_ns(void);

/* Sleeps until CLOCK_MONOTONIC reads t_ns. */
void lh_sleep_until(int64_t t_ns);

struct msghdr;

/* The kernel's arrival stamp (SO_TIMESTAMPNS, CLOCK_REALTIME) of a received message in ns, or 0. */
int64_t lh_arrival_ns(struct msghdr *m);

#endif
