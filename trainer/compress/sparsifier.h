/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's sparsifier: chooses what of its gradient is sent, and remembers the rest. What is sent
 * and what is remembered together are what was there: value + residual = accumulated gradient,
 * element by element and without rounding, as one of the two is zero.
 *
 * Not thread-safe; ranks have one each.
 */
#ifndef LH_TRAINER_SPARSIFIER_H
#define LH_TRAINER_SPARSIFIER_H

#include <stdbool.h>

#include "trainer/compress/sparse.h"

enum {
	LH_SPARSE_WARM_UP_MAX = 15,
	LH_SPARSE_ELEMENTS_MAX = 0x7fffffff,
};

enum lh_sparse_memory {
	LH_MEMORY_NONE,	    /* what is not sent is lost */
	LH_MEMORY_RESIDUAL, /* error feedback: the next gradient is added to it */
	/*
	 * Deep Gradient Compression's: the local momentum u = m u + g is added up to v, which is
	 * sent from; both become zero where it was (masking), so that the optimizer's own momentum
	 * must be 0. Nesterov: u = m (u + g), v += u + g.
	 * Source: Lin et al., arXiv 1712.01887, sections 3.1 to 3.3.
	 */
	LH_MEMORY_DGC,
};

struct lh_sparsifier_settings {
	const struct lh_sparse_ops *choice;
	uint32_t n;	/* gradient's elements, 1 to LH_SPARSE_ELEMENTS_MAX */
	double density; /* of the elements that are sent, above 0, up to 1; at least one is */
	enum lh_sparse_memory memory;

	double momentum; /* with LH_MEMORY_DGC: 0 to below 1 */
	bool is_nesterov;
	/* With LH_MEMORY_DGC: gradients are scaled down to a norm of clip_norm / sqrt(n_ranks)
	 * before they are accumulated; 0: never. */
	double clip_norm;
	uint32_t n_ranks; /* from 1 */

	/* Steps of the density before it is what is said above, 0 to LH_SPARSE_WARM_UP_MAX: 25 %,
	 * 6.25 %, 1.5625 % ..., none below the density. */
	uint32_t warm_up_steps;
	uint32_t warm_up_rounds; /* each step's epochs (rounds), from 1 */

	uint64_t seed;
	uint32_t rank; /* names the stream of random numbers */
	/* All ranks draw from one stream: with random-k they choose the same in each epoch. */
	bool is_choice_shared;
};

struct lh_sparsifier;

/* LH_EINPUT where settings are out of their ranges, LH_ESYS without memory. ret is the caller's to
 * free. The choice is borrowed. */
int lh_sparsifier_new(const struct lh_sparsifier_settings *settings, struct lh_sparsifier **ret,
		      struct lh_error *err);

void lh_sparsifier_free(struct lh_sparsifier *s);

/* The elements that are sent in an epoch (round), from 0: density x n, rounded, at least one. */
uint32_t lh_sparsifier_count(const struct lh_sparsifier *s, uint32_t epoch);

/* The same by settings alone, which are in their ranges. */
uint32_t lh_sparsifier_count_by(const struct lh_sparsifier_settings *settings, uint32_t epoch);

/*
 * Accumulates a gradient of n numbers and takes from the sum what is sent in this epoch. Each
 * epoch's choice draws from a stream of its own.
 * Returned is valid until the next call of take or free.
 */
const struct lh_sparse *lh_sparsifier_take(struct lh_sparsifier *s, const float *gradient,
					   uint32_t epoch);

/* Puts a message that was taken, and that nobody got, back into what is remembered, exactly if it
 * is the last that was taken. DGC's momentum stays masked. Lost with LH_MEMORY_NONE. */
void lh_sparsifier_give_back(struct lh_sparsifier *s, const struct lh_sparse *message);

/* What is remembered, n numbers; NULL with LH_MEMORY_NONE. Belongs to s. */
const float *lh_sparsifier_residual(const struct lh_sparsifier *s);

#endif
