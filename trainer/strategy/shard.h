/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting a vector of parameters over ranks, as equally as whole elements allow. */
#ifndef LH_TRAINER_SHARD_H
#define LH_TRAINER_SHARD_H

#include <stdint.h>

/* Elements of rank's shard: parameters / n, and one more for the first parameters % n. */
static inline uint64_t lh_shard_elements(uint64_t parameters, uint32_t n, uint32_t rank)
{
	return parameters / n + (rank < parameters % n);
}

/* Elements that rank sends in a butterfly averaging: everybody's shard but its own, then its
 * own to all n - 1 others: parameters + (n - 2) x shard. 0 for n = 1. */
static inline uint64_t lh_shard_butterfly_elements(uint64_t parameters, uint32_t n, uint32_t rank)
{
	return n == 1 ? 0 : parameters + (n - 2) * lh_shard_elements(parameters, n, rank);
}

#endif
