/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments: parts of a model's weights that are synchronised one after the other within a period.
 * Of n fragments, the i-th has the layers i, i + n, i + 2 n ..., so that each has some of the
 * model's begin and of its end; but all are as long, so that what travels at a time is, and where
 * one has more than its part the next begins with the rest. Pure.
 *
 * Source: Douillard et al., "Streaming DiLoCo with overlapping communication", arXiv 2501.18512,
 * section 2.2, with fragments of whole layers.
 */
#ifndef LH_TRAINER_FRAGMENTS_H
#define LH_TRAINER_FRAGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* A run of the flat vector. */
struct lh_run {
	uint64_t at;
	uint64_t n;
};

/* A run that belongs to a layer. */
struct lh_layer_run {
	struct lh_run run;
	uint32_t layer; /* counted from the model's input on */
};

struct lh_fragment {
	uint64_t n; /* elements */
	uint32_t n_runs;
	struct lh_run *runs; /* owned */
};

struct lh_fragments {
	uint32_t n;
	struct lh_fragment *fragments; /* owned */
};

/* Cuts n_values into n nearly equal parts; layers (n_runs of them, 0: none is known, and the values
 * are cut as they lie) has each value once. LH_EINPUT where there are fewer values; LH_ESYS. Given
 * to lh_fragments_done. */
int lh_fragments_cut(uint64_t n_values, uint32_t n, const struct lh_layer_run *layers,
		     size_t n_runs, struct lh_fragments *ret_fragments, struct lh_error *err);

void lh_fragments_done(struct lh_fragments *fragments);

/* Copies a fragment's values from the flat vector, one run after another, and back. */
void lh_fragment_gather(const struct lh_fragment *fragment, const float *flat, float *ret_values);
void lh_fragment_scatter(const struct lh_fragment *fragment, const float *values, float *flat);

/* Whether fragment i of n is sent at the end of an epoch: in every period once, spread evenly over
 * it, the first at its end. */
bool lh_fragment_is_due(uint32_t i, uint32_t n, uint32_t period, uint32_t epoch);

#endif
