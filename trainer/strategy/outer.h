/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outer optimizer: what becomes of weights from which ranks have gone apart. Its gradient is
 * the way that they went, start - weights, and its step is SGD with Nesterov momentum. Without
 * momentum and with lr 1 the step leads to the mean of the ranks' weights.
 *
 * Each element is worked out in double precision and rounded once, so that ranks with the same
 * numbers end with the same bits. Pure.
 *
 * Source: Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models",
 * arXiv 2311.08105, Algorithm 1; the form of momentum is that of Sutskever et al. as PyTorch's SGD
 * has it.
 */
#ifndef LH_TRAINER_OUTER_H
#define LH_TRAINER_OUTER_H

#include <stdint.h>

/* What becomes of n weights that all ranks had alike at the last synchronisation. Plain data. */
struct lh_outer {
	uint64_t n;
	float *start;	 /* n: those weights */
	float *velocity; /* n; NULL: momentum is 0 */
	double lr;
	double momentum;
};

/* ret_gradient = start - weights. */
void lh_outer_take(const struct lh_outer *outer, const float *weights, float *ret_gradient);

/* velocity = momentum x velocity + gradient, start -= lr x (gradient + momentum x velocity). */
void lh_outer_step(struct lh_outer *outer, const float *gradient);

/* start -= gradient: the mean of the ranks' weights, velocity unchanged. */
void lh_outer_average(struct lh_outer *outer, const float *gradient);

/* weights = mix x weights + (1 - mix) x start. */
void lh_outer_merge(const struct lh_outer *outer, double mix, float *weights);

#endif
