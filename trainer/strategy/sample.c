/* SPDX-License-Identifier: Apache-2.0 */
/* The real numbers of a replayed averaging. See sample.h. */
#include "trainer/strategy/sample.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/rng.h"

enum {
	SLICE_MAX = 4096,
	SLICE_MIN = 8,
	SLICES_TOTAL = 32768,	 /* of one rank */
	SLICES_OF_ALL = 1 << 20, /* which every rank works out */
};

static const double GRADIENT_SCALE = 1.0 / 64;

uint64_t lh_sample_slice_elements(uint32_t n_chunks, uint32_t n_ranks)
{
	uint64_t total = SLICES_OF_ALL / n_ranks, most;

	if (total > SLICES_TOTAL)
		total = SLICES_TOTAL;
	most = total / n_chunks;
	if (most > SLICE_MAX)
		return SLICE_MAX;
	return most < SLICE_MIN ? SLICE_MIN : most;
}

void lh_sample_draw(uint64_t seed, uint32_t epoch, uint32_t chunk, uint32_t n_ranks,
		    uint32_t n_elements, float *ret_values)
{
	uint64_t n = (uint64_t)n_ranks * n_elements;
	struct lh_rng rng;
	char stream[48];

	snprintf(stream, sizeof(stream), "gradient/%" PRIu32 "/%" PRIu32, epoch, chunk);
	lh_rng_init(&rng, seed, stream);
	for (uint64_t i = 0; i < n; i++)
		ret_values[i] = (float)((2.0 * lh_rng_uniform(&rng) - 1.0) * GRADIENT_SCALE);
}

void lh_sample_weigh(float *values, uint64_t n_values, uint64_t samples, uint64_t total, uint32_t n)
{
	float weight = (float)((double)samples * n / (double)total);

	for (uint64_t i = 0; i < n_values; i++)
		values[i] *= weight;
}
