/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations of the reference device. See reference.h and layers.h. */
#include <math.h>

#include "trainer/device/reference/reference.h"

/* n numbers, step apart: their mean and biased variance, in two passes. */
static void find_moments(const real *x, int64_t n, int64_t step, double *ret_mean, double *ret_var)
{
	double sum = 0, squares = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)x[i * step];
	*ret_mean = sum / (double)n;
	for (int64_t i = 0; i < n; i++) {
		double d = (double)x[i * step] - *ret_mean;

		squares += d * d;
	}
	*ret_var = squares / (double)n;
}

static void move_running(const struct lh_graph_node *node, int64_t c, double mean, double var)
{
	const struct lh_batch_norm *s = node->spec;
	real *running_mean = node->state[0]->data, *running_var = node->state[1]->data;
	double unbiased = s->rows > 1 ? var * (double)s->rows / (double)(s->rows - 1) : var;

	running_mean[c] = (real)((1 - s->momentum) * (double)running_mean[c] + s->momentum * mean);
	running_var[c] =
		(real)((1 - s->momentum) * (double)running_var[c] + s->momentum * unbiased);
}

int LH_REFERENCE(batch_norm_forward)(struct lh_device *device, const struct lh_graph_node *node,
				     const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_batch_norm *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data,
		   *b = node->parameter[1]->data;
	real *y = node->out->data, *saved_mean = node->saved[0]->data,
	     *saved_scale = node->saved[1]->data;

	(void)device;
	(void)err;
	for (int64_t c = 0; c < s->c; c++) {
		double mean = (double)((const real *)node->state[0]->data)[c];
		double var = (double)((const real *)node->state[1]->data)[c];
		double scale;

		if (pass->is_training) {
			find_moments(x + c, s->rows, s->c, &mean, &var);
			move_running(node, c, mean, var);
		}
		scale = 1 / sqrt(var + s->eps);
		saved_mean[c] = (real)mean;
		saved_scale[c] = (real)scale;
		for (int64_t r = 0; r < s->rows; r++) {
			double z = ((double)x[r * s->c + c] - mean) * scale * (double)w[c] +
				   (double)b[c];

			y[r * s->c + c] = (real)(s->has_relu && !(z > 0) ? 0 : z);
		}
	}
	return 0;
}

/* dy where the ReLU, if any, let x through. */
static double passed(const struct lh_graph_node *node, int64_t i)
{
	const struct lh_batch_norm *s = node->spec;
	const real *y = node->out->data, *dy = node->out->grad;

	return s->has_relu && !(y[i] > 0) ? 0 : (double)dy[i];
}

int LH_REFERENCE(batch_norm_backward)(struct lh_device *device, const struct lh_graph_node *node,
				      const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_batch_norm *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data;
	const real *saved_mean = node->saved[0]->data, *saved_scale = node->saved[1]->data;
	real *dx = node->in[0]->grad, *dw = node->parameter[0]->grad,
	     *db = node->parameter[1]->grad;

	(void)device;
	(void)err;
	for (int64_t c = 0; c < s->c; c++) {
		double mean = (double)saved_mean[c], scale = (double)saved_scale[c];
		double sum = 0, dot = 0, rows = (double)s->rows;

		for (int64_t i = c; i < node->out->n; i += s->c) {
			sum += passed(node, i);
			dot += passed(node, i) * ((double)x[i] - mean) * scale;
		}
		put(db, c, sum, true);
		put(dw, c, dot, true);
		for (int64_t i = c; dx && i < node->out->n; i += s->c) {
			double normed = ((double)x[i] - mean) * scale;
			double d = passed(node, i);

			if (pass->is_training)
				d -= sum / rows + normed * dot / rows;
			put(dx, i, d * (double)w[c] * scale, node->adds[0]);
		}
	}
	return 0;
}

int LH_REFERENCE(layer_norm_forward)(struct lh_device *device, const struct lh_graph_node *node,
				     const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_layer_norm *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data,
		   *b = node->parameter[1]->data;
	real *y = node->out->data, *saved_mean = node->saved[0]->data,
	     *saved_scale = node->saved[1]->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t r = 0; r < s->rows; r++) {
		double mean, var, scale;

		find_moments(x + r * s->c, s->c, 1, &mean, &var);
		scale = 1 / sqrt(var + s->eps);
		saved_mean[r] = (real)mean;
		saved_scale[r] = (real)scale;
		for (int64_t c = 0; c < s->c; c++)
			y[r * s->c + c] =
				(real)(((double)x[r * s->c + c] - mean) * scale * (double)w[c] +
				       (double)b[c]);
	}
	return 0;
}

int LH_REFERENCE(layer_norm_backward)(struct lh_device *device, const struct lh_graph_node *node,
				      const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_layer_norm *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data, *dy = node->out->grad;
	const real *saved_mean = node->saved[0]->data, *saved_scale = node->saved[1]->data;
	real *dx = node->in[0]->grad, *dw = node->parameter[0]->grad,
	     *db = node->parameter[1]->grad;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t r = 0; r < s->rows; r++) {
		double mean = (double)saved_mean[r], scale = (double)saved_scale[r];
		double sum = 0, dot = 0, width = (double)s->c;

		for (int64_t c = 0; c < s->c; c++) {
			double d = (double)dy[r * s->c + c];
			double normed = ((double)x[r * s->c + c] - mean) * scale;

			put(db, c, d, true);
			put(dw, c, d * normed, true);
			sum += d * (double)w[c];
			dot += d * (double)w[c] * normed;
		}
		for (int64_t c = 0; dx && c < s->c; c++) {
			double normed = ((double)x[r * s->c + c] - mean) * scale;
			double d = (double)dy[r * s->c + c] * (double)w[c];

			put(dx, r * s->c + c, (d - sum / width - normed * dot / width) * scale,
			    node->adds[0]);
		}
	}
	return 0;
}
