/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of compressors. One source is compiled twice, for any machine and for x86-64 with
 * AVX2, F16C and FMA; the table for this machine is chosen when it is asked for. Both give the same
 * bits: sums have a fixed number of lanes, and no product is fused with a sum.
 */
#ifndef LH_TRAINER_COMPRESS_KERNELS_INTERNAL_H
#define LH_TRAINER_COMPRESS_KERNELS_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

enum {
	LH_BINS = 256,
	LH_BLOCKWISE8_DECADES = 7,
};

/* Little-endian halves at any address. */
typedef uint16_t lh_wire16 __attribute__((aligned(1), may_alias));

struct lh_moments {
	double mean;
	double sigma; /* of the sample, n - 1 */
};

/* Where uniform8's bins are. */
struct lh_uniform_bins {
	float mean;
	float bins_per_unit;
};

struct lh_kernels {
	const char *name;
	void (*fp16_encode)(const float *values, size_t n, lh_wire16 *ret_wire);
	void (*fp16_decode)(const lh_wire16 *wire, size_t n, float *ret_values);
	void (*bf16_encode)(const float *values, size_t n, lh_wire16 *ret_wire);
	void (*bf16_decode)(const lh_wire16 *wire, size_t n, float *ret_values);
	/* Mean and standard deviation. */
	void (*moments)(const float *values, size_t n, struct lh_moments *ret);
	/* Each value's bin, 0 to 255. */
	void (*uniform8_bins)(const float *values, size_t n, const struct lh_uniform_bins *bins,
			      uint8_t *ret_bins);
	/* The largest magnitude's bits: a NaN is above infinity. */
	uint32_t (*largest_bits)(const float *values, size_t n);
	/* Codes of values / largest, which is not 0. */
	void (*blockwise8_encode)(const float *values, size_t n, float largest, uint8_t *ret_codes);
	/* Up to LH_CODEC_BLOCK signs, eight a byte, the first in the lowest bit; 1: not below 0. */
	void (*signs)(const float *values, size_t n, uint8_t *ret_bits);
	/* The sums of the values that are not below 0 and of all others. */
	void (*sums_by_sign)(const float *values, size_t n, double ret_sums[static 2]);
	/* values[i] = means[bit i]. */
	void (*pick_by_sign)(const uint8_t *bits, size_t n, const float means[static 2],
			     float *ret_values);
};

extern const struct lh_kernels lh_kernels_any;
extern const struct lh_kernels lh_kernels_wide; /* for machines that lh_kernels_wide_fit */

/* The fastest table that this machine can run. */
const struct lh_kernels *lh_kernels(void);

/* Whether this machine can run lh_kernels_wide. */
int lh_kernels_wide_fit(void);

#endif
