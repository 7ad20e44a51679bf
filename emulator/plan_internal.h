/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make a plan share. */
#ifndef LH_EMULATOR_PLAN_INTERNAL_H
#define LH_EMULATOR_PLAN_INTERNAL_H

#include "emulator/plan.h"

/* Bytes that pass in duration_ns at rate_bps. */
double lh_plan_bytes_in(int64_t rate_bps, int64_t duration_ns);

/* The largest number of 32 bits where v is beyond it. */
uint32_t lh_plan_u32(double v);

/* Makes the ranks, their addresses and the inner networks of all nodes. LH_ESYS: no memory. */
int lh_plan_ranks(struct lh_plan *plan, struct lh_error *err);

/* The slowest rate on the way from a node to any other. */
int64_t lh_plan_slowest_from_bps(const struct lh_plan *plan, size_t from);

/*
 * Fills in all queues once nodes, delays and rates are known: netem's limits, bottlenecks of
 * paths and of sites, and which nodes stand behind routers of their own. LH_ESYS: no memory.
 */
int lh_plan_queues(struct lh_plan *plan, struct lh_error *err);

/* Bytes that one stream can have under way at most. */
double lh_plan_window_bytes(const struct lh_plan *plan, size_t from, size_t to);

/* What netem is given for the shares of a path. */
struct lh_plan_chances lh_plan_chances_of(const struct lh_path_spec *spec);

/* A queue's length in ns at a rate; rtt_ns: for what is written in BDP. */
int64_t lh_plan_queue_ns(const struct lh_plan *plan, const struct lh_queue_size *size,
			 int64_t rate_bps, int64_t rtt_ns);

/* Makes the tracks of all pairs of sites with nodes, and tables of jitter that only events give. */
int lh_plan_tracks(struct lh_plan *plan, struct lh_error *err);
void lh_plan_tracks_done(struct lh_plan *plan);

/* Fills what changes in time of a pair whose spec is known. */
void lh_plan_add_track(const struct lh_plan *plan, size_t from, size_t to, struct lh_plan_path *p);

/* Whether single packets of a path are lost, doubled, damaged or overtaken at some time by what
 * changes. */
bool lh_plan_is_rough_later(const struct lh_plan_path *path);

/*
 * Of a path that varies, whose bottleneck is there already: how much of it passes at once and how
 * much waits, where super-packets are cut, and room in netem for all that may be under way at any
 * time. queue_bps: the rate at which the queue's time counts.
 */
void lh_plan_adapt_bottleneck(const struct lh_plan *plan, size_t from, size_t to,
			      struct lh_plan_path *p, int64_t queue_bps);

/* The longest delay at any time, and how much later jitter may make it. */
int64_t lh_plan_longest_delay_ns(const struct lh_plan_path *path);
int64_t lh_plan_latest_ns(const struct lh_plan_path *path);

#endif
