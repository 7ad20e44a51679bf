/* SPDX-License-Identifier: Apache-2.0 */
/* Who computes how many whole micro-batches of a target, where that is fixed beforehand. Pure. */
#ifndef LH_CORE_SHARES_H
#define LH_CORE_SHARES_H

#include <stddef.h>
#include <stdint.h>

/* One who takes part. */
struct lh_share {
	double weight;		/* at least 0; compared with the others' */
	uint32_t micro_batch;	/* samples, at least 1 */
	uint64_t micro_batches; /* outcome */
};

/*
 * Shares target samples out among n by their weights, of which one at least is above 0: each
 * micro_batches are as near as whole ones come, together at least the target and less than one
 * micro-batch more. The first of equals gets more.
 */
void lh_shares_compute(struct lh_share *shares, size_t n, uint64_t target);

#endif
