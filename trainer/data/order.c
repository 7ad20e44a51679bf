/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded permutations. See order.h. */
#include "trainer/data/order.h"

#include <assert.h>
#include <stdio.h>

#include "core/rng.h"

void lh_order_init(struct lh_order *order, uint64_t n, uint64_t seed, uint64_t epoch)
{
	struct lh_rng rng;
	char name[64];

	assert(n >= 1 && n <= (uint64_t)1 << 62);
	snprintf(name, sizeof(name), "data/order/%llu", (unsigned long long)epoch);
	lh_rng_init(&rng, seed, name);
	order->n = n;
	order->half_bits = 1;
	while (n > (uint64_t)1 << 2 * order->half_bits)
		order->half_bits++;
	for (int i = 0; i < LH_ORDER_ROUNDS; i++)
		order->keys[i] = lh_rng_next(&rng);
}

/* Mixes all bits of x into the upper ones. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
	return (x ^ x >> 29) * 0x94d049bb133111ebu;
}

uint64_t lh_order_at(const struct lh_order *order, uint64_t position)
{
	uint64_t mask = ((uint64_t)1 << order->half_bits) - 1;
	uint64_t x = position;

	assert(position < order->n);
	do {
		uint64_t left = x >> order->half_bits, right = x & mask;

		for (int i = 0; i < LH_ORDER_ROUNDS; i++) {
			uint64_t mixed = mix(right + order->keys[i]) >> (64 - order->half_bits);
			uint64_t swapped = left ^ mixed;

			left = right;
			right = swapped;
		}
		x = left << order->half_bits | right;
	} while (x >= order->n);
	return x;
}
