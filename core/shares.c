/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of a target. See shares.h. */
#include "core/shares.h"

/* Micro-batches that one would compute were they not whole. */
static double ideal_of(const struct lh_share *share, uint64_t target, double weight_sum)
{
	return (double)target * share->weight / weight_sum / share->micro_batch;
}

/* Who lacks most of a micro-batch. */
static size_t find_neediest(const struct lh_share *shares, size_t n, uint64_t target,
			    double weight_sum)
{
	size_t neediest = 0;
	double most = 0;

	for (size_t i = 0; i < n; i++) {
		double lacks =
			ideal_of(&shares[i], target, weight_sum) - (double)shares[i].micro_batches;

		if (i == 0 || lacks > most) {
			neediest = i;
			most = lacks;
		}
	}
	return neediest;
}

void lh_shares_compute(struct lh_share *shares, size_t n, uint64_t target)
{
	double weight_sum = 0;
	uint64_t samples = 0;

	for (size_t i = 0; i < n; i++)
		weight_sum += shares[i].weight;
	for (size_t i = 0; i < n; i++) {
		shares[i].micro_batches = (uint64_t)ideal_of(&shares[i], target, weight_sum);
		samples += shares[i].micro_batches * shares[i].micro_batch;
	}
	while (samples < target) {
		struct lh_share *share = &shares[find_neediest(shares, n, target, weight_sum)];

		share->micro_batches++;
		samples += share->micro_batch;
	}
}
