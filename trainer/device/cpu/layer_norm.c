/* SPDX-License-Identifier: Apache-2.0 */
/* Layer normalisation of the CPU device. See cpu.h. Source: arXiv 1607.06450. */
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

struct normalisation {
	const struct lh_layer_norm *spec;
	const float *x, *w, *shift, *dy;
	float *y, *dx, *mean, *scale;
	struct lh_cpu_columns columns;
	float *partials; /* [blocks, 2, wide] */
	bool adds;
};

static struct normalisation find(const struct lh_graph_node *node)
{
	const struct lh_layer_norm *s = node->spec;

	return (struct normalisation){.spec = s,
				      .x = node->in[0]->data,
				      .w = node->parameter[0]->data,
				      .shift = node->parameter[1]->data,
				      .dy = node->out->grad,
				      .y = node->out->data,
				      .dx = node->in[0]->grad,
				      .mean = node->saved[0]->data,
				      .scale = node->saved[1]->data,
				      .columns = lh_cpu_split_rows(s->rows, s->c),
				      .partials = node->workspace,
				      .adds = node->adds[0]};
}

int lh_cpu_layer_norm_prepare(struct lh_device *device, struct lh_graph_node *node,
			      struct lh_error *err)
{
	const struct lh_layer_norm *s = node->spec;

	(void)device;
	(void)err;
	node->workspace_bytes = 2 * lh_cpu_partials_bytes(s->rows, s->c);
	return 0;
}

/* The sum of squared distances to mean. */
static float sum_squares(const float *x, float mean, int64_t n)
{
	struct lh_lanes s = {{0}, {0}};
	int64_t whole = n / 16 * 16;
	float rest = 0;

	for (int64_t i = 0; i < whole; i += 16) {
		struct lh_lanes a = lh_lanes_load(x + i);

		a.low -= lh_fill(mean);
		a.high -= lh_fill(mean);
		lh_lanes_add_product(&s, a, a);
	}
	for (int64_t i = whole; i < n; i++)
		rest = fmaf(x[i] - mean, x[i] - mean, rest);
	return lh_lanes_sum(s) + rest;
}

static void normalise_row(const struct normalisation *b, int64_t r)
{
	int64_t c = b->spec->c;
	const float *x = b->x + r * c, *w = b->w, *shift = b->shift;
	float *y = b->y + r * c, mean = lh_sum(x, c) / (float)c;
	float var = sum_squares(x, mean, c) / (float)c;
	float scale = (float)(1 / sqrt((double)var + b->spec->eps));

	b->mean[r] = mean;
	b->scale[r] = scale;
#pragma omp simd
	for (int64_t j = 0; j < c; j++)
		y[j] = fmaf((x[j] - mean) * scale, w[j], shift[j]);
}

static void normalise_rows(const void *work, struct lh_cpu_span span)
{
	for (int64_t r = span.from; r < span.to; r++)
		normalise_row(work, r);
}

int lh_cpu_layer_norm_forward(struct lh_device *device, const struct lh_graph_node *node,
			      const struct lh_pass *pass, struct lh_error *err)
{
	struct normalisation b = find(node);

	(void)pass;
	(void)err;
	lh_cpu_for(device, b.spec->rows, 1, 3 * node->out->n, normalise_rows, &b);
	return 0;
}

/* Adds a row's part of the parameters' gradients. */
static void add_parameters(const struct normalisation *b, int64_t r, float *dw, float *db)
{
	int64_t c = b->spec->c;
	const float *x = b->x + r * c, *dy = b->dy + r * c;
	float mean = b->mean[r], scale = b->scale[r];

#pragma omp simd
	for (int64_t j = 0; j < c; j++) {
		db[j] += dy[j];
		dw[j] = fmaf(dy[j], (x[j] - mean) * scale, dw[j]);
	}
}

/* The sums over a row of d = dy w, and of d times the normalised x. */
static void sum_row(const struct normalisation *b, int64_t r, float *ret_sum, float *ret_dot)
{
	int64_t c = b->spec->c, whole = c / 16 * 16;
	const float *x = b->x + r * c, *dy = b->dy + r * c;
	struct lh_lanes sum = {{0}, {0}}, dot = {{0}, {0}};
	float mean = b->mean[r], rest_sum = 0, rest_dot = 0;

	for (int64_t j = 0; j < whole; j += 16) {
		struct lh_lanes d = lh_lanes_load(dy + j), w = lh_lanes_load(b->w + j),
				a = lh_lanes_load(x + j);

		d.low *= w.low;
		d.high *= w.high;
		a.low -= lh_fill(mean);
		a.high -= lh_fill(mean);
		lh_lanes_add(&sum, d);
		lh_lanes_add_product(&dot, d, a);
	}
	for (int64_t j = whole; j < c; j++) {
		float d = dy[j] * b->w[j];

		rest_sum += d;
		rest_dot = fmaf(d, x[j] - mean, rest_dot);
	}
	*ret_sum = lh_lanes_sum(sum) + rest_sum;
	*ret_dot = (lh_lanes_sum(dot) + rest_dot) * b->scale[r];
}

LH_INLINE void put_row(const struct normalisation *b, int64_t r, bool adds)
{
	int64_t c = b->spec->c;
	const float *x = b->x + r * c, *dy = b->dy + r * c, *w = b->w;
	float *dx = b->dx + r * c, mean = b->mean[r], scale = b->scale[r], sum, dot;

	sum_row(b, r, &sum, &dot);
	sum /= (float)c;
	dot = dot * scale / (float)c;
#pragma omp simd
	for (int64_t j = 0; j < c; j++) {
		float d = fmaf(dy[j], w[j], -sum);

		d = scale * fmaf(mean - x[j], dot, d);
		dx[j] = adds ? dx[j] + d : d;
	}
}

static void backward_blocks(const void *work, struct lh_cpu_span span)
{
	const struct normalisation *b = work;
	int64_t wide = b->columns.wide, c = b->columns.c;

	for (int64_t i = span.from; i < span.to; i++) {
		struct lh_cpu_block block = lh_cpu_find_block(&b->columns, i);
		float *dw = b->partials + 2 * i * wide, *db = dw + wide;

		memset(dw, 0, 2 * (size_t)wide * sizeof(*dw));
		for (int64_t r = block.from / c; r < (block.from + block.n) / c; r++) {
			add_parameters(b, r, dw, db);
			if (b->dx && b->adds)
				put_row(b, r, true);
			else if (b->dx)
				put_row(b, r, false);
		}
	}
}

int lh_cpu_layer_norm_backward(struct lh_device *device, const struct lh_graph_node *node,
			       const struct lh_pass *pass, struct lh_error *err)
{
	struct normalisation b = find(node);
	int64_t wide = b.columns.wide, c = b.columns.c;
	float *dw = node->parameter[0]->grad, *db = node->parameter[1]->grad;

	(void)pass;
	(void)err;
	lh_cpu_for(device, b.columns.n_blocks, 1, 4 * node->out->n, backward_blocks, &b);
	for (int64_t i = 0; i < b.columns.n_blocks; i++) {
		const float *partial = b.partials + 2 * i * wide;

		for (int64_t j = 0; j < c; j++) {
			dw[j] += partial[j];
			db[j] += partial[wide + j];
		}
	}
	return 0;
}
