/* SPDX-License-Identifier: Apache-2.0 */
/* What the synthetic kinds share: sizes, and noise that costs little. */
#ifndef LH_TRAINER_DATA_SYNTHETIC_INTERNAL_H
#define LH_TRAINER_DATA_SYNTHETIC_INTERNAL_H

#include "trainer/data/dataset_internal.h"

/* The number of samples where none is asked for: 10,000 to train, 1,000 to test. */
static inline uint64_t lh_synthetic_size(const struct lh_data_request *spec)
{
	if (spec->n_samples)
		return spec->n_samples;
	return spec->split == LH_DATA_TEST ? 1000 : 10000;
}

/* The stream of what both splits share, such as the patterns of classes. */
static inline void lh_synthetic_model_rng(struct lh_rng *rng, const struct lh_data_request *spec)
{
	lh_rng_init(rng, spec->seed, "data/synthetic");
}

/* Mean 0, standard deviation 1, within 3.5: the sum of four uniform numbers of 16 bits. */
static inline float lh_synthetic_noise(struct lh_rng *rng)
{
	static const float scale = 1.0f / 37837.23f; /* sqrt(4 / 12) 2^16 */
	uint64_t x = lh_rng_next(rng);
	int32_t sum = (int32_t)(x & 0xffff) + (int32_t)(x >> 16 & 0xffff) +
		      (int32_t)(x >> 32 & 0xffff) + (int32_t)(x >> 48) - 2 * 0xffff;

	return (float)sum * scale;
}

#endif
