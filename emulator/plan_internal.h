/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make a plan share. */
#ifndef LH_EMULATOR_PLAN_INTERNAL_H
#define LH_EMULATOR_PLAN_INTERNAL_H

#include "emulator/plan.h"

/* Bytes that pass in duration_ns at rate_bps. */
double lh_plan_bytes_in(int64_t rate_bps, int64_t duration_ns);

/* The largest number of 32 bits where v is beyond it. */
uint32_t lh_plan_u32(double v);

/* The slowest rate on the way from a node to any other. */
int64_t lh_plan_slowest_from_bps(const struct lh_plan *plan, size_t from);

/*
 * Fills in all queues once nodes, delays and rates are known: netem's limits, bottlenecks of
 * paths and of sites, and which nodes stand behind routers of their own. LH_ESYS: no memory.
 */
int lh_plan_queues(struct lh_plan *plan, struct lh_error *err);

#endif
