/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of sparsifiers, compiled twice. See kernels_sparse_internal.h. */
#include "trainer/compress/kernels_sparse_internal.h"

#include "trainer/compress/round_internal.h"
#if defined(LH_KERNELS_WIDE) && defined(__AVX2__)
#include <immintrin.h>
#define LH_KERNELS_AVX2
#endif

enum {
	LANES = 16,
	STRIP = 32,	    /* values that are looked at together */
	COUNT_STRIP = 4096, /* values whose counts stay in 32 bits */
};

_Static_assert((int)STRIP <= (int)LH_COLLECT_SLACK, "a strip fits beyond the capacity");

static uint32_t key_of(float value)
{
	return lh_float_bits(value) & LH_MAGNITUDE;
}

static void keys(const float *values, size_t n, uint32_t *ret_keys)
{
	for (size_t i = 0; i < n; i++)
		ret_keys[i] = key_of(values[i]);
}

/* Of 32 values those whose key is at least threshold, the first in the lowest bit. */
static uint32_t mask_strip(const float *values, uint32_t threshold)
{
#ifdef LH_KERNELS_AVX2
	const __m256i below = _mm256_set1_epi32((int32_t)(threshold - 1));
	const __m256i magnitude = _mm256_set1_epi32(LH_MAGNITUDE);
	__m256i hits[4], any;
	uint32_t mask = 0;

	for (int v = 0; v < 4; v++) {
		__m256i bits = _mm256_loadu_si256((const __m256i_u *)(values + 8 * v));

		hits[v] = _mm256_cmpgt_epi32(_mm256_and_si256(bits, magnitude), below);
	}
	any = _mm256_or_si256(_mm256_or_si256(hits[0], hits[1]), _mm256_or_si256(hits[2], hits[3]));
	if (_mm256_testz_si256(any, any))
		return 0;
	for (int v = 0; v < 4; v++)
		mask |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(hits[v])) << 8 * v;
	return mask;
#else
	uint32_t mask = 0;

	for (int i = 0; i < STRIP; i++)
		mask |= (uint32_t)(key_of(values[i]) >= threshold) << i;
	return mask;
#endif
}

/* The same of the last values, fewer than 32. */
static uint32_t mask_rest(const float *values, size_t n, uint32_t threshold)
{
	uint32_t mask = 0;

	for (size_t i = 0; i < n; i++)
		mask |= (uint32_t)(key_of(values[i]) >= threshold) << i;
	return mask;
}

static size_t collect(const float *values, size_t n, uint32_t threshold, size_t capacity,
		      uint32_t *ret_indices)
{
	size_t found = 0;

	for (size_t i = 0; i < n && found <= capacity; i += STRIP) {
		uint32_t mask = n - i < STRIP ? mask_rest(values + i, n - i, threshold)
					      : mask_strip(values + i, threshold);

		for (; mask; mask &= mask - 1)
			ret_indices[found++] = (uint32_t)i + (uint32_t)__builtin_ctz(mask);
	}
	return found;
}

static void count_strip(const float *values, size_t n, const uint32_t thresholds[LH_THRESHOLDS],
			uint64_t counts[LH_THRESHOLDS])
{
	for (int t = 0; t < LH_THRESHOLDS; t++) {
		uint32_t sum = 0, threshold = thresholds[t];

		for (size_t i = 0; i < n; i++)
			sum += key_of(values[i]) >= threshold;
		counts[t] += sum;
	}
}

static void count(const float *values, size_t n, const uint32_t thresholds[LH_THRESHOLDS],
		  uint64_t ret_counts[LH_THRESHOLDS])
{
	for (int t = 0; t < LH_THRESHOLDS; t++)
		ret_counts[t] = 0;
	/* a strip stays in the first cache while it is counted against all */
	for (size_t i = 0; i < n; i += COUNT_STRIP)
		count_strip(values + i, n - i < COUNT_STRIP ? n - i : COUNT_STRIP, thresholds,
			    ret_counts);
}

static size_t emit(const float *values, size_t n, const struct lh_band *band, size_t k,
		   uint32_t *ret_indices)
{
	const uint64_t end = (uint64_t)band->skip + band->need;
	uint64_t in_band = 0;
	size_t found = 0;

	for (size_t i = 0; i < n && found < k; i += STRIP) {
		uint32_t mask = n - i < STRIP ? mask_rest(values + i, n - i, band->low)
					      : mask_strip(values + i, band->low);

		for (; mask && found < k; mask &= mask - 1) {
			size_t at = i + (size_t)__builtin_ctz(mask);

			if (key_of(values[at]) < band->high) {
				in_band++;
				if (in_band <= band->skip || in_band > end)
					continue;
			}
			ret_indices[found++] = (uint32_t)at;
		}
	}
	return found;
}

static void add(const float *values, size_t n, float *sum)
{
	for (size_t i = 0; i < n; i++)
		sum[i] += values[i];
}

static void momentum(const float *gradient, size_t n, const struct lh_momentum *m, float *velocity,
		     float *sum)
{
	const float factor = m->factor, scale = m->scale;

	if (m->is_nesterov)
		for (size_t i = 0; i < n; i++) {
			float g = scale * gradient[i], v = factor * (velocity[i] + g);

			velocity[i] = v;
			sum[i] += v + g;
		}
	else
		for (size_t i = 0; i < n; i++) {
			float v = factor * velocity[i] + scale * gradient[i];

			velocity[i] = v;
			sum[i] += v;
		}
}

static double sum_of_squares(const float *values, size_t n)
{
	double lanes[LANES] = {0}, sum = 0;
	size_t whole = n - n % LANES;

	for (size_t i = 0; i < whole; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			lanes[l] += (double)values[i + l] * (double)values[i + l];
	for (size_t i = whole; i < n; i++)
		lanes[i - whole] += (double)values[i] * (double)values[i];
	for (int l = 0; l < LANES; l++)
		sum += lanes[l];
	return sum;
}

#ifdef LH_KERNELS_WIDE
const struct lh_sparse_kernels lh_sparse_kernels_wide = {
#else
const struct lh_sparse_kernels lh_sparse_kernels_any = {
#endif
	.keys = keys,
	.collect = collect,
	.count = count,
	.emit = emit,
	.add = add,
	.momentum = momentum,
	.sum_of_squares = sum_of_squares,
};
