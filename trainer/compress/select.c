/* SPDX-License-Identifier: Apache-2.0 */
/* Selection by partition. See select_internal.h. */
#include "trainer/compress/select_internal.h"

#include <assert.h>

#include "trainer/compress/kernels_sparse_internal.h"

enum {
	SMALL = 16,
	CANDIDATES_PER_K = 4,
	CANDIDATES_LEAST = 1024,
	KEY_BITS = 31,
	PATIENCE = 24, /* partitions that leave more than three quarters */
};

/* ---- the k-th largest key ------------------------------------------------------------------- */

static void swap(uint32_t *a, uint32_t *b)
{
	uint32_t t = *a;

	*a = *b;
	*b = t;
}

/* From the largest to the least. */
static void sort_few(uint32_t *keys, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t j = i; j > 0 && keys[j - 1] < keys[j]; j--)
			swap(&keys[j - 1], &keys[j]);
}

/* Bit by bit, a pass each: slower than partitions, but not where they go wrong. Larger keys are
 * then moved to the front, as partitions would. */
static uint32_t select_by_bits(uint32_t *keys, size_t n, size_t k)
{
	size_t n_larger = 0;
	uint32_t key = 0;

	for (int bit = KEY_BITS - 1; bit >= 0; bit--) {
		uint32_t higher = key | UINT32_C(1) << bit;
		size_t count = 0;

		for (size_t i = 0; i < n; i++)
			count += keys[i] >= higher;
		if (count >= k)
			key = higher;
	}
	for (size_t i = 0; i < n; i++)
		if (keys[i] > key)
			swap(&keys[n_larger++], &keys[i]);
	return key;
}

/* The middle one of three, put at the beginning. */
static uint32_t take_pivot(uint32_t *keys, size_t n)
{
	uint32_t *a = keys, *b = keys + n / 2, *c = keys + n - 1;
	uint32_t *middle =
		*a < *b ? (*b < *c ? b : (*a < *c ? c : a)) : (*a < *c ? a : (*b < *c ? c : b));

	swap(keys, middle);
	return keys[0];
}

/* Puts keys above the pivot before those below it, those equal to it anywhere; returns how many are
 * before. Both sides stop at equal keys, so that many of them are halved, too. */
static size_t partition(uint32_t *keys, size_t n)
{
	uint32_t pivot = take_pivot(keys, n);
	size_t i = 0, j = n;

	for (;;) {
		do
			i++;
		while (i < n && keys[i] > pivot);
		do
			j--;
		while (keys[j] < pivot);
		if (i >= j)
			break;
		swap(&keys[i], &keys[j]);
	}
	swap(&keys[0], &keys[j]);
	return j;
}

uint32_t lh_select_key(uint32_t *keys, size_t n, size_t k)
{
	int patience = PATIENCE;

	assert(k >= 1 && k <= n);
	while (n > SMALL) {
		size_t before = partition(keys, n), was = n;

		if (k == before + 1)
			return keys[before];
		if (k <= before) {
			n = before;
		} else {
			keys += before + 1;
			k -= before + 1;
			n -= before + 1;
		}
		patience -= n > was - was / 4;
		if (!patience)
			return select_by_bits(keys, n, k);
	}
	sort_few(keys, n);
	return keys[k - 1];
}

/* ---- choices -------------------------------------------------------------------------------- */

void lh_select_fetch(const float *values, struct lh_sparse *ret)
{
	for (size_t i = 0; i < ret->count; i++)
		ret->values[i] = values[ret->indices[i]];
}

void lh_select_exactly(const float *values, size_t n, uint32_t k, uint32_t *keys,
		       struct lh_sparse *ret)
{
	const struct lh_sparse_kernels *kernels = lh_sparse_kernels();
	struct lh_band band = {0};

	ret->count = k;
	if (!k)
		return;
	kernels->keys(values, n, keys);
	band.low = lh_select_key(keys, n, k);
	band.high = band.low + 1;
	/* all larger ones are at the front now */
	band.need = k;
	for (size_t i = 0; i < k; i++)
		band.need -= keys[i] > band.low;
	kernels->emit(values, n, &band, k, ret->indices);
	lh_select_fetch(values, ret);
}

size_t lh_candidates_capacity(uint32_t n, uint32_t k)
{
	size_t most = (size_t)CANDIDATES_PER_K * k + CANDIDATES_LEAST;

	return most < n ? most : n;
}

size_t lh_candidates_bytes(size_t capacity)
{
	return (capacity + LH_COLLECT_SLACK) * sizeof(uint32_t) + capacity * sizeof(float);
}

void lh_candidates_init(struct lh_candidates *c, size_t capacity, void *memory)
{
	c->n = 0;
	c->indices = memory;
	c->values = (float *)(void *)(c->indices + capacity + LH_COLLECT_SLACK);
}

int lh_candidates_collect(struct lh_candidates *c, const float *values, uint32_t n,
			  uint32_t threshold, size_t capacity)
{
	c->n = lh_sparse_kernels()->collect(values, n, threshold, capacity, c->indices);
	if (c->n > capacity)
		return 0;
	for (size_t i = 0; i < c->n; i++)
		c->values[i] = values[c->indices[i]];
	return 1;
}

void lh_select_candidates(const struct lh_candidates *c, uint32_t k, uint32_t *keys,
			  struct lh_sparse *ret)
{
	lh_select_exactly(c->values, c->n, k, keys, ret);
	for (size_t i = 0; i < k; i++)
		ret->indices[i] = c->indices[ret->indices[i]];
}
