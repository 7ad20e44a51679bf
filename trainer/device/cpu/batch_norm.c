/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation of the CPU device, with its ReLU. Statistics of blocks of rows that stay in
 * the cache are joined in order, by Chan's formula. The backward finds from x where the ReLU let it
 * through, by the forward's own arithmetic, and need not read y. See cpu.h.
 *
 * Source: arXiv 1502.03167; Chan, Golub and LeVeque, The American Statistician 37 (1983), 242.
 */
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

/* Of each column, repeated to the columns' width: y = (x - mean) factor + shift;
 * dx = factor (dy - mean_dy - (x - mean) slope). */
enum { MEAN, FACTOR, SHIFT, MEAN_DY, SLOPE, N_COEFFICIENTS };

struct normalisation {
	const struct lh_batch_norm *spec;
	struct lh_cpu_columns columns;
	const float *x, *dy;
	float *y, *dx;
	float *coefficients[N_COEFFICIENTS];
	float *partials; /* [blocks, 2, wide] */
	bool adds;
};

static struct normalisation find(const struct lh_graph_node *node)
{
	const struct lh_batch_norm *s = node->spec;
	struct normalisation b = {.spec = s,
				  .columns = lh_cpu_split_rows(s->rows, s->c),
				  .x = node->in[0]->data,
				  .dy = node->out->grad,
				  .y = node->out->data,
				  .dx = node->in[0]->grad,
				  .adds = node->adds[0]};
	float *at = node->workspace;

	for (int i = 0; i < N_COEFFICIENTS; i++)
		b.coefficients[i] = at + i * b.columns.wide;
	b.partials = at + N_COEFFICIENTS * b.columns.wide;
	return b;
}

int lh_cpu_batch_norm_prepare(struct lh_device *device, struct lh_graph_node *node,
			      struct lh_error *err)
{
	const struct lh_batch_norm *s = node->spec;
	struct lh_cpu_columns columns = lh_cpu_split_rows(s->rows, s->c);

	(void)device;
	(void)err;
	node->workspace_bytes =
		(size_t)((N_COEFFICIENTS + 2 * columns.n_blocks) * columns.wide) * sizeof(float);
	return 0;
}

/* ---- forward -------------------------------------------------------------------------------- */

static void add_group(const float *x, float *sums, int64_t n)
{
#pragma omp simd
	for (int64_t j = 0; j < n; j++)
		sums[j] += x[j];
}

static void add_squares(const float *x, const float *mean, float *sums, int64_t n)
{
#pragma omp simd
	for (int64_t j = 0; j < n; j++) {
		float d = x[j] - mean[j];

		sums[j] = fmaf(d, d, sums[j]);
	}
}

static int64_t left_of(struct lh_cpu_block block, int64_t at, int64_t wide)
{
	int64_t left = block.from + block.n - at;

	return left < wide ? left : wide;
}

/* Means and sums of squared distances to them of each block. */
static void find_moments(const void *work, struct lh_cpu_span span)
{
	const struct normalisation *b = work;
	int64_t wide = b->columns.wide, c = b->columns.c;

	for (int64_t i = span.from; i < span.to; i++) {
		struct lh_cpu_block block = lh_cpu_find_block(&b->columns, i);
		float *mean = b->partials + 2 * i * wide, *squares = mean + wide;
		int64_t end = block.from + block.n;

		memset(mean, 0, 2 * (size_t)wide * sizeof(*mean));
		for (int64_t at = block.from; at < end; at += wide)
			add_group(b->x + at, mean, left_of(block, at, wide));
		lh_cpu_fold(&b->columns, mean);
		for (int64_t j = 0; j < c; j++)
			mean[j] /= (float)(block.n / c);
		lh_cpu_repeat(&b->columns, mean);
		for (int64_t at = block.from; at < end; at += wide)
			add_squares(b->x + at, mean, squares, left_of(block, at, wide));
		lh_cpu_fold(&b->columns, squares);
	}
}

/* Joins the blocks' moments: then the first block's are those of all rows. */
static void join_moments(const struct normalisation *b)
{
	int64_t wide = b->columns.wide, c = b->columns.c;
	float *all_mean = b->partials, *all_squares = b->partials + wide;
	double n = (double)(lh_cpu_find_block(&b->columns, 0).n / c);

	for (int64_t i = 1; i < b->columns.n_blocks; i++) {
		const float *mean = b->partials + 2 * i * wide, *squares = mean + wide;
		double m = (double)(lh_cpu_find_block(&b->columns, i).n / c);
		float share = (float)(m / (n + m)), weight = (float)(n * m / (n + m));

#pragma omp simd
		for (int64_t j = 0; j < c; j++) {
			float d = mean[j] - all_mean[j];

			all_mean[j] = fmaf(d, share, all_mean[j]);
			all_squares[j] += fmaf(d * d, weight, squares[j]);
		}
		n += m;
	}
}

