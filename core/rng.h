/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers, one stream per purpose, each a function of (seed, name): adding a
 * stream changes no other. Not for secrets.
 * Source: xoshiro256** (Blackman, Vigna 2018), seeded through splitmix64 and FNV-1a.
 */
#ifndef LH_CORE_RNG_H
#define LH_CORE_RNG_H

#include <stdint.h>

struct lh_rng {
	uint64_t state[4];
};

/* Starts the stream called name of the given seed. */
void lh_rng_init(struct lh_rng *rng, uint64_t seed, const char *name);

/* The next 64 random bits. */
uint64_t lh_rng_next(struct lh_rng *rng);

/* Uniform in [0, 1). */
double lh_rng_uniform(struct lh_rng *rng);

/* Uniform integer in [0, n), n >= 1, without bias. */
uint64_t lh_rng_below(struct lh_rng *rng, uint64_t n);

/* Normal with mean 0 and standard deviation 1 (Box-Muller). */
double lh_rng_normal(struct lh_rng *rng);

#endif
