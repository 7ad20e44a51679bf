/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of the reference device. See reference.h and layers.h. */
#include <inttypes.h>
#include <math.h>

#include "trainer/device/reference/reference.h"

static void write_sums(const struct lh_graph_node *node, double sum, double n_counted,
		       double n_right)
{
	real *sums = node->saved[0]->data;

	sums[0] = (real)sum;
	sums[1] = (real)n_counted;
	sums[2] = (real)n_right;
	*(real *)node->out->data = (real)(n_counted > 0 ? sum / n_counted : 0);
}

/* The first largest of n numbers. */
static int64_t find_largest(const real *x, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

/* The logarithm of the softmax's denominator. */
static double log_sum_exp(const real *x, int64_t n)
{
	double max = (double)x[find_largest(x, n)], sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += exp((double)x[i] - max);
	return max + log(sum);
}

int LH_REFERENCE(cross_entropy_forward)(struct lh_device *device, const struct lh_graph_node *node,
					const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;
	const int32_t *target = node->in[1]->data;
	double sum = 0, n_counted = 0, n_right = 0;

	(void)device;
	(void)pass;
	for (int64_t r = 0; r < s->rows; r++) {
		const real *x = (const real *)node->in[0]->data + r * s->classes;
		double denominator = log_sum_exp(x, s->classes), mean = 0;

		((real *)node->saved[1]->data)[r] = (real)denominator;
		if (target[r] == -1)
			continue;
		if (target[r] < 0 || target[r] >= s->classes)
			return lh_fail(err, LH_EINPUT, 0,
				       "target %" PRId32 " at %" PRId64 "; expected 0 to %" PRId64
				       ", or -1",
				       target[r], r, s->classes - 1);
		for (int64_t i = 0; s->smoothing > 0 && i < s->classes; i++)
			mean += (double)x[i] / (double)s->classes;
		sum += denominator - (1 - s->smoothing) * (double)x[target[r]] -
		       s->smoothing * mean;
		n_counted += 1;
		n_right += find_largest(x, s->classes) == target[r];
	}
	write_sums(node, sum, n_counted, n_right);
	return 0;
}

int LH_REFERENCE(cross_entropy_backward)(struct lh_device *device, const struct lh_graph_node *node,
					 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;
	const int32_t *target = node->in[1]->data;
	const real *denominator = node->saved[1]->data;
	double n_counted = (double)((const real *)node->saved[0]->data)[1];
	double dy = (double)*(const real *)node->out->grad;
	real *dx = node->in[0]->grad;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; dx && i < node->in[0]->n; i++) {
		int64_t r = i / s->classes, c = i % s->classes;
		double x = (double)((const real *)node->in[0]->data)[i], d = 0;

		if (target[r] != -1)
			d = (exp(x - (double)denominator[r]) -
			     (c == target[r] ? 1 - s->smoothing : 0) -
			     s->smoothing / (double)s->classes) *
			    dy / n_counted;
		put(dx, i, d, node->adds[0]);
	}
	return 0;
}

int LH_REFERENCE(binary_cross_entropy_forward)(struct lh_device *device,
					       const struct lh_graph_node *node,
					       const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;
	const int32_t *target = node->in[1]->data;
	const real *x = node->in[0]->data;
	double sum = 0, n_counted = 0, n_right = 0;

	(void)device;
	(void)pass;
	for (int64_t r = 0; r < s->rows; r++) {
		double logit = (double)x[r];

		if (target[r] == -1)
			continue;
		if (target[r] < 0 || target[r] > 1)
			return lh_fail(err, LH_EINPUT, 0,
				       "target %" PRId32 " at %" PRId64 "; expected 0, 1 or -1",
				       target[r], r);
		sum += fmax(logit, 0) - logit * target[r] + log1p(exp(-fabs(logit)));
		n_counted += 1;
		n_right += (logit > 0) == (target[r] == 1);
	}
	write_sums(node, sum, n_counted, n_right);
	return 0;
}

int LH_REFERENCE(binary_cross_entropy_backward)(struct lh_device *device,
						const struct lh_graph_node *node,
						const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;
	const int32_t *target = node->in[1]->data;
	const real *x = node->in[0]->data;
	double n_counted = (double)((const real *)node->saved[0]->data)[1];
	double dy = (double)*(const real *)node->out->grad;
	real *dx = node->in[0]->grad;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t r = 0; dx && r < s->rows; r++) {
		double d = 0;

		if (target[r] != -1)
			d = (1 / (1 + exp(-(double)x[r])) - target[r]) * dy / n_counted;
		put(dx, r, d, node->adds[0]);
	}
	return 0;
}
