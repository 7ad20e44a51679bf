/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averaging in a group whose members change from round to round: a butterfly of those that are
 * there, each owning an equal shard, by the plan and the executor of trainer/collective. What fails
 * is told with the member at which it failed; then nothing of it is left but the lanes, which the
 * caller closes.
 *
 * Where numbers are replayed only the slices of trainer/strategy/sample.h are real, and each member
 * checks all of them.
 */
#ifndef LH_TRAINER_ELASTIC_GROUP_H
#define LH_TRAINER_ELASTIC_GROUP_H

#include "trainer/elastic/notice.h"
#include "trainer/rank.h"
#include "trainer/strategy/averaging.h"

/* One averaging. */
struct lh_group_round {
	uint32_t serial;	 /* the messages' epoch */
	uint32_t draw;		 /* replayed: which numbers, alike at all members */
	uint32_t n;		 /* members, at least 1; this rank is one of them */
	const uint32_t *ranks;	 /* in rising order */
	const uint64_t *weights; /* by member, their sum at least 1 */
	int64_t deadline_ns;
};

struct lh_group;

/* rank's communicator is open, and borrowed as averaged is. *ret_group is given to lh_group_close.
 * LH_ESYS. */
int lh_group_open(struct lh_rank *rank, struct lh_averaged averaged, struct lh_group **ret_group,
		  struct lh_error *err);

/*
 * Averages with the members, with all of whom there are lanes. On success averaged.values are the
 * group's mean, the same bits at every member; on failure they are anything. LH_ERUN with sys
 * ETIMEDOUT, ECANCELED (the round is void) or another, and *ret_culprit; LH_ESYS.
 */
int lh_group_average(struct lh_group *group, const struct lh_group_round *round,
		     struct lh_average *ret_average, uint32_t *ret_culprit, struct lh_error *err);

void lh_group_close(struct lh_group *group); /* NULL is fine */

#endif
