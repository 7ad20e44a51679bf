/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a rank of strategy parameter-server. See ps_internal.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/compute/compute.h"
#include "trainer/strategy/ps_internal.h"

int lh_ps_numbers_open(struct lh_ps_numbers *numbers, struct lh_rank *rank, struct lh_error *err)
{
	struct lh_averaged averaged = rank->compute->averaged(rank->computing);
	uint64_t slice = lh_sample_slice_elements(1, rank->n);

	*numbers = (struct lh_ps_numbers){
		.rank = rank, .is_replayed = !averaged.values, .n = averaged.n};
	numbers->n_real = (uint32_t)averaged.n;
	if (numbers->is_replayed && averaged.n > slice)
		numbers->n_real = (uint32_t)slice;
	numbers->weights = calloc(numbers->n_real, sizeof(float));
	numbers->gradient =
		numbers->is_replayed ? calloc(numbers->n_real, sizeof(float)) : averaged.values;
	if (!numbers->weights || !numbers->gradient)
		return lh_fail(err, LH_ESYS, ENOMEM, "open strategy parameter-server");
	return 0;
}

void lh_ps_numbers_close(struct lh_ps_numbers *numbers)
{
	free(numbers->weights);
	if (numbers->is_replayed)
		free(numbers->gradient);
}

int lh_ps_numbers_take(struct lh_ps_numbers *numbers, uint32_t update, uint64_t samples,
		       struct lh_error *err)
{
	struct lh_rank *rank = numbers->rank;

	if (!numbers->is_replayed)
		return rank->compute->begin_average(rank->computing, samples, err);
	lh_sample_draw(rank->job->seed, update, rank->self, 1, numbers->n_real, numbers->gradient);
	return 0;
}

int lh_ps_numbers_apply(struct lh_ps_numbers *numbers, const float *gradient, struct lh_error *err)
{
	struct lh_rank *rank = numbers->rank;

	if (!numbers->is_replayed) {
		if (gradient != numbers->gradient)
			memcpy(numbers->gradient, gradient, numbers->n_real * sizeof(float));
		return rank->compute->apply(rank->computing, err);
	}
	for (uint32_t i = 0; i < numbers->n_real; i++)
		numbers->weights[i] -= gradient[i];
	return 0;
}

int lh_ps_numbers_read(struct lh_ps_numbers *numbers, struct lh_error *err)
{
	struct lh_rank *rank = numbers->rank;

	return rank->compute->read_weights(rank->computing, numbers->weights, err);
}

int lh_ps_numbers_write(struct lh_ps_numbers *numbers, struct lh_error *err)
{
	struct lh_rank *rank = numbers->rank;

	return rank->compute->write_weights(rank->computing, numbers->weights, err);
}

uint64_t lh_ps_numbers_bytes(const struct lh_ps_numbers *numbers)
{
	return numbers->n * sizeof(float);
}

uint32_t lh_ps_numbers_head_bytes(const struct lh_ps_numbers *numbers)
{
	return numbers->n_real * (uint32_t)sizeof(float);
}
