/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments: parts of a model's weights that are synchronised one after the other within a period.
 * A fragment is a number of runs of the flat vector. Pure.
 *
 * Source: Douillard et al., "Streaming DiLoCo with overlapping communication", arXiv 2501.18512,
 * section 2.2.
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

struct lh_fragment {
	uint64_t n; /* elements */
	uint32_t n_runs;
	struct lh_run *runs; /* owned */
};

struct lh_fragments {
	uint32_t n;
	struct lh_fragment *fragments; /* owned */
};

/* Cuts n_values into n nearly equal parts. LH_EINPUT where there are fewer values; LH_ESYS. Given
 * to lh_fragments_done. */
int lh_fragments_cut(uint64_t n_values, uint32_t n, struct lh_fragments *ret_fragments,
		     struct lh_error *err);

void lh_fragments_done(struct lh_fragments *fragments);

/* Copies a fragment's values from the flat vector, one run after another, and back. */
void lh_fragment_gather(const struct lh_fragment *fragment, const float *flat, float *ret_values);
void lh_fragment_scatter(const struct lh_fragment *fragment, const float *values, float *flat);

/* Whether fragment i of n is sent at the end of an epoch: in every period once, spread evenly over
 * it, the first at its end. */
bool lh_fragment_is_due(uint32_t i, uint32_t n, uint32_t period, uint32_t epoch);

#endif
