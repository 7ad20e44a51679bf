/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of the CPU device: own products (product.c), one head of one sequence per thread at a
 * time, blocks of its queries against all keys. What a thread keeps is of the size of one
 * head's keys and of a block's scores, whatever the batch. The backward makes the softmax's output
 * again from the saved logarithms of its denominators. See cpu.h.
 *
 * Source: arXiv 1706.03762; the gradients' order as in arXiv 2205.14135, algorithm 4.
 */
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

enum { QUERIES = 48 }; /* of a block: a multiple of the product's six rows */

/* One thread's memory: panels of keys and values, a block's scores, and for the backward panels
 * of a block and the gradients of keys and values. Sizes in floats. */
struct memory {
	float *keys_across, *values_across; /* [D, S], in panels */
	float *keys, *values;		    /* [S, D], in panels */
	float *queries, *gradients;	    /* a block's, [QUERIES, D], in panels */
	float *scores, *dscores;	    /* [QUERIES, scores_row] */
	float *dk, *dv;			    /* [S, D] */
};

struct attention {
	const struct lh_graph_node *node;
	const struct lh_attention *spec;
	int64_t width;	    /* D */
	int64_t scores_row; /* S, up to whole panels */
	float scale;
	float *memory;		/* of all threads */
	const int32_t *lengths; /* may be NULL */
	bool has_dropout;
	uint64_t key; /* of dropout */
	uint32_t threshold;
	float kept; /* what dropout makes of 1 */
};

/* Where the vectors of one head lie: rows are `row` elements apart. */
struct head {
	int64_t n, head, length;
	struct lh_cpu_matrix q, k, v, y, dy;
	float *dq, *dk, *dv; /* may be NULL */
	int64_t row;
};

/* ---- memory --------------------------------------------------------------------------------- */

static int64_t lines(int64_t floats)
{
	return (floats + LH_CPU_LINE_FLOATS - 1) / LH_CPU_LINE_FLOATS * LH_CPU_LINE_FLOATS;
}

static float *take(float **at, int64_t floats)
{
	float *taken = *at;

	*at += lines(floats);
	return taken;
}

static int64_t count_floats(const struct attention *a)
{
	int64_t d = a->width, s = a->spec->s;

	return 2 * (lh_cpu_panels_floats(d, s) + lh_cpu_panels_floats(s, d) +
		    lh_cpu_panels_floats(QUERIES, d) + QUERIES * a->scores_row + lines(s * d));
}

static struct memory lay_out(const struct attention *a, uint32_t thread)
{
	int64_t d = a->width, s = a->spec->s, across = lh_cpu_panels_floats(d, s);
	int64_t along = lh_cpu_panels_floats(s, d), block = lh_cpu_panels_floats(QUERIES, d);
	float *at = a->memory + thread * count_floats(a);
	struct memory m;

	m.keys_across = take(&at, across);
	m.values_across = take(&at, across);
	m.keys = take(&at, along);
	m.values = take(&at, along);
	m.queries = take(&at, block);
	m.gradients = take(&at, block);
	m.scores = take(&at, QUERIES * a->scores_row);
	m.dscores = take(&at, QUERIES * a->scores_row);
	m.dk = take(&at, s * d);
	m.dv = take(&at, s * d);
	return m;
}

static struct attention find(const struct lh_graph_node *node)
{
	const struct lh_attention *s = node->spec;
	struct attention a = {.node = node, .spec = s, .width = s->c / s->heads};

	a.scores_row = (s->s + 15) / 16 * 16;
	a.scale = (float)(1 / sqrt((double)a.width));
	a.memory = node->workspace;
	a.lengths = s->has_lengths ? node->in[node->n_in - 1]->data : NULL;
	return a;
}

static struct attention find_in_pass(const struct lh_graph_node *node, const struct lh_pass *pass)
{
	struct attention a = find(node);

