/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings and factorization machines of the CPU device. See cpu.h. */
#include <inttypes.h>
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

struct embedding {
	const struct lh_embedding *spec;
	const int32_t *index;
	const float *w, *dy;
	float *y, *dw;
};

static void show_rows(const void *work, struct lh_cpu_span span)
{
	const struct embedding *e = work;
	int64_t c = e->spec->c;

	for (int64_t i = span.from; i < span.to; i++)
		memcpy(e->y + i * c, e->w + e->index[i] * c, (size_t)c * sizeof(*e->y));
}

int lh_cpu_embedding_forward(struct lh_device *device, const struct lh_graph_node *node,
			     const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_embedding *s = node->spec;
	struct embedding e = {.spec = s,
			      .index = node->in[0]->data,
			      .w = node->parameter[0]->data,
			      .y = node->out->data};

	(void)pass;
	for (int64_t i = 0; i < s->n; i++)
		if (e.index[i] < 0 || e.index[i] >= s->rows)
			return lh_fail(err, LH_EINPUT, 0,
				       "index %" PRId32 " at %" PRId64 "; expected 0 to %" PRId64,
				       e.index[i], i, s->rows - 1);
	lh_cpu_for(device, s->n, 1, 2 * s->n * s->c, show_rows, &e);
	return 0;
}

/* Several indexes may name one row: a thread has its columns of all rows for itself. */
static void add_columns(const void *work, struct lh_cpu_span span)
{
	const struct embedding *e = work;
	int64_t c = e->spec->c;

	for (int64_t i = 0; i < e->spec->n; i++) {
		const float *dy = e->dy + i * c;
		float *dw = e->dw + e->index[i] * c;

#pragma omp simd
		for (int64_t j = span.from; j < span.to; j++)
			dw[j] += dy[j];
	}
}

int lh_cpu_embedding_backward(struct lh_device *device, const struct lh_graph_node *node,
			      const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_embedding *s = node->spec;
	struct embedding e = {.spec = s,
			      .index = node->in[0]->data,
			      .dy = node->out->grad,
			      .dw = node->parameter[0]->grad};

	(void)pass;
	(void)err;
	lh_cpu_for(device, s->c, LH_CPU_LINE_FLOATS, 3 * s->n * s->c, add_columns, &e);
	return 0;
}

/* ---- factorization machines ------------------------------------------------------------------ */

enum { COLUMNS = 16 }; /* of K, at a time */

struct factorization {
	const struct lh_factorization *spec;
	const float *x, *dy;
	float *y, *dx;
	bool adds;
};

/* Sums over the fields, of numbers and of their squares. */
static void sum_fields(const struct factorization *f, int64_t n, int64_t k, int64_t width,
		       float *sums, float *squares)
{
	const struct lh_factorization *s = f->spec;

	memset(sums, 0, COLUMNS * sizeof(*sums));
	memset(squares, 0, COLUMNS * sizeof(*squares));
	for (int64_t i = 0; i < s->fields; i++) {
		const float *x = f->x + (n * s->fields + i) * s->k + k;

#pragma omp simd
		for (int64_t j = 0; j < width; j++) {
			sums[j] += x[j];
			squares[j] = fmaf(x[j], x[j], squares[j]);
		}
	}
}

static void pair_samples(const void *work, struct lh_cpu_span span)
{
	const struct factorization *f = work;
	const struct lh_factorization *s = f->spec;
	float sums[COLUMNS], squares[COLUMNS];

	for (int64_t n = span.from; n < span.to; n++) {
		float total = 0;

		for (int64_t k = 0; k < s->k; k += COLUMNS) {
			int64_t width = s->k - k < COLUMNS ? s->k - k : COLUMNS;

			sum_fields(f, n, k, width, sums, squares);
			for (int64_t j = 0; j < width; j++)
				total += fmaf(sums[j], sums[j], -squares[j]);
		}
		f->y[n] = total / 2;
	}
}

int lh_cpu_factorization_forward(struct lh_device *device, const struct lh_graph_node *node,
				 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_factorization *s = node->spec;
	struct factorization f = {.spec = s, .x = node->in[0]->data, .y = node->out->data};

	(void)pass;
	(void)err;
	lh_cpu_for(device, s->n, LH_CPU_LINE_FLOATS, node->in[0]->n, pair_samples, &f);
	return 0;
}

static void spread_sample(const struct factorization *f, int64_t n, int64_t k, int64_t width)
{
	const struct lh_factorization *s = f->spec;
	float sums[COLUMNS], squares[COLUMNS], dy = f->dy[n];

	sum_fields(f, n, k, width, sums, squares);
	for (int64_t i = 0; i < s->fields; i++) {
		int64_t at = (n * s->fields + i) * s->k + k;

		for (int64_t j = 0; j < width; j++) {
			float d = dy * (sums[j] - f->x[at + j]);

			f->dx[at + j] = f->adds ? f->dx[at + j] + d : d;
		}
	}
}

static void spread_samples(const void *work, struct lh_cpu_span span)
{
	const struct factorization *f = work;
	int64_t all = f->spec->k;

	for (int64_t n = span.from; n < span.to; n++)
		for (int64_t k = 0; k < all; k += COLUMNS)
			spread_sample(f, n, k, all - k < COLUMNS ? all - k : COLUMNS);
}

int lh_cpu_factorization_backward(struct lh_device *device, const struct lh_graph_node *node,
				  const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_factorization *s = node->spec;
	struct factorization f = {.spec = s,
				  .x = node->in[0]->data,
				  .dy = node->out->grad,
				  .dx = node->in[0]->grad,
				  .adds = node->adds[0]};

	(void)pass;
	(void)err;
	if (f.dx)
		lh_cpu_for(device, s->n, 1, 3 * node->in[0]->n, spread_samples, &f);
	return 0;
}
