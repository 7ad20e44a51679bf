/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codec `onebit`: for each chunk of 4,096 elements (the last may be shorter) the mean of those
 * below zero and the mean of the others as floats, then a bit for every element, the first in the
 * lowest bit: 1 where it is not below zero. Decoded is the mean of its kind; a NaN counts as below
 * zero. Wrong without feedback.
 *
 * Source: Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel
 * Distributed Training of Speech DNNs" (Interspeech 2014), with chunks in place of columns.
 */
#include "trainer/compress/compress.h"
#include "trainer/compress/kernels_internal.h"
#include "trainer/compress/wire_internal.h"

enum { MEAN_BYTES = 4, HEADER_BYTES = 2 * MEAN_BYTES };

static uint64_t bit_bytes(uint64_t n)
{
	return n / 8 + (n % 8 != 0);
}

static uint64_t onebit_wire_bytes(uint64_t n)
{
	return bit_bytes(n) + HEADER_BYTES * (n / LH_CODEC_BLOCK + (n % LH_CODEC_BLOCK != 0));
}

static float mean_of(double sum, size_t count)
{
	return count ? (float)(sum / (double)count) : 0;
}

static size_t count_ones(const unsigned char *bits, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < bit_bytes(n); i++)
		count += (size_t)__builtin_popcount(bits[i]);
	return count;
}

static void onebit_encode(const float *values, size_t n, void *wire)
{
	const struct lh_kernels *k = lh_kernels();
	unsigned char *out = wire;

	for (size_t i = 0; i < n; i += LH_CODEC_BLOCK) {
		size_t m = n - i < LH_CODEC_BLOCK ? n - i : LH_CODEC_BLOCK, above;
		double sums[2];

		k->signs(values + i, m, out + HEADER_BYTES);
		k->sums_by_sign(values + i, m, sums);
		above = count_ones(out + HEADER_BYTES, m);
		lh_wire_put_float(out, mean_of(sums[0], m - above));
		lh_wire_put_float(out + MEAN_BYTES, mean_of(sums[1], above));
		out += HEADER_BYTES + bit_bytes(m);
	}
}

static void onebit_decode(const void *wire, size_t n, float *ret_values)
{
	const struct lh_kernels *k = lh_kernels();
	const unsigned char *in = wire;

	for (size_t i = 0; i < n; i += LH_CODEC_BLOCK) {
		size_t m = n - i < LH_CODEC_BLOCK ? n - i : LH_CODEC_BLOCK;
		const float means[2] = {lh_wire_get_float(in), lh_wire_get_float(in + MEAN_BYTES)};

		k->pick_by_sign(in + HEADER_BYTES, m, means, ret_values + i);
		in += HEADER_BYTES + bit_bytes(m);
	}
}

const struct lh_codec_ops lh_codec_onebit = {
	.name = "onebit",
	.doc = "signs and two means per 4,096 parameters, with feedback",
	.wire_bytes = onebit_wire_bytes,
	.encode = onebit_encode,
	.decode = onebit_decode,
	.needs_feedback = true,
	.error_ratio = 1,
};
