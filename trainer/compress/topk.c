/* SPDX-License-Identifier: Apache-2.0 */
/* Choice `topk`: the exact one, by partition of all magnitudes. */
#include "trainer/compress/select_internal.h"
#include "trainer/compress/sparse.h"

static size_t topk_scratch_bytes(uint32_t n, uint32_t k)
{
	(void)k;
	return n * sizeof(uint32_t);
}

static void topk_select(const float *values, uint32_t n, const struct lh_sparse_choice *choice,
			struct lh_sparse *ret)
{
	lh_select_exactly(values, n, choice->k, choice->scratch, ret);
}

const struct lh_sparse_ops lh_sparse_topk = {
	.name = "topk",
	.doc = "the largest magnitudes, exactly",
	.scratch_bytes = topk_scratch_bytes,
	.select = topk_select,
};
