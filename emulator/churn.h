/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schedule of nodes that go and come: who is told, taken away, brought back when. It cuts and
 * restores their network; what runs in them is the caller's, by its functions. Keeps a record.
 */
#ifndef LH_EMULATOR_CHURN_H
#define LH_EMULATOR_CHURN_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/network.h"
#include "emulator/plan.h"

struct lh_churn;

/* What the schedule needs of what runs in the nodes. */
struct lh_churn_ops {
	/* Whether a node has done its work, so that nothing happens to it any more. */
	bool (*is_done)(void *context, size_t node);
	/* Asks all that runs in it to end (SIGTERM). */
	int (*notify)(void *context, size_t node, struct lh_error *err);
	/* Kills all that runs in it; it is gone on return. */
	int (*kill)(void *context, size_t node, struct lh_error *err);
	/* Starts what runs in it; incarnation: how often that has been before. */
	int (*start)(void *context, size_t node, unsigned incarnation, struct lh_error *err);
};

/* The schedule of a plan, which must outlive it. *ret_churn is owned by the caller, and NULL where
 * no node ever goes or comes; all functions take NULL and then do nothing. LH_ESYS. */
int lh_churn_new(const struct lh_plan *plan, struct lh_churn **ret_churn, struct lh_error *err);
void lh_churn_free(struct lh_churn *churn);

/*
 * Begins with begin_ns (CLOCK_MONOTONIC) as the time 0: cuts off those that are not there yet. The
 * record goes to csv_path. From then on SIGALRM, which the caller has blocked, tells that something
 * is due. ops and context must outlive it.
 */
int lh_churn_begin(struct lh_churn *churn, struct lh_net *net, int64_t begin_ns,
		   const char *csv_path, const struct lh_churn_ops *ops, void *context,
		   struct lh_error *err);

/* Does all that is due now. */
int lh_churn_run(struct lh_churn *churn, struct lh_error *err);

/* When that is to be called next, CLOCK_MONOTONIC; INT64_MAX: never. */
int64_t lh_churn_due_ns(const struct lh_churn *churn);

/* Whether a node is away now, and whether it will be started (again) later. */
bool lh_churn_is_away(const struct lh_churn *churn, size_t node);
bool lh_churn_will_start(const struct lh_churn *churn, size_t node);

/* What took or takes a node away last: "west/0 (rank 2) was preempted at 3 s"; owned by the caller,
 * NULL where nothing has yet. */
char *lh_churn_describe_last(const struct lh_churn *churn);

#endif
