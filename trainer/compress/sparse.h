/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse messages: k of n numbers with their indices, how they are chosen, and their form on the
 * wire. What becomes of the others is sparsifier.h's.
 *
 * Magnitudes are compared by their bits: a NaN is larger than infinity, so that it is sent and
 * seen, and not kept for ever.
 */
#ifndef LH_TRAINER_SPARSE_H
#define LH_TRAINER_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/rng.h"

/* Some of n numbers; indices ascend, so that none is there twice. */
struct lh_sparse {
	uint32_t count;
	uint32_t *indices;
	float *values;
};

/* What a choice needs beside the numbers. */
struct lh_sparse_choice {
	uint32_t k;	    /* 0 to n */
	struct lh_rng *rng; /* borrowed */
	void *scratch;	    /* scratch_bytes(n, k), aligned for any type; borrowed */
};

struct lh_sparse_ops {
	const char *name;
	const char *doc; /* one line */
	size_t (*scratch_bytes)(uint32_t n, uint32_t k);
	/* Chooses exactly choice->k of n values; ret's arrays have room for them. */
	void (*select)(const float *values, uint32_t n, const struct lh_sparse_choice *choice,
		       struct lh_sparse *ret);
};

/* The largest magnitudes, of equal ones those first in order. */
extern const struct lh_sparse_ops lh_sparse_topk;
/*
 * The largest magnitudes but for a band around the least of them: thresholds are tried, several in
 * a pass, until the tightest above and below k are within 0.1 % of each other; of the values
 * between them one contiguous run is taken, beginning at random. A threshold guessed from a sample
 * mostly spares all passes but one over all values. Source: MSTopK of Shi et al., arXiv 2010.10458.
 */
extern const struct lh_sparse_ops lh_sparse_mstopk;
/*
 * The largest magnitudes, found as Deep Gradient Compression finds them: the threshold of a sample
 * of 1 % is lowered up to 10 times until enough are above it, and the exact choice is made among
 * those alone. Source: Lin et al., arXiv 1712.01887; there 0.8 to 1.3 k are sent, here k.
 */
extern const struct lh_sparse_ops lh_sparse_dgc;
/* Any k, each as likely. */
extern const struct lh_sparse_ops lh_sparse_random_k;

/* All of them, NULL at the end. */
extern const struct lh_sparse_ops *const lh_sparse_choices[];

/* The choice of that name, or NULL. */
const struct lh_sparse_ops *lh_sparse_find(const char *name);

/* Exact bytes of a message of count elements: the count, then indices, then values, 4 bytes each,
 * little endian. */
uint64_t lh_sparse_wire_bytes(uint32_t count);

/* Writes lh_sparse_wire_bytes(message->count) bytes to wire, any alignment. */
void lh_sparse_write(const struct lh_sparse *message, void *wire);

/*
 * Reads a message about n numbers from bytes that need not be one.
 *   capacity  the elements that ret's arrays have room for; more are refused
 * LH_EINPUT where the length is not that of the count, an index is not below n, or indices do not
 * ascend; ret's count is set on success alone. Values are any floats.
 */
int lh_sparse_parse(const void *wire, size_t bytes, uint32_t n, uint32_t capacity,
		    struct lh_sparse *ret, struct lh_error *err);

/* sum[index] += weight x value of every element. The message's indices are below sum's length. */
void lh_sparse_add(const struct lh_sparse *message, float weight, float *sum);

#endif