static void move(float *running, float value, double momentum)
{
	*running = (float)((1 - momentum) * (double)*running + momentum * (double)value);
}

/* Saves mean and 1 / sqrt(var + eps), of the batch or of all that ran before. */
static void save_moments(const struct normalisation *b, const struct lh_graph_node *node,
			 bool is_training)
{
	const struct lh_batch_norm *s = b->spec;
	float *running_mean = node->state[0]->data, *running_var = node->state[1]->data;
	float *mean = node->saved[0]->data, *scale = node->saved[1]->data;
	const float *squares = b->partials + b->columns.wide;
	float rows = (float)s->rows, others = s->rows > 1 ? (float)(s->rows - 1) : 1;

	for (int64_t j = 0; j < s->c; j++) {
		float var = is_training ? squares[j] / rows : running_var[j];

		mean[j] = is_training ? b->partials[j] : running_mean[j];
		scale[j] = (float)(1 / sqrt((double)var + s->eps));
		if (is_training) {
			move(&running_mean[j], mean[j], s->momentum);
			move(&running_var[j], s->rows > 1 ? squares[j] / others : var, s->momentum);
		}
	}
}

static void find_factors(const struct normalisation *b, const struct lh_graph_node *node)
{
	const float *w = node->parameter[0]->data, *shift = node->parameter[1]->data;
	const float *mean = node->saved[0]->data, *scale = node->saved[1]->data;

	for (int64_t j = 0; j < b->columns.c; j++) {
		b->coefficients[MEAN][j] = mean[j];
		b->coefficients[FACTOR][j] = w[j] * scale[j];
		b->coefficients[SHIFT][j] = shift[j];
	}
	for (int i = MEAN; i <= SHIFT; i++)
		lh_cpu_repeat(&b->columns, b->coefficients[i]);
}

LH_INLINE float normalise(float x, float mean, float factor, float shift)
{
	return fmaf(x - mean, factor, shift);
}

static void normalise_group(const struct normalisation *b, int64_t at, int64_t n)
{
	const float *x = b->x + at, *mean = b->coefficients[MEAN];
	const float *factor = b->coefficients[FACTOR], *shift = b->coefficients[SHIFT];
	float *y = b->y + at, least = b->spec->has_relu ? 0 : -INFINITY;

#pragma omp simd
	for (int64_t j = 0; j < n; j++) {
		float z = normalise(x[j], mean[j], factor[j], shift[j]);

		y[j] = z < least ? least : z;
	}
}

/* From the last block to the first, which is what the moments left in the cache. */
static void normalise_blocks(const void *work, struct lh_cpu_span span)
{
	const struct normalisation *b = work;
	int64_t wide = b->columns.wide;

	for (int64_t i = span.to; i-- > span.from;) {
		struct lh_cpu_block block = lh_cpu_find_block(&b->columns, i);

		for (int64_t at = block.from; at < block.from + block.n; at += wide)
			normalise_group(b, at, left_of(block, at, wide));
	}
}

int lh_cpu_batch_norm_forward(struct lh_device *device, const struct lh_graph_node *node,
			      const struct lh_pass *pass, struct lh_error *err)
{
	struct normalisation b = find(node);
	int64_t n_blocks = b.columns.n_blocks, n = node->out->n;

	(void)err;
	if (pass->is_training) {
		lh_cpu_for(device, n_blocks, 1, 2 * n, find_moments, &b);
		join_moments(&b);
	}
	save_moments(&b, node, pass->is_training);
	find_factors(&b, node);
	lh_cpu_for(device, n_blocks, 1, 2 * n, normalise_blocks, &b);
	return 0;
}

/* ---- backward ------------------------------------------------------------------------------- */

