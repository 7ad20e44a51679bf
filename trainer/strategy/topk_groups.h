/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of hierarchical top-k: ranks of one node, or of one site, all as many. */
#ifndef LH_TRAINER_TOPK_GROUPS_H
#define LH_TRAINER_TOPK_GROUPS_H

#include "trainer/job.h"

/* One rank's place: in its group, and among those that have the same place in theirs. */
struct lh_topk_groups {
	uint32_t n_groups;
	uint32_t n_members; /* of each group */
	uint32_t group;	    /* this rank's, groups in the order of their first ranks */
	uint32_t place;	    /* in it, by rank */
	uint32_t *ranks;    /* owned: n_groups x n_members, group by group */
	uint32_t *inner;    /* n_members: the own group's, in ranks */
	uint32_t *across;   /* owned: n_groups, group by group: those at the same place */
};

/* LH_EINPUT where groups have unlike numbers of ranks; LH_ESYS. *ret_groups is given to
 * lh_topk_groups_done. */
int lh_topk_groups_init(const struct lh_job *job, uint32_t self, struct lh_topk_groups *ret_groups,
			struct lh_error *err);

/* All zeros is fine. */
void lh_topk_groups_done(struct lh_topk_groups *groups);

#endif
