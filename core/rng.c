/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random streams. See rng.h. */
#include "core/rng.h"

#include <math.h>

static uint64_t splitmix64(uint64_t *x)
{
	uint64_t z = (*x += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t fnv1a(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h;
}

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

void lh_rng_init(struct lh_rng *rng, uint64_t seed, const char *name)
{
	uint64_t x = seed ^ fnv1a(name);

	for (int i = 0; i < 4; i++)
		rng->state[i] = splitmix64(&x);
}

uint64_t lh_rng_next(struct lh_rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

double lh_rng_uniform(struct lh_rng *rng)
{
	return (double)(lh_rng_next(rng) >> 11) * 0x1.0p-53;
}

uint64_t lh_rng_below(struct lh_rng *rng, uint64_t n)
{
	uint64_t threshold = -n % n;
	uint64_t x;

	do {
		x = lh_rng_next(rng);
	} while (x < threshold);
	return x % n;
}

double lh_rng_normal(struct lh_rng *rng)
{
	const double two_pi = 6.283185307179586;
	double u = 1.0 - lh_rng_uniform(rng);
	double v = lh_rng_uniform(rng);

	return sqrt(-2.0 * log(u)) * cos(two_pi * v);
}
