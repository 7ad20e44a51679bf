/* SPDX-License-Identifier: Apache-2.0 */
/* Who computes how much of the target batch, where the job alone says so. Pure. */
#ifndef LH_TRAINER_SHARES_H
#define LH_TRAINER_SHARES_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/job.h"

/*
 * The micro-batches of every rank in one round: whole ones, as near as they come to the ranks'
 * target_ratio of the target batch (all 0: to their speeds, samples_per_s), together at least the
 * target and less than one micro-batch more. ret_micro_batches: by rank, n_ranks. LH_EINPUT where
 * a rank would compute nothing; LH_ESYS.
 */
int lh_shares_compute(const struct lh_job *job, uint64_t *ret_micro_batches, struct lh_error *err);

#endif
