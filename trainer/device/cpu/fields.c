/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings of the fields of records on the CPU device. A field's rows of the table are its
 * own: a thread has whole fields for itself in the backward. See cpu.h. */
#include <inttypes.h>
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

struct fields {
	const struct lh_field_embedding *spec;
	const int32_t *index;
	const float *values, *w, *dy;
	float *y, *dw, *dx;
	bool adds;
};

static struct fields find(const struct lh_graph_node *node)
{
	const struct lh_field_embedding *s = node->spec;

	return (struct fields){.spec = s,
			       .index = node->in[0]->data,
			       .values = s->numbers ? node->in[1]->data : NULL,
			       .w = node->parameter[0]->data,
			       .dy = node->out->grad,
			       .y = node->out->data,
			       .dw = node->parameter[0]->grad,
			       .dx = s->numbers ? node->in[1]->grad : NULL,
			       .adds = s->numbers && node->adds[1]};
}

/* The row of the table for item j of sample n, and what it is multiplied with. */
static int64_t find_row(const struct fields *f, int64_t n, int64_t j, float *ret_value)
{
	const struct lh_field_embedding *s = f->spec;
	int64_t m = j - s->fields;

	*ret_value = m < 0 ? 1 : f->values[n * s->numbers + m];
	return m < 0 ? j * s->buckets + f->index[n * s->fields + j] : s->fields * s->buckets + m;
}

static void show_samples(const void *work, struct lh_cpu_span span)
{
	const struct fields *f = work;
	int64_t k = f->spec->k, all = f->spec->fields + f->spec->numbers;
	float value;

	for (int64_t n = span.from; n < span.to; n++) {
		float *y = f->y + n * k * (f->spec->is_summed ? 1 : all);

		for (int64_t j = 0; j < all; j++) {
			const float *w = f->w + find_row(f, n, j, &value) * k;
			bool adds = f->spec->is_summed && j > 0;

#pragma omp simd
			for (int64_t i = 0; i < k; i++)
				y[i] = adds ? fmaf(w[i], value, y[i]) : w[i] * value;
			y += f->spec->is_summed ? 0 : k;
		}
	}
}

int lh_cpu_field_embedding_forward(struct lh_device *device, const struct lh_graph_node *node,
				   const struct lh_pass *pass, struct lh_error *err)
{
	struct fields f = find(node);
	const struct lh_field_embedding *s = f.spec;

	(void)pass;
	for (int64_t i = 0; i < s->n * s->fields; i++)
		if (f.index[i] < 0 || f.index[i] >= s->buckets)
			return lh_fail(err, LH_EINPUT, 0,
				       "index %" PRId32 " in field %" PRId64 " of sample %" PRId64
				       "; expected 0 to %" PRId64,
				       f.index[i], i % s->fields, i / s->fields, s->buckets - 1);
	lh_cpu_for(device, s->n, LH_CPU_LINE_FLOATS, 2 * s->n * (s->fields + s->numbers) * s->k,
		   show_samples, &f);
	return 0;
}

static void give_value(const struct fields *f, int64_t n, int64_t m, float d)
{
	float *dx = f->dx + n * f->spec->numbers + m;

	*dx = f->adds ? *dx + d : d;
}

static void add_fields(const void *work, struct lh_cpu_span span)
{
	const struct fields *f = work;
	int64_t k = f->spec->k, fields = f->spec->fields, all = fields + f->spec->numbers;
	float value;

	for (int64_t j = span.from; j < span.to; j++) {
		for (int64_t n = 0; n < f->spec->n; n++) {
			int64_t row = find_row(f, n, j, &value);
			const float *dy = f->dy + (f->spec->is_summed ? n : n * all + j) * k;
			float *dw = f->dw + row * k;

			if (f->dx && j >= fields)
				give_value(f, n, j - fields, lh_dot(dy, f->w + row * k, k));
#pragma omp simd
			for (int64_t i = 0; i < k; i++)
				dw[i] = fmaf(dy[i], value, dw[i]);
		}
	}
}

int lh_cpu_field_embedding_backward(struct lh_device *device, const struct lh_graph_node *node,
				    const struct lh_pass *pass, struct lh_error *err)
{
	struct fields f = find(node);
	int64_t all = f.spec->fields + f.spec->numbers;

	(void)pass;
	(void)err;
	lh_cpu_for(device, all, 1, 3 * f.spec->n * all * f.spec->k, add_fields, &f);
	return 0;
}
