/* SPDX-License-Identifier: Apache-2.0 */
/* The outer optimizer. See outer.h. */
#include "trainer/strategy/outer.h"

void lh_outer_take(const struct lh_outer *outer, const float *weights, float *ret_gradient)
{
	for (uint64_t i = 0; i < outer->n; i++)
		ret_gradient[i] = (float)((double)outer->start[i] - (double)weights[i]);
}

void lh_outer_step(struct lh_outer *outer, const float *gradient)
{
	for (uint64_t i = 0; i < outer->n; i++) {
		double way = gradient[i];

		if (outer->velocity) {
			double velocity = outer->momentum * (double)outer->velocity[i] + way;

			outer->velocity[i] = (float)velocity;
			way += outer->momentum * velocity;
		}
		outer->start[i] = (float)((double)outer->start[i] - outer->lr * way);
	}
}

void lh_outer_average(struct lh_outer *outer, const float *gradient)
{
	for (uint64_t i = 0; i < outer->n; i++)
		outer->start[i] = (float)((double)outer->start[i] - (double)gradient[i]);
}

void lh_outer_merge(const struct lh_outer *outer, double mix, float *weights)
{
	for (uint64_t i = 0; i < outer->n; i++)
		weights[i] =
			(float)(mix * (double)weights[i] + (1.0 - mix) * (double)outer->start[i]);
}
