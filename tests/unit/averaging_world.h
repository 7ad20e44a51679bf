/* SPDX-License-Identifier: Apache-2.0 */
/* Whole ranks of a strategy that averages gradients, over loopback, with gradients that the test
 * gives and averages that it gets; a thread each. */
#ifndef LH_TESTS_UNIT_AVERAGING_WORLD_H
#define LH_TESTS_UNIT_AVERAGING_WORLD_H

#include <pthread.h>

#include "trainer/compute/compute.h"
#include "trainer/rank.h"

enum { AVERAGING_RANKS_MAX = 8 };

struct averaging_world;
struct lh_matrix_shape;

/* A rank's mean gradient in an epoch. */
typedef void averaging_gradient_fn(const struct averaging_world *world, uint32_t rank,
				   uint32_t epoch, float *ret_gradient);

struct averaging_rank {
	struct averaging_world *world;
	uint32_t rank;
	pthread_t thread;
	float *values;	 /* what is averaged */
	float *averages; /* by epoch, one after another */
	float *given;	 /* the sum of the rank's gradients */
	uint32_t n_begun;
	uint32_t n_applied;
	int code;
	struct lh_error error;
};

struct averaging_world {
	struct lh_job job;
	struct lh_job_rank ranks[AVERAGING_RANKS_MAX];
	struct averaging_rank states[AVERAGING_RANKS_MAX];
	averaging_gradient_fn *gradient;      /* NULL: replay, no numbers */
	const struct lh_matrix_shape *shapes; /* of the gradient's tensors */
	size_t n_shapes;
	char dir[32];
};

/* n ranks, alike, with balance fixed and a micro-batch of 32 samples each of an epoch. The caller
 * sets strategy, compressor, parameters and epochs before the run. */
void averaging_world_init(struct averaging_world *world, uint32_t n, const char *strategy,
			  const char *compressor);

/* Runs all ranks to their end; their codes say how each ended. */
void averaging_world_run(struct averaging_world *world);

/* The sum of key over a rank's `average` events. */
int64_t averaging_world_sum(const struct averaging_world *world, uint32_t rank, const char *key);

void averaging_world_done(struct averaging_world *world);

#endif