	a.has_dropout = pass->is_training && a.spec->dropout > 0;
	a.key = lh_dropout_key(pass, node->position);
	a.threshold = lh_dropout_threshold(a.spec->dropout);
	a.kept = (float)(1 / (1 - a.spec->dropout));
	return a;
}

int lh_cpu_attention_prepare(struct lh_device *device, struct lh_graph_node *node,
			     struct lh_error *err)
{
	struct attention a = find(node);

	(void)err;
	node->workspace_bytes = (size_t)count_floats(&a) * device->n_threads * sizeof(float);
	return 0;
}

static float *at(void *base, int64_t i)
{
	return base ? (float *)base + i : NULL;
}

static struct head find_head(const struct attention *a, int64_t i)
{
	const struct lh_attention *s = a->spec;
	const struct lh_graph_node *node = a->node;
	int64_t n = i / s->heads, head = i % s->heads, wide = s->is_packed ? 3 * s->c : s->c;
	int64_t q = n * s->t * wide + head * a->width, k = n * s->s * wide + head * a->width;
	int64_t second = k + (s->is_packed ? s->c : 0), third = k + (s->is_packed ? 2 * s->c : 0);
	int64_t y = n * s->t * s->c + head * a->width, length = a->lengths ? a->lengths[n] : s->s;
	const struct lh_tensor *keys = node->in[s->is_packed ? 0 : 1];
	const struct lh_tensor *values = node->in[s->is_packed ? 0 : 2];

	return (struct head){.n = n,
			     .head = head,
			     .length = length < 0 ? 0 : (length < s->s ? length : s->s),
			     .q = {at(node->in[0]->data, q), wide, 1},
			     .k = {at(keys->data, second), wide, 1},
			     .v = {at(values->data, third), wide, 1},
			     .y = {at(node->out->data, y), s->c, 1},
			     .dy = {at(node->out->grad, y), s->c, 1},
			     .dq = at(node->in[0]->grad, q),
			     .dk = at(keys->grad, second),
			     .dv = at(values->grad, third),
			     .row = wide};
}

static struct lh_cpu_matrix from_row(struct lh_cpu_matrix m, int64_t row)
{
	return (struct lh_cpu_matrix){m.data + row * m.row, m.row, m.column};
}

static struct lh_cpu_matrix transposed(struct lh_cpu_matrix m)
{
	return (struct lh_cpu_matrix){m.data, m.column, m.row};
}

/* ---- a block of queries ---------------------------------------------------------------------- */

/* Queries from to from + n; the last of them sees `keys` keys, none sees more. */
struct block {
	int64_t from, n, keys;
};

static int64_t n_seen(const struct attention *a, const struct head *h, int64_t t)
{
	return a->spec->is_causal && t + 1 < h->length ? t + 1 : h->length;
}

static struct block find_block(const struct attention *a, const struct head *h, int64_t from)
{
	int64_t left = a->spec->t - from, n = left < QUERIES ? left : QUERIES;

	return (struct block){from, n, n_seen(a, h, from + n - 1)};
}

/* The number of a row of softmax among all. */
static int64_t row_number(const struct attention *a, const struct head *h, int64_t t)
{
	return (h->n * a->spec->heads + h->head) * a->spec->t + t;
}

static void score(const struct attention *a, const struct head *h, const struct memory *m,
		  struct block b)
{
	struct lh_cpu_product p = {b.n, b.keys, a->width, a->width, a->scale, false};

	lh_cpu_multiply(&p, from_row(h->q, b.from), m->keys_across, m->scores, a->scores_row);
}

/* ---- forward -------------------------------------------------------------------------------- */

/* Exponentials in place; returns their sum. */
static float exponentials(float *x, float max, int64_t n)
{
#pragma omp simd
	for (int64_t i = 0; i < n; i++)
		x[i] = lh_expf(x[i] - max);
	return lh_sum(x, n);
}

