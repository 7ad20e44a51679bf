/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choice `mstopk`: thresholds and counts in place of order. See sparse.h.
 *
 * A threshold guessed from a sample, low enough that k are above it but for bad luck, is the only
 * one that all values are compared with: those above it are looked at again and again, being few.
 * Where the guess was wrong, thresholds are tried on all values.
 */
#include <math.h>

#include "trainer/compress/bracket_internal.h"
#include "trainer/compress/kernels_sparse_internal.h"
#include "trainer/compress/round_internal.h"
#include "trainer/compress/select_internal.h"
#include "trainer/compress/sparse.h"

enum {
	RUN = 16, /* neighbours that are sampled together: a line of the cache */
	RUNS_MAX = 2048,
	VALUES_PER_RUN = 1024, /* of which one run is sampled */
	SAMPLED_FROM = 8192,   /* values */
};

static size_t mstopk_scratch_bytes(uint32_t n, uint32_t k)
{
	return RUNS_MAX * RUN * sizeof(uint32_t) +
	       lh_candidates_bytes(lh_candidates_capacity(n, k));
}

/* A key that at least k are not below, four standard deviations of luck allowed for. */
static uint32_t guess(const float *values, uint32_t n, const struct lh_sparse_choice *choice,
		      uint32_t *keys)
{
	size_t n_runs = n / VALUES_PER_RUN < RUNS_MAX ? n / VALUES_PER_RUN : RUNS_MAX;
	size_t stratum = n / n_runs, n_samples = n_runs * RUN;
	double hits = (double)choice->k / n * (double)n_samples;
	double rank = ceil(hits + 4 * sqrt(hits) + 4);

	if (rank >= (double)n_samples)
		return 0;
	for (size_t run = 0; run < n_runs; run++) {
		size_t at = run * stratum + lh_rng_below(choice->rng, stratum - RUN + 1);

		lh_sparse_kernels()->keys(values + at, RUN, keys + run * RUN);
	}
	return lh_select_key(keys, n_samples, (size_t)rank);
}

/* Counts against thresholds, ascending, and draws the bracket together. */
static void narrow(const float *values, size_t n, uint32_t k,
		   const uint32_t thresholds[LH_THRESHOLDS], struct lh_bracket *b)
{
	uint64_t counts[LH_THRESHOLDS];

	lh_sparse_kernels()->count(values, n, thresholds, counts);
	lh_bracket_narrow(b, k, thresholds, counts);
}

static void narrow_evenly(const float *values, size_t n, uint32_t k, struct lh_bracket *b)
{
	uint32_t thresholds[LH_THRESHOLDS];

	lh_bracket_cut(b, thresholds);
	narrow(values, n, k, thresholds, b);
}

/* All from high on, and a run of those between. */
static void take(const float *values, size_t n, const struct lh_bracket *b,
		 const struct lh_sparse_choice *choice, struct lh_sparse *ret)
{
	struct lh_band band = {
		.low = b->low, .high = b->high, .need = choice->k - (uint32_t)b->n_high};

	band.skip = (uint32_t)lh_rng_below(choice->rng, b->n_low - b->n_high - band.need + 1);
	ret->count = (uint32_t)lh_sparse_kernels()->emit(values, n, &band, choice->k, ret->indices);
}

static void take_candidates(const struct lh_candidates *c, struct lh_bracket *b,
			    const struct lh_sparse_choice *choice, struct lh_sparse *ret)
{
	while (!lh_bracket_is_tight(b, choice->k))
		narrow_evenly(c->values, c->n, choice->k, b);
	take(c->values, c->n, b, choice, ret);
	for (size_t i = 0; i < ret->count; i++)
		ret->indices[i] = c->indices[ret->indices[i]];
}

/* The guess said too few or too many. Its own count is taken again, for the sake of one code. */
static void search(const float *values, uint32_t n, uint32_t guessed, struct lh_candidates *c,
		   const struct lh_sparse_choice *choice, struct lh_sparse *ret)
{
	size_t capacity = lh_candidates_capacity(n, choice->k);
	struct lh_bracket b = {.low = 0, .high = LH_KEY_END, .n_low = n, .n_high = 0};
	uint32_t thresholds[LH_THRESHOLDS];

	for (uint32_t t = 0; t < LH_THRESHOLDS; t++)
		thresholds[t] = guessed + (LH_KEY_END - guessed) / LH_THRESHOLDS * t;
	narrow(values, n, choice->k, thresholds, &b);
	while (b.n_low > capacity && !lh_bracket_is_tight(&b, choice->k))
		narrow_evenly(values, n, choice->k, &b);
	if (b.n_low <= capacity) {
		lh_candidates_collect(c, values, n, b.low, capacity);
		take_candidates(c, &b, choice, ret);
	} else {
		take(values, n, &b, choice, ret);
	}
}

static void mstopk_select(const float *values, uint32_t n, const struct lh_sparse_choice *choice,
			  struct lh_sparse *ret)
{
	size_t capacity = lh_candidates_capacity(n, choice->k);
	uint32_t *keys = choice->scratch, guessed = 0;
	struct lh_candidates candidates;

	ret->count = 0;
	if (!choice->k)
		return;
	lh_candidates_init(&candidates, capacity, keys + (size_t)RUNS_MAX * RUN);
	if (n >= SAMPLED_FROM)
		guessed = guess(values, n, choice, keys);
	if (lh_candidates_collect(&candidates, values, n, guessed, capacity) &&
	    candidates.n >= choice->k) {
		struct lh_bracket b = {.low = guessed, .high = LH_KEY_END, .n_low = candidates.n};

		take_candidates(&candidates, &b, choice, ret);
	} else {
		search(values, n, guessed, &candidates, choice, ret);
	}
	lh_select_fetch(values, ret);
}

const struct lh_sparse_ops lh_sparse_mstopk = {
	.name = "mstopk",
	.doc = "nearly the largest magnitudes, by counting against thresholds",
	.scratch_bytes = mstopk_scratch_bytes,
	.select = mstopk_select,
};
