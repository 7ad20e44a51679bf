/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of the optimizers, element by element as their formulas stand in trainer/device/update.h.
 */
#include "trainer/device/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/device/reference/reference.h"

struct plan {
	uint32_t n_segments;
	struct lh_segment segments[];
};

static int prepare(struct lh_device *device, const struct lh_segment *segments, uint32_t n_segments,
		   void **ret_plan, struct lh_error *err)
{
	struct plan *plan = malloc(sizeof(*plan) + n_segments * sizeof(*segments));

	(void)device;
	if (!plan)
		return lh_fail(err, LH_ESYS, 0, "no memory for a plan of updates");
	plan->n_segments = n_segments;
	memcpy(plan->segments, segments, n_segments * sizeof(*segments));
	*ret_plan = plan;
	return 0;
}

static void done(struct lh_device *device, void *plan)
{
	(void)device;
	free(plan);
}

static double sum_of_squares(const real *x, const struct lh_segment *s)
{
	double sum = 0;

	for (int64_t i = s->at; i < s->at + s->n; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

static int sum_squares(struct lh_device *device, void *plan, const void *x, double *ret_sums,
		       struct lh_error *err)
{
	const struct plan *p = plan;

	(void)device;
	(void)err;
	for (uint32_t i = 0; i < p->n_segments; i++)
		ret_sums[i] = sum_of_squares(x, &p->segments[i]);
	return 0;
}

static double decay_of(const struct lh_update *u, const struct lh_segment *s)
{
	return s->has_decay ? u->weight_decay : 0;
}

static void sgd_segment(const struct lh_update *u, const struct lh_segment *s)
{
	real *w = u->parameters, *v = u->states[0];
	const real *gradients = u->gradients;

	for (int64_t i = s->at; i < s->at + s->n; i++) {
		double g = u->gradient_scale * (double)gradients[i] + decay_of(u, s) * (double)w[i];
		double step = g;

		if (v) {
			v[i] = (real)(u->momentum * (double)v[i] + g);
			step = u->nesterov ? g + u->momentum * (double)v[i] : (double)v[i];
		}
		w[i] = (real)((double)w[i] - u->lr * step);
	}
}

/* The moments with one more gradient. */
static void move_moments(const struct lh_update *u, int64_t i)
{
	real *m = u->states[0], *v = u->states[1];
	double g = u->gradient_scale * (double)((const real *)u->gradients)[i];

	m[i] = (real)(u->beta1 * (double)m[i] + (1 - u->beta1) * g);
	v[i] = (real)(u->beta2 * (double)v[i] + (1 - u->beta2) * g * g);
}

/* The moments without their bias towards zero, one divided by the root of the other. */
static double adam_direction(const struct lh_update *u, int64_t i)
{
	const real *m = u->states[0], *v = u->states[1];
	double mean = (double)m[i] / (1 - pow(u->beta1, (double)u->t));
	double square = (double)v[i] / (1 - pow(u->beta2, (double)u->t));

	return mean / (sqrt(square) + u->eps);
}

static void adamw_segment(const struct lh_update *u, const struct lh_segment *s)
{
	real *w = u->parameters;

	for (int64_t i = s->at; i < s->at + s->n; i++) {
		double decayed = (double)w[i] * (1 - u->lr * decay_of(u, s));

		move_moments(u, i);
		w[i] = (real)(decayed - u->lr * adam_direction(u, i));
	}
}

static void lamb_segment(const struct lh_update *u, const struct lh_segment *s)
{
	real *w = u->parameters;
	double w_squares = sum_of_squares(w, s), step_squares = 0, ratio = 1;

	for (int64_t i = s->at; i < s->at + s->n; i++) {
		double step;

		move_moments(u, i);
		step = adam_direction(u, i) + decay_of(u, s) * (double)w[i];
		step_squares += step * step;
	}
	if (s->is_adapted && w_squares > 0 && step_squares > 0)
		ratio = sqrt(w_squares) / sqrt(step_squares);
	for (int64_t i = s->at; i < s->at + s->n; i++) {
		double step = adam_direction(u, i) + decay_of(u, s) * (double)w[i];

		w[i] = (real)((double)w[i] - u->lr * ratio * step);
	}
}

static void lars_segment(const struct lh_update *u, const struct lh_segment *s)
{
	real *w = u->parameters, *v = u->states[0];
	const real *gradients = u->gradients;
	double w_norm = sqrt(sum_of_squares(w, s));
	double g_norm = u->gradient_scale * sqrt(sum_of_squares(gradients, s));
	double decay = decay_of(u, s), ratio = 1;

	if (s->is_adapted && w_norm > 0 && g_norm > 0)
		ratio = u->trust * w_norm / (g_norm + decay * w_norm);
	for (int64_t i = s->at; i < s->at + s->n; i++) {
		double g = u->gradient_scale * (double)gradients[i] + decay * (double)w[i];

		v[i] = (real)(u->momentum * (double)v[i] + u->lr * ratio * g);
		w[i] = (real)((double)w[i] - (double)v[i]);
	}
}

static int update_segments(void *plan, const struct lh_update *update,
			   void (*segment)(const struct lh_update *, const struct lh_segment *))
{
	const struct plan *p = plan;

	for (uint32_t i = 0; i < p->n_segments; i++)
		segment(update, &p->segments[i]);
	return 0;
}

#define STEP(name)                                                                   \
	static int name##_step(struct lh_device *device, void *plan,                 \
			       const struct lh_update *update, struct lh_error *err) \
	{                                                                            \
		(void)device;                                                        \
		(void)err;                                                           \
		return update_segments(plan, update, name##_segment);                \
	}

STEP(sgd)
STEP(adamw)
STEP(lamb)
STEP(lars)

static int scale(struct lh_device *device, double factor, void *x, int64_t n, struct lh_error *err)
{
	real *values = x;

	(void)device;
	(void)err;
	for (int64_t i = 0; i < n; i++)
		values[i] = (real)(factor * (double)values[i]);
	return 0;
}

static int axpy(struct lh_device *device, double factor, const void *x, void *y, int64_t n,
		struct lh_error *err)
{
	const real *from = x;
	real *to = y;

	(void)device;
	(void)err;
	for (int64_t i = 0; i < n; i++)
		to[i] = (real)((double)to[i] + factor * (double)from[i]);
	return 0;
}

#ifdef LH_REFERENCE_DOUBLE
const struct lh_update_ops lh_update_reference64 = {
#else
const struct lh_update_ops lh_update_reference32 = {
#endif
	.prepare = prepare,
	.done = done,
	.sum_squares = sum_squares,
	.step = {[LH_RULE_SGD] = sgd_step,
		 [LH_RULE_ADAMW] = adamw_step,
		 [LH_RULE_LAMB] = lamb_step,
		 [LH_RULE_LARS] = lars_step},
	.scale = scale,
	.axpy = axpy,
};
