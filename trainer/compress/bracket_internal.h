/* SPDX-License-Identifier: Apache-2.0 */
/* Thresholds on both sides of the k-th largest key, and how counts draw them together: what MSTopK
 * on the CPU and on the GPU share. Keys are magnitudes' bits (kernels_sparse_internal.h). */
#ifndef LH_TRAINER_COMPRESS_BRACKET_INTERNAL_H
#define LH_TRAINER_COMPRESS_BRACKET_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

enum {
	LH_THRESHOLDS = 8,	 /* that a pass counts against */
	LH_KEY_NORMAL = 1 << 23, /* the first of a normal number */
	LH_KEY_NEAR = 1 << 13,	 /* normal numbers whose keys are this near are within 0.1 % */
};

#define LH_KEY_END UINT32_C(0x80000000) /* above all keys */

struct lh_bracket {
	uint32_t low, high; /* keys */
	uint64_t n_low;	    /* keys from low on, at least k */
	uint64_t n_high;    /* keys from high on, at most k */
};

/* Nothing is left to find out, or all between the thresholds are within 0.1 % of each other; below
 * normal numbers keys are proportional to magnitudes. */
static inline bool lh_bracket_is_tight(const struct lh_bracket *b, uint32_t k)
{
	uint32_t near = LH_KEY_NEAR;

	if (b->low < LH_KEY_NORMAL)
		near = b->low / 1000 + 1;

	return b->n_high == k || b->n_low == k || b->high - b->low <= near;
}

/* Thresholds that cut a bracket in equal parts. */
static inline void lh_bracket_cut(const struct lh_bracket *b,
				  uint32_t ret_thresholds[LH_THRESHOLDS])
{
	for (uint32_t t = 0; t < LH_THRESHOLDS; t++)
		ret_thresholds[t] = b->low + (uint32_t)((uint64_t)(b->high - b->low) * (t + 1) /
							(LH_THRESHOLDS + 1));
}

/* With the number of keys from each threshold on; thresholds ascend. */
static inline void lh_bracket_narrow(struct lh_bracket *b, uint32_t k,
				     const uint32_t thresholds[LH_THRESHOLDS],
				     const uint64_t counts[LH_THRESHOLDS])
{
	for (int t = 0; t < LH_THRESHOLDS; t++) {
		if (counts[t] <= k && thresholds[t] < b->high) {
			b->high = thresholds[t];
			b->n_high = counts[t];
		} else if (counts[t] > k && thresholds[t] > b->low) {
			b->low = thresholds[t];
			b->n_low = counts[t];
		}
	}
}

#endif
