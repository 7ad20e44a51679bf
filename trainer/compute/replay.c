/* SPDX-License-Identifier: Apache-2.0 */
/* Replayed computing. See replay.h. */
#include "trainer/compute/replay.h"

#include <inttypes.h>
#include <stdio.h>

#include "trainer/clock.h"

static const double SIGMA_MAX = 3.0;

void lh_replay_init(struct lh_replay *replay, const struct lh_job *job, uint32_t rank)
{
	const struct lh_job_rank *me = &job->ranks[rank];
	char stream[32];

	snprintf(stream, sizeof(stream), "compute/%" PRIu32, rank);
	lh_rng_init(&replay->rng, job->seed, stream);
	replay->batch_ns = me->micro_batch / me->samples_per_s * (double)LH_NS_PER_S;
	replay->variation_ratio = me->variation_ratio;
	replay->accumulate_ns = me->accumulate_ns;
}

int64_t lh_replay_next_ns(struct lh_replay *replay)
{
	double z = lh_rng_normal(&replay->rng);
	int64_t ns;

	if (z > SIGMA_MAX)
		z = SIGMA_MAX;
	if (z < -SIGMA_MAX)
		z = -SIGMA_MAX;
	ns = (int64_t)(replay->batch_ns * (1.0 + replay->variation_ratio * z) + 0.5);
	ns += replay->accumulate_ns;
	return ns > 0 ? ns : 1;
}

int64_t lh_replay_mean_ns(const struct lh_job_rank *rank)
{
	double batch_ns = rank->micro_batch / rank->samples_per_s * (double)LH_NS_PER_S;
	int64_t ns = (int64_t)(batch_ns + 0.5) + rank->accumulate_ns;

	return ns > 0 ? ns : 1;
}
