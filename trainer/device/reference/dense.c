/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers and element by element ones of the reference device. See reference.h and layers.h.
 */
#include <math.h>
#include <string.h>

#include "trainer/device/reference/reference.h"

int LH_REFERENCE(linear_forward)(struct lh_device *device, const struct lh_graph_node *node,
				 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_linear *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data;
	const real *b = s->has_bias ? node->parameter[1]->data : NULL;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t r = 0; r < s->rows; r++) {
		for (int64_t o = 0; o < s->out_features; o++) {
			double sum = b ? (double)b[o] : 0;

			for (int64_t i = 0; i < s->in_features; i++)
				sum += (double)x[r * s->in_features + i] *
				       (double)w[o * s->in_features + i];
			y[r * s->out_features + o] = (real)sum;
		}
	}
	return 0;
}

static void linear_backward_weights(const struct lh_graph_node *node)
{
	const struct lh_linear *s = node->spec;
	const real *x = node->in[0]->data, *dy = node->out->grad;
	real *dw = node->parameter[0]->grad;
	real *db = s->has_bias ? node->parameter[1]->grad : NULL;

	for (int64_t o = 0; o < s->out_features; o++) {
		for (int64_t i = 0; i < s->in_features; i++) {
			double sum = 0;

			for (int64_t r = 0; r < s->rows; r++)
				sum += (double)dy[r * s->out_features + o] *
				       (double)x[r * s->in_features + i];
			put(dw, o * s->in_features + i, sum, true);
		}
		if (db) {
			double sum = 0;

			for (int64_t r = 0; r < s->rows; r++)
				sum += (double)dy[r * s->out_features + o];
			put(db, o, sum, true);
		}
	}
}

int LH_REFERENCE(linear_backward)(struct lh_device *device, const struct lh_graph_node *node,
				  const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_linear *s = node->spec;
	const real *w = node->parameter[0]->data, *dy = node->out->grad;
	real *dx = node->in[0]->grad;

	(void)device;
	(void)pass;
	(void)err;
	linear_backward_weights(node);
	for (int64_t r = 0; dx && r < s->rows; r++) {
		for (int64_t i = 0; i < s->in_features; i++) {
			double sum = 0;

			for (int64_t o = 0; o < s->out_features; o++)
				sum += (double)dy[r * s->out_features + o] *
				       (double)w[o * s->in_features + i];
			put(dx, r * s->in_features + i, sum, node->adds[0]);
		}
	}
	return 0;
}

/* ---- activations: y = f(x), and dy/dx from x and y ------------------------------------------- */

static const double GELU_TANH_SCALE = 0.7978845608028654; /* sqrt(2 / pi) */
static const double GELU_TANH_CUBE = 0.044715;
static const double SQRT_HALF = 0.7071067811865476;
static const double INV_SQRT_2_PI = 0.3989422804014327;

static double apply(enum lh_activation f, double x)
{
	switch (f) {
	case LH_RELU:
		return x > 0 ? x : 0;
	case LH_GELU:
		return 0.5 * x * (1 + erf(x * SQRT_HALF));
	case LH_GELU_TANH:
		return 0.5 * x * (1 + tanh(GELU_TANH_SCALE * (x + GELU_TANH_CUBE * x * x * x)));
	case LH_SIGMOID:
		return 1 / (1 + exp(-x));
	case LH_TANH:
		return tanh(x);
	case LH_IDENTITY:
		break;
	}
	return x;
}

static double slope(enum lh_activation f, double x, double y)
{
	double t;

	switch (f) {
	case LH_RELU:
		return y > 0 ? 1 : 0;
	case LH_GELU:
		return 0.5 * (1 + erf(x * SQRT_HALF)) + x * INV_SQRT_2_PI * exp(-0.5 * x * x);
	case LH_GELU_TANH:
		t = tanh(GELU_TANH_SCALE * (x + GELU_TANH_CUBE * x * x * x));
		return 0.5 * (1 + t) +
		       0.5 * x * (1 - t * t) * GELU_TANH_SCALE * (1 + 3 * GELU_TANH_CUBE * x * x);
	case LH_SIGMOID:
		return y * (1 - y);
	case LH_TANH:
		return 1 - y * y;
	case LH_IDENTITY:
		break;
	}
	return 1;
}

/* Whether the slope follows from y: x is gone then. */
static bool is_by_output(enum lh_activation f)
{
	return f == LH_RELU || f == LH_SIGMOID || f == LH_TANH;
}

int LH_REFERENCE(activate_forward)(struct lh_device *device, const struct lh_graph_node *node,
				   const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_activate *s = node->spec;
	const real *x = node->in[0]->data;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; i < node->out->n; i++)
		y[i] = (real)apply(s->f, (double)x[i]);
	return 0;
}

int LH_REFERENCE(activate_backward)(struct lh_device *device, const struct lh_graph_node *node,
				    const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_activate *s = node->spec;
	const real *x = node->in[0]->data, *y = node->out->data, *dy = node->out->grad;
	real *dx = node->in[0]->grad;
	bool by_output = is_by_output(s->f);

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; dx && i < node->out->n; i++)
		put(dx, i,
		    (double)dy[i] *
			    slope(s->f, by_output ? 0 : (double)x[i], by_output ? (double)y[i] : 0),
		    node->adds[0]);
	return 0;
}

