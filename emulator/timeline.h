/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schedule of a plan's changes. One half is pure: which pairs of nodes get which values
 * when. The other applies them to a network while something runs in it, and keeps a record.
 */
#ifndef LH_EMULATOR_TIMELINE_H
#define LH_EMULATOR_TIMELINE_H

#include <stdint.h>

#include "emulator/network.h"
#include "emulator/plan.h"

struct lh_timeline;

/* The schedule of a plan, which must outlive it, before its begin. *ret_timeline is owned by the
 * caller, and NULL where nothing changes. LH_ESYS. */
int lh_timeline_new(const struct lh_plan *plan, struct lh_timeline **ret_timeline,
		    struct lh_error *err);
void lh_timeline_free(struct lh_timeline *timeline);

/* When something changes next, in ns from the begin; INT64_MAX: never again. */
int64_t lh_timeline_next_ns(const struct lh_timeline *timeline);

/* Goes on to that time. What changes then, by sender and receiver, is borrowed until the next
 * call; it may be nothing. LH_ESYS. */
int lh_timeline_step(struct lh_timeline *timeline, const struct lh_net_change **ret_changes,
		     size_t *ret_n, struct lh_error *err);

/*
 * Begins with begin_ns (CLOCK_MONOTONIC) as the time 0, and applies what is due then; the record
 * goes to csv_path. From then on SIGALRM, which the caller has blocked, tells that something is
 * due. A NULL timeline does nothing.
 */
int lh_timeline_begin(struct lh_timeline *timeline, struct lh_net *net, int64_t begin_ns,
		      const char *csv_path, struct lh_error *err);

/* Applies all that is due now. */
int lh_timeline_run(struct lh_timeline *timeline, struct lh_error *err);

/* When lh_timeline_run is to be called next, CLOCK_MONOTONIC; INT64_MAX: never. */
int64_t lh_timeline_due_ns(const struct lh_timeline *timeline);

#endif