static void drop(const struct attention *a, float *x, int64_t row, int64_t n)
{
	uint64_t key = a->key, first = (uint64_t)(row * a->spec->s);
	uint32_t threshold = a->threshold;

#pragma omp simd
	for (int64_t i = 0; i < n; i++) {
		float v = x[i];

		x[i] = lh_dropout_keeps(key, first + (uint64_t)i, threshold) ? v : 0;
	}
}

static void soften(const struct attention *a, const struct head *h, float *x, int64_t t,
		   int64_t keys)
{
	int64_t seen = n_seen(a, h, t), row = row_number(a, h, t);
	float max = seen ? lh_max(x, seen) : -INFINITY, sum = exponentials(x, max, seen);
	float factor = (a->has_dropout ? a->kept : 1) / sum;

	((float *)a->node->saved[0]->data)[row] = (float)((double)max + log((double)sum));
#pragma omp simd
	for (int64_t i = 0; i < seen; i++)
		x[i] *= factor;
	if (a->has_dropout)
		drop(a, x, row, seen);
	memset(x + seen, 0, (size_t)(keys - seen) * sizeof(*x));
}

static void attend(const struct attention *a, const struct head *h, const struct memory *m)
{
	const struct lh_attention *s = a->spec;
	float *y = (float *)a->node->out->data + h->n * s->t * s->c + h->head * a->width;

	lh_cpu_pack(transposed(h->k), a->width, s->s, m->keys_across);
	lh_cpu_pack(h->v, s->s, a->width, m->values);
	for (int64_t from = 0; from < s->t; from += QUERIES) {
		struct block b = find_block(a, h, from);
		struct lh_cpu_product p = {b.n, a->width, b.keys, s->s, 1, false};

		score(a, h, m, b);
		for (int64_t i = 0; i < b.n; i++)
			soften(a, h, m->scores + i * a->scores_row, from + i, b.keys);
		lh_cpu_multiply(&p, (struct lh_cpu_matrix){m->scores, a->scores_row, 1}, m->values,
				y + from * s->c, s->c);
	}
}

static void attend_heads(const void *work, struct lh_cpu_span span)
{
	const struct attention *a = work;
	struct memory m = lay_out(a, span.thread);

	for (int64_t i = span.from; i < span.to; i++) {
		struct head h = find_head(a, i);

		attend(a, &h, &m);
	}
}

int lh_cpu_attention_forward(struct lh_device *device, const struct lh_graph_node *node,
			     const struct lh_pass *pass, struct lh_error *err)
{
	struct attention a = find_in_pass(node, pass);
	const struct lh_attention *s = a.spec;

	(void)err;
	lh_cpu_for(device, s->n * s->heads, 1, s->n * s->t * s->s * s->c / 8, attend_heads, &a);
	return 0;
}

/* ---- backward ------------------------------------------------------------------------------- */

/* Scores become the softmax's output after dropout, their gradients of it those of the scores. */
LH_INLINE void differentiate(const struct attention *a, float *x, float *dx, int64_t row,
			     float mean, int64_t n, bool has_dropout)
{
	uint64_t key = a->key, first = (uint64_t)(row * a->spec->s);
	uint32_t threshold = a->threshold;
	float log_sum = ((const float *)a->node->saved[0]->data)[row], kept = a->kept;
	float scale = a->scale;

#pragma omp simd
	for (int64_t i = 0; i < n; i++) {
		float weight = lh_expf(x[i] - log_sum), mask = 1;

		if (has_dropout)
			mask = lh_dropout_keeps(key, first + (uint64_t)i, threshold) ? kept : 0;
		x[i] = weight * mask;
		dx[i] = weight * fmaf(mask, dx[i], -mean) * scale;
	}
}