/* ---- sums, scales, masks, concatenation -------------------------------------------------------
 */

int LH_REFERENCE(add_forward)(struct lh_device *device, const struct lh_graph_node *node,
			      const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_add *s = node->spec;
	const real *a = node->in[0]->data, *b = node->in[1]->data;
	int64_t period = node->in[1]->n;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; i < node->out->n; i++) {
		real sum = a[i] + b[i % period];

		y[i] = s->has_relu && !(sum > 0) ? 0 : sum;
	}
	return 0;
}

int LH_REFERENCE(add_backward)(struct lh_device *device, const struct lh_graph_node *node,
			       const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_add *s = node->spec;
	const real *y = node->out->data, *dy = node->out->grad;

	(void)device;
	(void)pass;
	(void)err;
	for (uint32_t j = 0; j < 2; j++) {
		real *d = node->in[j]->grad;
		int64_t period = node->in[j]->n;

		for (int64_t i = 0; d && i < node->out->n; i++) {
			real passed = s->has_relu && !(y[i] > 0) ? 0 : dy[i];

			put(d, i % period, (double)passed, node->adds[j] || i >= period);
		}
	}
	return 0;
}

int LH_REFERENCE(scale_forward)(struct lh_device *device, const struct lh_graph_node *node,
				const struct lh_pass *pass, struct lh_error *err)
{
	const real *x = node->in[0]->data, *gamma = node->parameter[0]->data;
	int64_t c = node->parameter[0]->n;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; i < node->out->n; i++)
		y[i] = x[i] * gamma[i % c];
	return 0;
}

int LH_REFERENCE(scale_backward)(struct lh_device *device, const struct lh_graph_node *node,
				 const struct lh_pass *pass, struct lh_error *err)
{
	const real *x = node->in[0]->data, *gamma = node->parameter[0]->data, *dy = node->out->grad;
	real *dx = node->in[0]->grad, *dgamma = node->parameter[0]->grad;
	int64_t c = node->parameter[0]->n;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t j = 0; j < c; j++) {
		double sum = 0;

		for (int64_t i = j; i < node->out->n; i += c)
			sum += (double)dy[i] * (double)x[i];
		put(dgamma, j, sum, true);
	}
	for (int64_t i = 0; dx && i < node->out->n; i++)
		put(dx, i, (double)dy[i] * (double)gamma[i % c], node->adds[0]);
	return 0;
}

/* 0 or 1/(1-p) for element i; 1 when not training. */
static double mask(const struct lh_graph_node *node, const struct lh_pass *pass, int64_t i)
{
	const struct lh_dropout *s = node->spec;
	int64_t at = s->per_sample ? i / (node->out->n / s->n) : i;

	if (!pass->is_training)
		return 1;
	if (!lh_dropout_keeps(lh_dropout_key(pass, node->position), (uint64_t)at,
			      lh_dropout_threshold(s->p)))
		return 0;
	return 1 / (1 - s->p);
}

int LH_REFERENCE(dropout_forward)(struct lh_device *device, const struct lh_graph_node *node,
				  const struct lh_pass *pass, struct lh_error *err)
{
	const real *x = node->in[0]->data;
	real *y = node->out->data;

	(void)device;
	(void)err;
	for (int64_t i = 0; i < node->out->n; i++)
		y[i] = (real)((double)x[i] * mask(node, pass, i));
	return 0;
}

int LH_REFERENCE(dropout_backward)(struct lh_device *device, const struct lh_graph_node *node,
				   const struct lh_pass *pass, struct lh_error *err)
{
	const real *dy = node->out->grad;
	real *dx = node->in[0]->grad;

	(void)device;
	(void)err;
	for (int64_t i = 0; dx && i < node->out->n; i++)
		put(dx, i, (double)dy[i] * mask(node, pass, i), node->adds[0]);
	return 0;
}

int LH_REFERENCE(concat_forward)(struct lh_device *device, const struct lh_graph_node *node,
				 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_concat *s = node->spec;
	int64_t all = node->out->n / s->rows, at = 0;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (uint32_t j = 0; j < node->n_in; j++) {
		const real *x = node->in[j]->data;
		int64_t width = node->in[j]->n / s->rows;

		for (int64_t r = 0; r < s->rows; r++)
			memcpy(y + r * all + at, x + r * width, (size_t)width * sizeof(*y));
		at += width;
	}
	return 0;
}

int LH_REFERENCE(concat_backward)(struct lh_device *device, const struct lh_graph_node *node,
				  const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_concat *s = node->spec;
	int64_t all = node->out->n / s->rows, at = 0;
	const real *dy = node->out->grad;

	(void)device;
	(void)pass;
	(void)err;
	for (uint32_t j = 0; j < node->n_in; j++) {
		real *dx = node->in[j]->grad;
		int64_t width = node->in[j]->n / s->rows;

		for (int64_t i = 0; dx && i < s->rows * width; i++)
			put(dx, i, (double)dy[i / width * all + at + i % width], node->adds[j]);
		at += width;
	}
	return 0;
}
