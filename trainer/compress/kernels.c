/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of codecs, compiled twice: see kernels_internal.h. Without LH_KERNELS_WIDE this is the
 * table for any machine; with it, and where the compiler was told of AVX2, the other one.
 */
#include "trainer/compress/kernels_internal.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#include "trainer/compress/compress.h"
#include "trainer/compress/round_internal.h"
#if defined(LH_KERNELS_WIDE) && defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define LH_KERNELS_AVX2
#endif

enum {
	LANES = 16,
	HALVES = 8, /* of a 128-bit vector */
};

/* ---- 16-bit floats -------------------------------------------------------------------------- */

static void fp16_encode(const float *values, size_t n, lh_wire16 *ret_wire)
{
	size_t i = 0;

#ifdef LH_KERNELS_AVX2
	for (; i + HALVES <= n; i += HALVES)
		_mm_storeu_si128((__m128i_u *)(ret_wire + i),
				 _mm256_cvtps_ph(_mm256_loadu_ps(values + i),
						 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
	for (; i < n; i++)
		ret_wire[i] = htole16(lh_round_to_half(values[i]));
}

static void fp16_decode(const lh_wire16 *wire, size_t n, float *ret_values)
{
	size_t i = 0;

#ifdef LH_KERNELS_AVX2
	for (; i + HALVES <= n; i += HALVES)
		_mm256_storeu_ps(ret_values + i,
				 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(wire + i))));
#endif
	for (; i < n; i++)
		ret_values[i] = lh_widen_half(le16toh(wire[i]));
}

static void bf16_encode(const float *values, size_t n, lh_wire16 *ret_wire)
{
	for (size_t i = 0; i < n; i++)
		ret_wire[i] = htole16(lh_round_to_bf16(values[i]));
}

static void bf16_decode(const lh_wire16 *wire, size_t n, float *ret_values)
{
	for (size_t i = 0; i < n; i++)
		ret_values[i] = lh_bits_float((uint32_t)le16toh(wire[i]) << 16);
}

/* ---- 8 bits of one range -------------------------------------------------------------------- */

static double sum_of_lanes(const double lanes[static LANES])
{
	double sum = 0;

	for (int l = 0; l < LANES; l++)
		sum += lanes[l];
	return sum;
}

static void moments(const float *values, size_t n, struct lh_moments *ret)
{
	double lanes[LANES] = {0}, squares[LANES] = {0};
	size_t whole = n - n % LANES;

	for (size_t i = 0; i < whole; i += LANES)
		for (int l = 0; l < LANES; l++)
			lanes[l] += (double)values[i + (size_t)l];
	for (size_t i = whole; i < n; i++)
		lanes[i - whole] += (double)values[i];
	ret->mean = n ? sum_of_lanes(lanes) / (double)n : 0;
	for (size_t i = 0; i < whole; i += LANES)
		for (int l = 0; l < LANES; l++) {
			double off = (double)values[i + (size_t)l] - ret->mean;

			squares[l] += off * off;
		}
	for (size_t i = whole; i < n; i++) {
		double off = (double)values[i] - ret->mean;

		squares[i - whole] += off * off;
	}
	ret->sigma = n > 1 ? sqrt(sum_of_lanes(squares) / (double)(n - 1)) : 0;
}

static void uniform8_bins(const float *values, size_t n, const struct lh_uniform_bins *bins,
			  uint8_t *ret_bins)
{
	const float last = LH_BINS - 1, middle = LH_BINS / 2;

	for (size_t i = 0; i < n; i++) {
		float at = (values[i] - bins->mean) * bins->bins_per_unit + middle;

		/* in this order no number becomes the first bin */
		at = at > 0 ? at : 0;
		at = at < last ? at : last;
		ret_bins[i] = (uint8_t)(int)(at + 0.5f);
	}
}

/* ---- 8 bits by block ------------------------------------------------------------------------ */

static uint32_t largest_bits(const float *values, size_t n)
{
	uint32_t lanes[LANES] = {0}, most = 0;
	size_t whole = n - n % LANES;

	for (size_t i = 0; i < whole; i += LANES)
		for (size_t l = 0; l < LANES; l++) {
			uint32_t bits = lh_float_bits(values[i + l]) & LH_MAGNITUDE;

			lanes[l] = bits > lanes[l] ? bits : lanes[l];
		}
	for (size_t i = whole; i < n; i++) {
		uint32_t bits = lh_float_bits(values[i]) & LH_MAGNITUDE;

		most = bits > most ? bits : most;
	}
	for (int l = 0; l < LANES; l++)
		most = lanes[l] > most ? lanes[l] : most;
	return most;
}

/* mask ? a : b for each bit: a choice that no compiler makes a branch of. */
static inline uint32_t pick(uint32_t mask, uint32_t a, uint32_t b)
{
	return (a & mask) | (b & ~mask);
}

static inline uint32_t mask_of(int is_so)
{
	return ~((uint32_t)is_so - 1);
}

/* A decade of the map has codes from `first` to twice it, in equal steps from a tenth of its top to
 * its top; a code stands for the middle of its step. Returns the nearest value's place by
 * magnitude, 128 for 1. */
