/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make up the plan share. */
#ifndef LH_EMULATOR_PLAN_INTERNAL_H
#define LH_EMULATOR_PLAN_INTERNAL_H

#include "emulator/plan.h"

enum { NS_PER_S = 1000000000 };

/* Bytes that pass in duration_ns at rate_bps. */
static inline double lh_plan_bytes_in(int64_t rate_bps, int64_t duration_ns)
{
	return (double)rate_bps / 8 * ((double)duration_ns / NS_PER_S);
}

static inline uint32_t lh_to_u32(double v)
{
	return v >= UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/* Bytes that one stream can have under way at most. */
double lh_plan_window_bytes(const struct lh_plan *plan, size_t from, size_t to);

/* What netem is given for the shares of a path. */
struct lh_plan_chances lh_plan_chances_of(const struct lh_path_spec *spec);

/* A queue's length in ns at a bandwidth; rtt_ns: for what is written in BDP. */
int64_t lh_plan_queue_ns(const struct lh_plan *plan, const struct lh_queue_size *queue,
			 int64_t bandwidth_bps, int64_t rtt_ns);

/* Makes the tracks of all pairs of sites with nodes, and tables of jitter that only events give. */
int lh_plan_tracks(struct lh_plan *plan, struct lh_error *err);
void lh_plan_tracks_done(struct lh_plan *plan);

/* Fills what changes in time of a pair whose spec is known. */
void lh_plan_add_track(const struct lh_plan *plan, size_t from, size_t to, struct lh_plan_path *p);

/* Whether a path loses, doubles, damages or overtakes single packets at some time. */
bool lh_plan_is_rough_later(const struct lh_plan_path *path);

/* Whether super-packets must be cut on a path that varies for what comes in time. */
bool lh_plan_cuts_later(const struct lh_plan_path *path);

/* What holds rate and queue of a path that varies: their size now, and netem's limit for all
 * time. queue_bps: the bandwidth at which the queue's time counts; 0: the present one. */
void lh_plan_bottleneck(const struct lh_plan *plan, size_t from, size_t to, struct lh_plan_path *p,
			int64_t queue_bps);

int64_t lh_plan_longest_delay_ns(const struct lh_plan_path *path);

#endif
