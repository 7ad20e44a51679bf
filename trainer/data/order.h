/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A seeded permutation of 0 .. n-1, any position of it at once and without a table: a Feistel
 * cipher on the next power of four, applied until the result is below n.
 * Source: J. Black, P. Rogaway, Ciphers with Arbitrary Finite Domains, 2002, section 3.
 */
#ifndef LH_TRAINER_DATA_ORDER_H
#define LH_TRAINER_DATA_ORDER_H

#include <stdint.h>

enum { LH_ORDER_ROUNDS = 8 };

struct lh_order {
	uint64_t n;
	uint32_t half_bits;
	uint64_t keys[LH_ORDER_ROUNDS];
};

/* Prepares epoch's order of n, 1 <= n <= 2^62. */
void lh_order_init(struct lh_order *order, uint64_t n, uint64_t seed, uint64_t epoch);

/* What stands at a position below n. */
uint64_t lh_order_at(const struct lh_order *order, uint64_t position);

#endif