/* Sums of dy, and of dy times x's distance to its mean, where the ReLU let x through. */
static void add_gradients(const struct normalisation *b, int64_t at, int64_t n, float *sums,
			  float *dots)
{
	const float *x = b->x + at, *dy = b->dy + at, *mean = b->coefficients[MEAN];
	const float *factor = b->coefficients[FACTOR], *shift = b->coefficients[SHIFT];
	float least = b->spec->has_relu ? 0 : -INFINITY;

#pragma omp simd
	for (int64_t j = 0; j < n; j++) {
		float z = normalise(x[j], mean[j], factor[j], shift[j]), passed = dy[j];
		float d = z > least ? passed : 0;

		sums[j] += d;
		dots[j] = fmaf(d, x[j] - mean[j], dots[j]);
	}
}

static void sum_gradients(const void *work, struct lh_cpu_span span)
{
	const struct normalisation *b = work;
	int64_t wide = b->columns.wide;

	for (int64_t i = span.from; i < span.to; i++) {
		struct lh_cpu_block block = lh_cpu_find_block(&b->columns, i);
		float *sums = b->partials + 2 * i * wide, *dots = sums + wide;

		memset(sums, 0, 2 * (size_t)wide * sizeof(*sums));
		for (int64_t at = block.from; at < block.from + block.n; at += wide)
			add_gradients(b, at, left_of(block, at, wide), sums, dots);
		lh_cpu_fold(&b->columns, sums);
		lh_cpu_fold(&b->columns, dots);
	}
}

/* The parameters' gradients, and what each element's gradient needs. */
static void join_gradients(const struct normalisation *b, const struct lh_graph_node *node,
			   bool is_training)
{
	int64_t wide = b->columns.wide, c = b->columns.c;
	const float *scale = node->saved[1]->data;
	float *sums = b->partials, *dots = sums + wide, rows = (float)b->spec->rows;
	float *dw = node->parameter[0]->grad, *db = node->parameter[1]->grad;

	for (int64_t i = 1; i < b->columns.n_blocks; i++) {
		add_group(b->partials + 2 * i * wide, sums, c);
		add_group(b->partials + (2 * i + 1) * wide, dots, c);
	}
	for (int64_t j = 0; j < c; j++) {
		float dot = dots[j] * scale[j];

		db[j] += sums[j];
		dw[j] += dot;
		b->coefficients[MEAN_DY][j] = is_training ? sums[j] / rows : 0;
		b->coefficients[SLOPE][j] = is_training ? dot * scale[j] / rows : 0;
	}
	lh_cpu_repeat(&b->columns, b->coefficients[MEAN_DY]);
	lh_cpu_repeat(&b->columns, b->coefficients[SLOPE]);
}

LH_INLINE void put_gradients(const struct normalisation *b, int64_t at, int64_t n, bool adds)
{
	const float *x = b->x + at, *dy = b->dy + at, *mean = b->coefficients[MEAN];
	const float *factor = b->coefficients[FACTOR], *shift = b->coefficients[SHIFT];
	const float *mean_dy = b->coefficients[MEAN_DY], *slope = b->coefficients[SLOPE];
	float *dx = b->dx + at, least = b->spec->has_relu ? 0 : -INFINITY;

#pragma omp simd
	for (int64_t j = 0; j < n; j++) {
		float distance = x[j] - mean[j], passed = dy[j];
		float z = fmaf(distance, factor[j], shift[j]);
		float d = (z > least ? passed : 0) - mean_dy[j];

		d = factor[j] * fmaf(-distance, slope[j], d);
		dx[j] = adds ? dx[j] + d : d;
	}
}

static void spread_gradients(const void *work, struct lh_cpu_span span)
{
	const struct normalisation *b = work;
	int64_t wide = b->columns.wide;

	for (int64_t i = span.to; i-- > span.from;) {
		struct lh_cpu_block block = lh_cpu_find_block(&b->columns, i);

		for (int64_t at = block.from; at < block.from + block.n; at += wide) {
			if (b->adds)
				put_gradients(b, at, left_of(block, at, wide), true);
			else
				put_gradients(b, at, left_of(block, at, wide), false);
		}
	}
}

int lh_cpu_batch_norm_backward(struct lh_device *device, const struct lh_graph_node *node,
			       const struct lh_pass *pass, struct lh_error *err)
{
	struct normalisation b = find(node);
	int64_t n_blocks = b.columns.n_blocks, n = node->out->n;

	(void)err;
	find_factors(&b, node);
	lh_cpu_for(device, n_blocks, 1, 2 * n, sum_gradients, &b);
	join_gradients(&b, node, pass->is_training);
	if (b.dx)
		lh_cpu_for(device, n_blocks, 1, 3 * n, spread_gradients, &b);
	return 0;
}
