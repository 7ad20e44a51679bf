/* SPDX-License-Identifier: Apache-2.0 */
/* The exact choice, which several sparsifiers end with or fall back to. */
#ifndef LH_TRAINER_COMPRESS_SELECT_INTERNAL_H
#define LH_TRAINER_COMPRESS_SELECT_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/compress/sparse.h"

/* Some of the values that a choice is made from; sorted by index. */
struct lh_candidates {
	size_t n;
	uint32_t *indices; /* room for capacity + LH_COLLECT_SLACK */
	float *values;	   /* room for capacity */
};

/* The most candidates that are worth looking at for k of n. */
size_t lh_candidates_capacity(uint32_t n, uint32_t k);

/* Bytes of the room of that many. */
size_t lh_candidates_bytes(size_t capacity);

/* Lays candidates into memory of lh_candidates_bytes(capacity). */
void lh_candidates_init(struct lh_candidates *c, size_t capacity, void *memory);

/* All values whose key is at least threshold. Returns false where there are more than capacity. */
int lh_candidates_collect(struct lh_candidates *c, const float *values, uint32_t n,
			  uint32_t threshold, size_t capacity);

/* The k-th largest of n keys, 1 <= k <= n; O(n) at worst. All larger ones are before the k-th place
 * then. */
uint32_t lh_select_key(uint32_t *keys, size_t n, size_t k);

/* The k largest magnitudes of n values, of equal ones the first; keys has room for n. */
void lh_select_exactly(const float *values, size_t n, uint32_t k, uint32_t *keys,
		       struct lh_sparse *ret);

/* The same among candidates, k <= c->n. */
void lh_select_candidates(const struct lh_candidates *c, uint32_t k, uint32_t *keys,
			  struct lh_sparse *ret);

/* ret's values are those at its indices. */
void lh_select_fetch(const float *values, struct lh_sparse *ret);

#endif