static inline uint32_t place_of(float size)
{
	/* half way from the last code of the decade below to the first of each */
	const float begins[] = {1.9e-6f, 1.45e-5f, 1.225e-4f, 1.1125e-3f, 1.05625e-2f, 0.1028125f};
	const float steps[] = {2e5f / 0.9f,   4e4f / 0.9f,   8e3f / 0.9f,
			       1.6e3f / 0.9f, 3.2e2f / 0.9f, 64 / 0.9f};
	uint32_t per_unit = lh_float_bits(1e6f / 0.9f), first = 1, place;
	float at;

#pragma GCC unroll 6
	for (int d = 0; d < LH_BLOCKWISE8_DECADES - 1; d++) {
		uint32_t mask = mask_of(size >= begins[d]);

		per_unit = pick(mask, lh_float_bits(steps[d]), per_unit);
		first <<= mask & 1;
	}
	/* a tenth of the top is first / 9 steps */
	at = size * lh_bits_float(per_unit) + (float)(int32_t)first * (8.0f / 9);
	/* not where it is no number or beyond the map */
	at = lh_bits_float(lh_float_bits(at) & mask_of(size <= 1));
	place = (uint32_t)(int32_t)at;
	place = place > first ? place : first;
	place = place < 2 * first ? place : 2 * first - 1;
	place &= mask_of(size >= 2.75e-7f);
	return pick(mask_of(size >= 0.99648438f), 128, place);
}

static void blockwise8_encode(const float *values, size_t n, float largest, uint8_t *ret_codes)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = lh_float_bits(values[i]), sign = bits >> 24 & 0x80;
		uint32_t place = place_of(lh_bits_float(bits & LH_MAGNITUDE) / largest);

		/* -1 has no code of its own, and 0 no sign */
		place -= place == 128 && sign;
		ret_codes[i] = (uint8_t)(place | (sign & mask_of(place > 0)));
	}
}

/* ---- signs ---------------------------------------------------------------------------------- */

static void signs(const float *values, size_t n, uint8_t *ret_bits)
{
	size_t i = 0;

#ifdef LH_KERNELS_AVX2
	for (; i + 8 <= n; i += 8)
		ret_bits[i / 8] = (uint8_t)_mm256_movemask_ps(_mm256_cmp_ps(
			_mm256_loadu_ps(values + i), _mm256_setzero_ps(), _CMP_GE_OQ));
#endif
	for (; i < n; i += 8) {
		size_t m = n - i < 8 ? n - i : 8;
		unsigned bits = 0;

		for (size_t b = 0; b < m; b++)
			bits |= (unsigned)(values[i + b] >= 0) << b;
		ret_bits[i / 8] = (uint8_t)bits;
	}
}

/* The value where its sign is wanted, otherwise 0. */
static inline double where(float value, uint32_t wanted)
{
	return (double)lh_bits_float(lh_float_bits(value) & wanted);
}

static void sums_by_sign(const float *values, size_t n, double ret_sums[static 2])
{
	double above[LANES] = {0}, below[LANES] = {0};
	size_t whole = n - n % LANES;

	for (size_t i = 0; i < whole; i += LANES)
		for (size_t l = 0; l < LANES; l++) {
			uint32_t is_above = mask_of(values[i + l] >= 0);

			above[l] += where(values[i + l], is_above);
			below[l] += where(values[i + l], ~is_above);
		}
	for (size_t i = whole; i < n; i++) {
		uint32_t is_above = mask_of(values[i] >= 0);

		above[i - whole] += where(values[i], is_above);
		below[i - whole] += where(values[i], ~is_above);
	}
	ret_sums[0] = sum_of_lanes(below);
	ret_sums[1] = sum_of_lanes(above);
}

static void pick_by_sign(const uint8_t *bits, size_t n, const float means[static 2],
			 float *ret_values)
{
	size_t i = 0;

#ifdef LH_KERNELS_AVX2
	const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
	const __m256 below = _mm256_set1_ps(means[0]), above = _mm256_set1_ps(means[1]);

	for (; i + 8 <= n; i += 8) {
		__m256i mine = _mm256_and_si256(_mm256_set1_epi32(bits[i / 8]), each);
		__m256 is_set = _mm256_castsi256_ps(_mm256_cmpeq_epi32(mine, each));

		_mm256_storeu_ps(ret_values + i, _mm256_blendv_ps(below, above, is_set));
	}
#endif
	for (; i < n; i += 8) {
		size_t m = n - i < 8 ? n - i : 8;

		for (size_t b = 0; b < m; b++)
			ret_values[i + b] = bits[i / 8] >> b & 1 ? means[1] : means[0];
	}
}

#ifdef LH_KERNELS_WIDE
const struct lh_kernels lh_kernels_wide = {
	.name = "wide",
#else
const struct lh_kernels lh_kernels_any = {
	.name = "any",
#endif
	.fp16_encode = fp16_encode,
	.fp16_decode = fp16_decode,
	.bf16_encode = bf16_encode,
	.bf16_decode = bf16_decode,
	.moments = moments,
	.uniform8_bins = uniform8_bins,
	.largest_bits = largest_bits,
	.blockwise8_encode = blockwise8_encode,
	.signs = signs,
	.sums_by_sign = sums_by_sign,
	.pick_by_sign = pick_by_sign,
};
