/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of strategies whose ranks step by themselves and come together now and then: after every
 * `period` epochs, and after the last. What ranks have gone from the weights that they had alike is
 * averaged over all of them, weighted by the samples that each has computed meanwhile, and an outer
 * optimizer steps with it. With equal shares that is the plain mean of the papers; with unequal
 * ones, averaging after every step of plain SGD stays the same as averaging gradients.
 *
 * With more than one fragment the parts of the weights take turns within a period. With a delay a
 * fragment travels beside the computing of that many epochs, and what came back is then mixed with
 * what the rank has meanwhile. After the last epoch all that is not together yet is averaged
 * without the outer optimizer, so that every rank ends with the same weights.
 *
 * The optimizer's own state (momentum and the like) stays with its rank.
 */
#ifndef LH_TRAINER_SYNCHRONISE_H
#define LH_TRAINER_SYNCHRONISE_H

#include "core/error.h"
#include "trainer/rank.h"

struct lh_synchronise_config {
	uint32_t period;      /* epochs, at least 1 */
	uint32_t n_fragments; /* 1 to period */
	uint32_t delay;	      /* epochs, less than period */
	double mix;	      /* weight of the rank's own values when a fragment comes back, 0..1 */
	double lr;	      /* of the outer optimizer */
	double momentum;
};

/* Whether the job and the numbers fit. LH_EINPUT. */
int lh_synchronise_check(const struct lh_job *job, const struct lh_synchronise_config *config,
			 struct lh_error *err);

/* All epochs of a rank. LH_ESYS, LH_ERUN. */
int lh_synchronise_run(struct lh_rank *rank, const struct lh_synchronise_config *config,
		       struct lh_error *err);

#endif
