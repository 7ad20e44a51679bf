/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of the CPU device. Losses of rows are summed in order, in double. See cpu.h. */
#include <inttypes.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

/* What a row adds to the sums; nothing where it has no target. */
struct row_loss {
	double loss;
	bool is_counted, is_right;
};

struct loss {
	const struct lh_cross_entropy *spec;
	const int32_t *target;
	const float *x;
	float *denominator; /* logarithms of the softmax's */
	struct row_loss *rows;
	float *dx;
	float factor; /* of every gradient: the loss's own over the targets counted */
	bool adds;
};

static void write_sums(const struct lh_graph_node *node, const struct row_loss *rows, int64_t n)
{
	float *sums = node->saved[0]->data;
	double sum = 0, n_counted = 0, n_right = 0;

	for (int64_t i = 0; i < n; i++) {
		if (!rows[i].is_counted)
			continue;
		sum += rows[i].loss;
		n_counted++;
		n_right += rows[i].is_right;
	}
	sums[0] = (float)sum;
	sums[1] = (float)n_counted;
	sums[2] = (float)n_right;
	*(float *)node->out->data = (float)(n_counted > 0 ? sum / n_counted : 0);
}

static int check_targets(const struct loss *l, int64_t classes, struct lh_error *err)
{
	for (int64_t r = 0; r < l->spec->rows; r++)
		if (l->target[r] < -1 || l->target[r] >= classes)
			return lh_fail(err, LH_EINPUT, 0,
				       "target %" PRId32 " at %" PRId64 "; expected 0 to %" PRId64
				       ", or -1",
				       l->target[r], r, classes - 1);
	return 0;
}

static float factor_of(const struct lh_graph_node *node)
{
	float n_counted = ((const float *)node->saved[0]->data)[1];

	return n_counted > 0 ? *(const float *)node->out->grad / n_counted : 0;
}

/* ---- cross entropy -------------------------------------------------------------------------- */

int lh_cpu_cross_entropy_prepare(struct lh_device *device, struct lh_graph_node *node,
				 struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;

	(void)device;
	(void)err;
	node->workspace_bytes = (size_t)s->rows * sizeof(struct row_loss);
	return 0;
}

static float sum_exponentials(const float *x, float max, int64_t n)
{
	float lanes[16] = {0}, rest = 0;
	int64_t whole = n / 16 * 16;

	for (int64_t i = 0; i < whole; i += 16)
		for (int l = 0; l < 16; l++)
			lanes[l] += lh_expf(x[i + l] - max);
	for (int64_t i = whole; i < n; i++)
		rest += lh_expf(x[i] - max);
	return lh_sum(lanes, 16) + rest;
}

/* Whether x[at] is the first largest of n numbers. */
static bool is_first_largest(const float *x, int64_t at, float max)
{
	if (!(x[at] >= max))
		return false;
	for (int64_t i = 0; i < at; i++)
		if (x[i] >= max)
			return false;
	return true;
}

static void measure_rows(const void *work, struct lh_cpu_span span)
{
	const struct loss *l = work;
	int64_t classes = l->spec->classes;
	double smoothing = l->spec->smoothing;

	for (int64_t r = span.from; r < span.to; r++) {
		const float *x = l->x + r * classes;
		float max = lh_max(x, classes);
		double denominator = (double)max + log((double)sum_exponentials(x, max, classes));
		double mean = smoothing > 0 ? (double)lh_sum(x, classes) / (double)classes : 0;
		int32_t target = l->target[r];

		l->denominator[r] = (float)denominator;
		l->rows[r] = (struct row_loss){0};
		if (target >= 0)
			l->rows[r] = (struct row_loss){denominator -
							       (1 - smoothing) * (double)x[target] -
							       smoothing * mean,
						       true, is_first_largest(x, target, max)};
	}
}

int lh_cpu_cross_entropy_forward(struct lh_device *device, const struct lh_graph_node *node,
				 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;
	struct loss l = {.spec = s,
			 .target = node->in[1]->data,
			 .x = node->in[0]->data,
			 .denominator = node->saved[1]->data,
			 .rows = node->workspace};
	int rc = check_targets(&l, s->classes, err);

	(void)pass;
	if (rc)
		return rc;
	lh_cpu_for(device, s->rows, 1, 2 * node->in[0]->n, measure_rows, &l);
	write_sums(node, l.rows, s->rows);
	return 0;
}

LH_INLINE void spread_row(const struct loss *l, int64_t r, bool adds)
{
	int64_t classes = l->spec->classes;
	const float *x = l->x + r * classes;
	float *dx = l->dx + r * classes, denominator = l->denominator[r];
	float factor = l->target[r] < 0 ? 0 : l->factor;
	float smooth = (float)(l->spec->smoothing / (double)classes);

#pragma omp simd
	for (int64_t i = 0; i < classes; i++) {
		float d = (lh_expf(x[i] - denominator) - smooth) * factor;

		dx[i] = adds ? dx[i] + d : d;
	}
	if (l->target[r] >= 0)
		dx[l->target[r]] -= (float)(1 - l->spec->smoothing) * factor;
}

static void spread_rows(const void *work, struct lh_cpu_span span)
{
	const struct loss *l = work;

	for (int64_t r = span.from; r < span.to; r++) {
		if (l->adds)
			spread_row(l, r, true);
		else
			spread_row(l, r, false);
	}
}

int lh_cpu_cross_entropy_backward(struct lh_device *device, const struct lh_graph_node *node,
				  const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;
	struct loss l = {.spec = s,
			 .target = node->in[1]->data,
			 .x = node->in[0]->data,
			 .denominator = node->saved[1]->data,
			 .dx = node->in[0]->grad,
			 .factor = factor_of(node),
			 .adds = node->adds[0]};

	(void)pass;
	(void)err;
	if (l.dx)
		lh_cpu_for(device, s->rows, 1, 2 * node->in[0]->n, spread_rows, &l);
	return 0;
}

/* ---- binary cross entropy: a number per sample, not worth threads ---------------------------- */

int lh_cpu_binary_cross_entropy_prepare(struct lh_device *device, struct lh_graph_node *node,
					struct lh_error *err)
{
	return lh_cpu_cross_entropy_prepare(device, node, err);
}

int lh_cpu_binary_cross_entropy_forward(struct lh_device *device, const struct lh_graph_node *node,
					const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;
	struct loss l = {.spec = s,
			 .target = node->in[1]->data,
			 .x = node->in[0]->data,
			 .rows = node->workspace};
	int rc = check_targets(&l, 2, err);

	(void)device;
	(void)pass;
	if (rc)
		return rc;
	for (int64_t r = 0; r < s->rows; r++) {
		double x = (double)l.x[r];
		int32_t target = l.target[r];

		l.rows[r] = (struct row_loss){fmax(x, 0) - x * target + log1p(exp(-fabs(x))),
					      target >= 0, (x > 0) == (target == 1)};
	}
	write_sums(node, l.rows, s->rows);
	return 0;
}

int lh_cpu_binary_cross_entropy_backward(struct lh_device *device, const struct lh_graph_node *node,
					 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_cross_entropy *s = node->spec;
	const int32_t *target = node->in[1]->data;
	const float *x = node->in[0]->data;
	float *dx = node->in[0]->grad, factor = factor_of(node);

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t r = 0; dx && r < s->rows; r++) {
		float d = target[r] < 0 ? 0 : (lh_sigmoid(x[r]) - (float)target[r]) * factor;

		dx[r] = node->adds[0] ? dx[r] + d : d;
	}
	return 0;
}
