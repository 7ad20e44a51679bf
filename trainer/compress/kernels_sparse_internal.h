/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of sparsifiers, compiled twice like those of codecs: see kernels_internal.h. A key is a
 * float's bits without the sign, which order as magnitudes do.
 */
#ifndef LH_TRAINER_COMPRESS_KERNELS_SPARSE_INTERNAL_H
#define LH_TRAINER_COMPRESS_KERNELS_SPARSE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/compress/bracket_internal.h"

enum { LH_COLLECT_SLACK = 32 };

/* Keys from high on are taken, of those from low up to it (the band) `need` after the first
 * `skip`. */
struct lh_band {
	uint32_t low, high;
	uint32_t skip, need;
};

struct lh_momentum {
	float factor; /* of what was there */
	float scale;  /* of the gradient */
	int is_nesterov;
};

struct lh_sparse_kernels {
	void (*keys)(const float *values, size_t n, uint32_t *ret_keys);
	/*
	 * Indices of all keys from threshold on, ascending. Ends early once there are more than
	 * capacity; ret_indices has room for LH_COLLECT_SLACK more. Returns their number.
	 */
	size_t (*collect)(const float *values, size_t n, uint32_t threshold, size_t capacity,
			  uint32_t *ret_indices);
	/* For each threshold the number of keys from it on. */
	void (*count)(const float *values, size_t n, const uint32_t thresholds[LH_THRESHOLDS],
		      uint64_t ret_counts[LH_THRESHOLDS]);
	/* Indices of what the band says, ascending, until there are k. Returns their number. */
	size_t (*emit)(const float *values, size_t n, const struct lh_band *band, size_t k,
		       uint32_t *ret_indices);
	void (*add)(const float *values, size_t n, float *sum);
	/* velocity = factor x velocity + scale x gradient; sum += velocity; Nesterov's also adds
	 * the gradient to both. */
	void (*momentum)(const float *gradient, size_t n, const struct lh_momentum *m,
			 float *velocity, float *sum);
	double (*sum_of_squares)(const float *values, size_t n);
};

extern const struct lh_sparse_kernels lh_sparse_kernels_any;
extern const struct lh_sparse_kernels lh_sparse_kernels_wide; /* see lh_kernels_wide_fit */

/* The fastest table that this machine can run. */
const struct lh_sparse_kernels *lh_sparse_kernels(void);

#endif
