/* SPDX-License-Identifier: Apache-2.0 */
/* The real numbers of a replayed averaging. See sample.h. */
#include "trainer/strategy/sample.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/rng.h"
#include "trainer/strategy/shard.h"

enum {
	SLICE_MAX = 4096,
	SLICE_MIN = 64,
	SLICES_TOTAL = 32768,
};

static const double GRADIENT_SCALE = 1.0 / 64;

/* At most `most` elements of every shard. */
static void lay_out(struct lh_sample_layout *layout, uint64_t parameters, uint32_t n, uint64_t most)
{
	*layout = (struct lh_sample_layout){.n = n};
	for (uint32_t shard = 0; shard < n; shard++) {
		uint64_t elements = lh_shard_elements(parameters, n, shard);

		layout->at[shard] = layout->total;
		layout->elements[shard] = (uint32_t)(elements < most ? elements : most);
		layout->total += layout->elements[shard];
		if (layout->elements[shard] > layout->longest)
			layout->longest = layout->elements[shard];
	}
}

void lh_sample_layout_init(struct lh_sample_layout *layout, uint64_t parameters, uint32_t n)
{
	uint32_t most = SLICES_TOTAL / n;

	if (most > SLICE_MAX)
		most = SLICE_MAX;
	if (most < SLICE_MIN)
		most = SLICE_MIN;
	lay_out(layout, parameters, n, most);
}

void lh_sample_layout_init_whole(struct lh_sample_layout *layout, uint64_t parameters, uint32_t n)
{
	assert(parameters <= UINT32_MAX);
	lay_out(layout, parameters, n, UINT32_MAX);
}

void lh_sample_draw(const struct lh_sample_layout *layout, uint64_t seed, uint32_t rank,
		    uint32_t epoch, float *ret_values)
{
	struct lh_rng rng;
	char stream[48];

	snprintf(stream, sizeof(stream), "gradient/%" PRIu32 "/%" PRIu32, rank, epoch);
	lh_rng_init(&rng, seed, stream);
	for (uint32_t i = 0; i < layout->total; i++)
		ret_values[i] = (float)((2.0 * lh_rng_uniform(&rng) - 1.0) * GRADIENT_SCALE);
}

void lh_sample_add(float *sum, const float *values, uint32_t n, uint64_t weight)
{
	float w = (float)weight;

	for (uint32_t i = 0; i < n; i++)
		sum[i] += w * values[i];
}

void lh_sample_divide(float *sum, uint32_t n, uint64_t weight)
{
	float w = (float)weight;

	for (uint32_t i = 0; i < n; i++)
		sum[i] /= w;
}

int lh_sample_check(const struct lh_sample_layout *layout, const struct lh_codec_ops *compress,
		    uint32_t epoch, uint32_t shard, const uint8_t *got, const uint8_t *expected,
		    struct lh_error *err)
{
	uint32_t bytes = compress->bytes_per_element;

	for (uint32_t i = 0; i < layout->elements[shard]; i++) {
		size_t at = (size_t)i * bytes;
		float is, must;

		if (memcmp(got + at, expected + at, bytes) == 0)
			continue;
		compress->decode(got + at, 1, &is);
		compress->decode(expected + at, 1, &must);
		return lh_fail(err, LH_ERUN, 0,
			       "epoch %" PRIu32 ", shard %" PRIu32 ", element %" PRIu32
			       ": averaged to %.9g; expected %.9g",
			       epoch, shard, i, (double)is, (double)must);
	}
	return 0;
}
