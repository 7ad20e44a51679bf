/* SPDX-License-Identifier: Apache-2.0 */
/* Choice `dgc`: the exact one among those above a sample's threshold. See sparse.h. */

#include "trainer/compress/kernels_sparse_internal.h"
#include "trainer/compress/round_internal.h"
#include "trainer/compress/select_internal.h"
#include "trainer/compress/sparse.h"

enum {
	SAMPLE_STRIDE = 100,
	CORRECTIONS = 10,
};

static const float LOWERED = 0.8f;

static size_t dgc_scratch_bytes(uint32_t n, uint32_t k)
{
	return lh_candidates_bytes(lh_candidates_capacity(n, k)) + n * sizeof(uint32_t);
}

static uint32_t key_of_sample(const float *values, uint32_t n, uint32_t k, uint32_t *keys)
{
	size_t n_samples = 0, k_samples;

	for (size_t i = 0; i < n; i += SAMPLE_STRIDE)
		keys[n_samples++] = lh_float_bits(values[i]) & LH_MAGNITUDE;
	k_samples = (size_t)((double)k / n * (double)n_samples);
	return lh_select_key(keys, n_samples, k_samples ? k_samples : 1);
}

static void dgc_select(const float *values, uint32_t n, const struct lh_sparse_choice *choice,
		       struct lh_sparse *ret)
{
	size_t capacity = lh_candidates_capacity(n, choice->k);
	uint32_t *keys = choice->scratch, threshold;
	struct lh_candidates candidates;
	int corrections = 0;

	ret->count = 0;
	if (!choice->k)
		return;
	lh_candidates_init(&candidates, capacity, keys + n);
	threshold = key_of_sample(values, n, choice->k, keys);
	while (lh_candidates_collect(&candidates, values, n, threshold, capacity)) {
		if (candidates.n >= choice->k) {
			lh_select_candidates(&candidates, choice->k, keys, ret);
			return;
		}
		if (corrections++ == CORRECTIONS)
			break;
		threshold = lh_float_bits(LOWERED * lh_bits_float(threshold)) & LH_MAGNITUDE;
	}
	lh_select_exactly(values, n, choice->k, keys, ret);
}

const struct lh_sparse_ops lh_sparse_dgc = {
	.name = "dgc",
	.doc = "the largest magnitudes, exactly, through the threshold of a sample of 1 %",
	.scratch_bytes = dgc_scratch_bytes,
	.select = dgc_select,
};
