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
	const struct lh_job_slow *slow; /* borrowed from the job */
	size_t n_slow;
};

/* Starts rank's stream of micro-batches, "compute/<rank>" of the job's seed; borrows the job. */
void lh_replay_init(struct lh_replay *replay, const struct lh_job *job, uint32_t rank);

/* Starts the stream of a rank that has been there incarnation times before, at least 1:
 * "compute/<rank>/<incarnation>". */
void lh_replay_renew(struct lh_replay *replay, uint64_t seed, uint32_t rank, uint32_t incarnation);

/* The time in ns, at least 1, of the next micro-batch, which begins at begin_ns
 * (CLOCK_MONOTONIC): micro_batch / samples_per_s x (1 + variation_ratio x normal) + accumulate_ns,
 * the normal clamped at +-3, as lh_replay_stretch_ns makes it longer. */
int64_t lh_replay_next_ns(struct lh_replay *replay, int64_t begin_ns);

/* How long work of work_ns takes from begin_ns on where it goes slower in some spans (in order,
 * apart); at most INT64_MAX / 4. */
int64_t lh_replay_stretch_ns(const struct lh_job_slow *slow, size_t n_slow, int64_t begin_ns,
			     int64_t work_ns);

/* The mean time of a micro-batch of that rank, at least 1 ns. */
int64_t lh_replay_mean_ns(const struct lh_job_rank *rank);

#endif