static void differentiate_row(const struct attention *a, const struct head *h,
			      const struct memory *m, struct block b, int64_t i)
{
	int64_t t = b.from + i, seen = n_seen(a, h, t), row = row_number(a, h, t);
	float *x = m->scores + i * a->scores_row, *dx = m->dscores + i * a->scores_row;
	float mean = lh_dot(h->y.data + t * h->y.row, h->dy.data + t * h->dy.row, a->width);

	if (a->has_dropout)
		differentiate(a, x, dx, row, mean, seen, true);
	else
		differentiate(a, x, dx, row, mean, seen, false);
	memset(x + seen, 0, (size_t)(b.keys - seen) * sizeof(*x));
	memset(dx + seen, 0, (size_t)(b.keys - seen) * sizeof(*dx));
}

static void add_block(const struct attention *a, const struct head *h, const struct memory *m,
		      struct block b, bool adds_dq)
{
	int64_t d = a->width;
	struct lh_cpu_matrix x = {m->scores, a->scores_row, 1}, dx = {m->dscores, a->scores_row, 1};
	struct lh_cpu_product across = {b.n, b.keys, d, d, 1, false};
	struct lh_cpu_product to_queries = {b.n, d, b.keys, a->spec->s, 1, adds_dq};
	struct lh_cpu_product to_keys = {b.keys, d, b.n, b.n, 1, true};

	score(a, h, m, b);
	lh_cpu_multiply(&across, from_row(h->dy, b.from), m->values_across, m->dscores,
			a->scores_row);
	for (int64_t i = 0; i < b.n; i++)
		differentiate_row(a, h, m, b, i);
	lh_cpu_pack(from_row(h->q, b.from), b.n, d, m->queries);
	lh_cpu_pack(from_row(h->dy, b.from), b.n, d, m->gradients);
	if (h->dq)
		lh_cpu_multiply(&to_queries, dx, m->keys, h->dq + b.from * h->row, h->row);
	lh_cpu_multiply(&to_keys, transposed(dx), m->queries, m->dk, d);
	lh_cpu_multiply(&to_keys, transposed(x), m->gradients, m->dv, d);
}

static void put_rows(const float *from, int64_t width, int64_t rows, float *to, int64_t to_row,
		     bool adds)
{
	for (int64_t r = 0; to && r < rows; r++)
		for (int64_t j = 0; j < width; j++)
			to[r * to_row + j] = adds ? to[r * to_row + j] + from[r * width + j]
						  : from[r * width + j];
}

static void attend_backward(const struct attention *a, const struct head *h, const struct memory *m)
{
	const struct lh_attention *s = a->spec;
	const bool *adds = a->node->adds;
	size_t bytes = (size_t)(s->s * a->width) * sizeof(float);

	lh_cpu_pack(transposed(h->k), a->width, s->s, m->keys_across);
	lh_cpu_pack(transposed(h->v), a->width, s->s, m->values_across);
	lh_cpu_pack(h->k, s->s, a->width, m->keys);
	memset(m->dk, 0, bytes);
	memset(m->dv, 0, bytes);
	for (int64_t from = 0; from < s->t; from += QUERIES)
		add_block(a, h, m, find_block(a, h, from), adds[0]);
	put_rows(m->dk, a->width, s->s, h->dk, h->row, adds[s->is_packed ? 0 : 1]);
	put_rows(m->dv, a->width, s->s, h->dv, h->row, adds[s->is_packed ? 0 : 2]);
}

static void attend_heads_backward(const void *work, struct lh_cpu_span span)
{
	const struct attention *a = work;
	struct memory m = lay_out(a, span.thread);

	for (int64_t i = span.from; i < span.to; i++) {
		struct head h = find_head(a, i);

		attend_backward(a, &h, &m);
	}
}

int lh_cpu_attention_backward(struct lh_device *device, const struct lh_graph_node *node,
			      const struct lh_pass *pass, struct lh_error *err)
{
	struct attention a = find_in_pass(node, pass);
	const struct lh_attention *s = a.spec;

	(void)err;
	lh_cpu_for(device, s->n * s->heads, 1, s->n * s->t * s->s * s->c / 4, attend_heads_backward,
		   &a);
	return 0;
}
