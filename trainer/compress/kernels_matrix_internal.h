/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of low rank, compiled twice like those of codecs: see kernels_internal.h. */
#ifndef LH_TRAINER_COMPRESS_KERNELS_MATRIX_INTERNAL_H
#define LH_TRAINER_COMPRESS_KERNELS_MATRIX_INTERNAL_H

#include <stddef.h>

struct lh_matrix_kernels {
	float (*dot)(const float *a, const float *b, size_t n);
	/* The same, summed in double precision. */
	double (*dot_double)(const float *a, const float *b, size_t n);
	/* y += a x. */
	void (*add_scaled)(float a, const float *x, size_t n, float *y);
	void (*scale)(double a, float *x, size_t n);
	/* y -= x. */
	void (*subtract)(const float *x, size_t n, float *y);
};

extern const struct lh_matrix_kernels lh_matrix_kernels_any;
extern const struct lh_matrix_kernels lh_matrix_kernels_wide; /* see lh_kernels_wide_fit */

/* The fastest table that this machine can run. */
const struct lh_matrix_kernels *lh_matrix_kernels(void);

#endif
