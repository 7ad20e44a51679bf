/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choice `random-k`: any k of n, each set as likely. The same stream of random numbers chooses the
 * same indices, so that ranks can share them.
 *
 * Source: Floyd's sampling, in Bentley, Floyd, "A sample of brilliance" (CACM 30(9), 1987).
 */
#include <string.h>

#include "trainer/compress/select_internal.h"
#include "trainer/compress/sparse.h"

enum { WORD_BITS = 64 };

static size_t n_words(uint32_t n)
{
	return n / WORD_BITS + 1;
}

static size_t random_k_scratch_bytes(uint32_t n, uint32_t k)
{
	(void)k;
	return n_words(n) * sizeof(uint64_t);
}

static int is_set(const uint64_t *chosen, uint64_t i)
{
	return (int)(chosen[i / WORD_BITS] >> i % WORD_BITS & 1);
}

static void random_k_select(const float *values, uint32_t n, const struct lh_sparse_choice *choice,
			    struct lh_sparse *ret)
{
	uint64_t *chosen = choice->scratch;

	memset(chosen, 0, n_words(n) * sizeof(*chosen));
	for (uint64_t last = n - choice->k; last < n; last++) {
		uint64_t i = lh_rng_below(choice->rng, last + 1);

		if (is_set(chosen, i))
			i = last;
		chosen[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
	}
	ret->count = 0;
	for (size_t w = 0; w < n_words(n); w++)
		for (uint64_t word = chosen[w]; word; word &= word - 1)
			ret->indices[ret->count++] =
				(uint32_t)(w * WORD_BITS) + (uint32_t)__builtin_ctzll(word);
	lh_select_fetch(values, ret);
}

const struct lh_sparse_ops lh_sparse_random_k = {
	.name = "random-k",
	.doc = "any, each as likely; all ranks may choose the same",
	.scratch_bytes = random_k_scratch_bytes,
	.select = random_k_select,
};
