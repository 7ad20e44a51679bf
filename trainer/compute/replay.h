/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replayed computing: how long each micro-batch takes, from a measured profile. Nothing
 * is computed; the caller lets the time pass. See lh_compute_replay in compute.h.
 */
#ifndef LH_TRAINER_REPLAY_H
#define LH_TRAINER_REPLAY_H

#include <stdint.h>

#include "core/rng.h"
#include "trainer/job.h"

struct lh_replay {
	struct lh_rng rng;
	double batch_ns; /* of the profile: micro_batch / samples_per_s */
	double variation_ratio;
	int64_t accumulate_ns;
};

/* Starts rank's stream of micro-batches, "compute/<rank>" of the job's seed. */
void lh_replay_init(struct lh_replay *replay, const struct lh_job *job, uint32_t rank);

/* Starts the stream of a rank that has been there incarnation times before, at least 1:
 * "compute/<rank>/<incarnation>". */
void lh_replay_renew(struct lh_replay *replay, uint64_t seed, uint32_t rank, uint32_t incarnation);

/* The next micro-batch's time in ns, at least 1:
 * micro_batch / samples_per_s x (1 + variation_ratio x normal) + accumulate_ns, the normal
 * clamped at +-3. */
int64_t lh_replay_next_ns(struct lh_replay *replay);

/* The mean time of a micro-batch of that rank, at least 1 ns. */
int64_t lh_replay_mean_ns(const struct lh_job_rank *rank);

#endif
