/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of the target batch. See shares.h. */
#include "trainer/strategy/shares.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/cleanup.h"

/* Micro-batches that rank would compute were they not whole. */
static double ideal_of(const struct lh_job *job, uint32_t rank, double weight_sum, bool by_ratio)
{
	const struct lh_job_rank *r = &job->ranks[rank];
	double weight = by_ratio ? r->target_ratio : r->samples_per_s;

	return (double)job->target_batch * weight / weight_sum / r->micro_batch;
}

/* The rank that lacks most of a micro-batch; the first of equals. */
static uint32_t find_neediest(const double *ideal, const uint64_t *given, uint32_t n)
{
	uint32_t neediest = 0;

	for (uint32_t i = 1; i < n; i++)
		if (ideal[i] - (double)given[i] > ideal[neediest] - (double)given[neediest])
			neediest = i;
	return neediest;
}

int lh_shares_compute(const struct lh_job *job, uint64_t *ret_micro_batches, struct lh_error *err)
{
	uint32_t n = job->n_ranks;
	lh_cleanup_free double *ideal = calloc(n, sizeof(*ideal));
	double ratio_sum = 0, speed_sum = 0;
	uint64_t samples = 0;

	if (!ideal)
		return lh_fail(err, LH_ESYS, ENOMEM, "share the target batch");
	for (uint32_t i = 0; i < n; i++) {
		ratio_sum += job->ranks[i].target_ratio;
		speed_sum += job->ranks[i].samples_per_s;
	}
	for (uint32_t i = 0; i < n; i++) {
		ideal[i] = ideal_of(job, i, ratio_sum > 0 ? ratio_sum : speed_sum, ratio_sum > 0);
		ret_micro_batches[i] = (uint64_t)ideal[i];
		samples += ret_micro_batches[i] * job->ranks[i].micro_batch;
	}
	while (samples < job->target_batch) {
		uint32_t rank = find_neediest(ideal, ret_micro_batches, n);

		ret_micro_batches[rank]++;
		samples += job->ranks[rank].micro_batch;
	}
	for (uint32_t i = 0; i < n; i++)
		if (!ret_micro_batches[i])
			return lh_fail(err, LH_EINPUT, 0,
				       "rank %" PRIu32 " (%s): of the target batch of %" PRIu64
				       " samples its share is %.3g, less than a micro-batch of "
				       "%" PRIu32
				       "; expected a larger target batch or smaller micro-batches",
				       i, job->ranks[i].node, job->target_batch,
				       ideal[i] * job->ranks[i].micro_batch,
				       job->ranks[i].micro_batch);
	return 0;
}
