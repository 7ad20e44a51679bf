/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, scales, dropout and concatenation of the CPU device. See cpu.h. */
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

/* ---- y = f(a + b) --------------------------------------------------------------------------- */

struct addition {
	const float *a, *b;
	float *y;
	const float *dy;
	float *d;	/* one input's gradient */
	int64_t period; /* elements of b, or of that input */
	int64_t repeats;
	bool has_relu, adds;
};

LH_INLINE void add_part(const float *a, const float *b, float *y, int64_t n, float least)
{
#pragma omp simd
	for (int64_t i = 0; i < n; i++) {
		float sum = a[i] + b[i];

		y[i] = sum < least ? least : sum;
	}
}

static void add_span(const void *work, struct lh_cpu_span span)
{
	const struct addition *s = work;
	float least = s->has_relu ? 0 : -INFINITY;

	for (int64_t i = span.from; i < span.to;) {
		int64_t at = i % s->period, n = s->period - at;

		if (n > span.to - i)
			n = span.to - i;
		add_part(s->a + i, s->b + at, s->y + i, n, least);
		i += n;
	}
}

int lh_cpu_add_forward(struct lh_device *device, const struct lh_graph_node *node,
		       const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_add *spec = node->spec;
	struct addition s = {.a = node->in[0]->data,
			     .b = node->in[1]->data,
			     .y = node->out->data,
			     .period = node->in[1]->n,
			     .has_relu = spec->has_relu};

	(void)pass;
	(void)err;
	lh_cpu_for(device, node->out->n, LH_CPU_LINE_FLOATS, 3 * node->out->n, add_span, &s);
	return 0;
}

LH_INLINE void pass_part(const struct addition *s, int64_t at, struct lh_cpu_span span, bool adds)
{
	const float *y = s->y + at, *dy = s->dy + at;
	float *d = s->d;

	if (s->has_relu) {
#pragma omp simd
		for (int64_t i = span.from; i < span.to; i++) {
			float all = dy[i], passed = y[i] > 0 ? all : 0;

			d[i] = adds ? d[i] + passed : passed;
		}
	} else {
#pragma omp simd
		for (int64_t i = span.from; i < span.to; i++)
			d[i] = adds ? d[i] + dy[i] : dy[i];
	}
}

/* Repeats are summed in order, each element by one thread. */
static void pass_span(const void *work, struct lh_cpu_span span)
{
	const struct addition *s = work;

	for (int64_t r = 0; r < s->repeats; r++) {
		if (s->adds || r > 0)
			pass_part(s, r * s->period, span, true);
		else
			pass_part(s, r * s->period, span, false);
	}
}

int lh_cpu_add_backward(struct lh_device *device, const struct lh_graph_node *node,
			const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_add *spec = node->spec;

	(void)pass;
	(void)err;
	for (uint32_t j = 0; j < 2; j++) {
		struct addition s = {.y = node->out->data,
				     .dy = node->out->grad,
				     .d = node->in[j]->grad,
				     .period = node->in[j]->n,
				     .repeats = node->out->n / node->in[j]->n,
				     .has_relu = spec->has_relu,
				     .adds = node->adds[j]};
		bool is_there = !spec->has_relu && !s.adds && s.repeats == 1 && s.d == s.dy;
		/* the first input's part has been through the ReLU already */
		bool is_masked = j == 1 && s.d == s.dy && !s.adds && node->in[0]->grad == s.dy;

		if (s.d && !is_there && !is_masked)
			lh_cpu_for(device, s.period, LH_CPU_LINE_FLOATS, 3 * node->out->n,
				   pass_span, &s);
	}
	return 0;
}

/* ---- y = x gamma ---------------------------------------------------------------------------- */

struct scaling {
	const float *x, *gamma;
	float *y;
	int64_t c;
	bool adds;
};

LH_INLINE void scale_row(const float *x, const float *gamma, float *y, int64_t c, bool adds)
{
#pragma omp simd
	for (int64_t j = 0; j < c; j++)
		y[j] = adds ? fmaf(x[j], gamma[j], y[j]) : x[j] * gamma[j];
}

static void scale_rows(const void *work, struct lh_cpu_span span)
{
	const struct scaling *s = work;

	for (int64_t r = span.from; r < span.to; r++) {
		if (s->adds)
			scale_row(s->x + r * s->c, s->gamma, s->y + r * s->c, s->c, true);
		else
			scale_row(s->x + r * s->c, s->gamma, s->y + r * s->c, s->c, false);
	}
}

int lh_cpu_scale_prepare(struct lh_device *device, struct lh_graph_node *node, struct lh_error *err)
{
	int64_t c = node->parameter[0]->n;

	(void)device;
	(void)err;
	node->workspace_bytes = lh_cpu_partials_bytes(node->in[0]->n / c, c);
	return 0;
}

int lh_cpu_scale_forward(struct lh_device *device, const struct lh_graph_node *node,
			 const struct lh_pass *pass, struct lh_error *err)
{
	int64_t c = node->parameter[0]->n, n = node->out->n;
	struct scaling s = {node->in[0]->data, node->parameter[0]->data, node->out->data, c, false};

	(void)pass;
	(void)err;
	lh_cpu_for(device, n / c, 1, 2 * n, scale_rows, &s);
	return 0;
}

int lh_cpu_scale_backward(struct lh_device *device, const struct lh_graph_node *node,
			  const struct lh_pass *pass, struct lh_error *err)
{
	int64_t c = node->parameter[0]->n, n = node->out->n;
	struct scaling s = {node->out->grad, node->parameter[0]->data, node->in[0]->grad, c,
			    node->adds[0]};

	(void)pass;
	(void)err;
	lh_cpu_add_columns(device, n / c, c, node->out->grad, node->in[0]->data, node->workspace,
			   node->parameter[0]->grad);
	if (s.y)
		lh_cpu_for(device, n / c, 1, 2 * n, scale_rows, &s);
	return 0;
}

/* ---- dropout -------------------------------------------------------------------------------- */

struct dropping {
	uint64_t key;
	uint32_t threshold;
	float factor;	  /* of what is kept */
	int64_t per_draw; /* elements that share a draw */
	const float *x;
	float *y;
	bool is_training, adds;
};

LH_INLINE void drop_elements(const struct dropping *d, struct lh_cpu_span span, bool adds)
{
	const float *x = d->x;
	uint64_t key = d->key;
	uint32_t threshold = d->threshold;
	float *y = d->y, factor = d->factor;

#pragma omp simd
	for (int64_t i = span.from; i < span.to; i++) {
		float v = x[i] * (lh_dropout_keeps(key, (uint64_t)i, threshold) ? factor : 0);

		y[i] = adds ? y[i] + v : v;
	}
}

LH_INLINE void drop_samples(const struct dropping *d, struct lh_cpu_span span, bool adds)
{
	const float *x = d->x;
	float *y = d->y;

	for (int64_t i = span.from; i < span.to;) {
		int64_t sample = i / d->per_draw, end = (sample + 1) * d->per_draw;
		bool is_kept =
			!d->is_training || lh_dropout_keeps(d->key, (uint64_t)sample, d->threshold);
		float factor = is_kept ? d->factor : 0;

		if (end > span.to)
			end = span.to;
#pragma omp simd
		for (int64_t j = i; j < end; j++)
			y[j] = adds ? fmaf(x[j], factor, y[j]) : x[j] * factor;
		i = end;
	}
}

static void drop_span(const void *work, struct lh_cpu_span span)
{
	const struct dropping *d = work;
	bool is_by_element = d->is_training && d->per_draw == 1;

	if (is_by_element && d->adds)
		drop_elements(d, span, true);
	else if (is_by_element)
		drop_elements(d, span, false);
	else if (d->adds)
		drop_samples(d, span, true);
	else
		drop_samples(d, span, false);
}

static void drop(struct lh_device *device, const struct lh_graph_node *node,
		 const struct lh_pass *pass, struct dropping d)
{
	const struct lh_dropout *s = node->spec;

	d.key = lh_dropout_key(pass, node->position);
	d.threshold = lh_dropout_threshold(s->p);
	d.is_training = pass->is_training;
	d.factor = pass->is_training ? (float)(1 / (1 - s->p)) : 1;
	d.per_draw = s->per_sample ? node->out->n / s->n : 1;
	if (!pass->is_training)
		d.per_draw = node->out->n;
	if (d.y && (pass->is_training || d.adds || d.x != d.y))
		lh_cpu_for(device, node->out->n, LH_CPU_LINE_FLOATS, 4 * node->out->n, drop_span,
			   &d);
}

int lh_cpu_dropout_forward(struct lh_device *device, const struct lh_graph_node *node,
			   const struct lh_pass *pass, struct lh_error *err)
{
	(void)err;
	drop(device, node, pass, (struct dropping){.x = node->in[0]->data, .y = node->out->data});
	return 0;
}

int lh_cpu_dropout_backward(struct lh_device *device, const struct lh_graph_node *node,
			    const struct lh_pass *pass, struct lh_error *err)
{
	(void)err;
	drop(device, node, pass,
	     (struct dropping){
		     .x = node->out->grad, .y = node->in[0]->grad, .adds = node->adds[0]});
	return 0;
}

/* ---- concatenation -------------------------------------------------------------------------- */

/* One input's columns within the rows of all. */
struct part {
	const float *from;
	float *to;
	int64_t from_row, to_row, width;
	bool adds;
};

static void copy_rows(const void *work, struct lh_cpu_span span)
{
	const struct part *p = work;

	for (int64_t r = span.from; r < span.to; r++) {
		const float *from = p->from + r * p->from_row;
		float *to = p->to + r * p->to_row;

		if (!p->adds) {
			memcpy(to, from, (size_t)p->width * sizeof(*to));
			continue;
		}
#pragma omp simd
		for (int64_t j = 0; j < p->width; j++)
			to[j] += from[j];
	}
}

int lh_cpu_concat_forward(struct lh_device *device, const struct lh_graph_node *node,
			  const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_concat *s = node->spec;
	float *y = node->out->data;

	(void)pass;
	(void)err;
	for (uint32_t j = 0; j < node->n_in; j++) {
		int64_t width = node->in[j]->n / s->rows;
		struct part p = {node->in[j]->data, y, width, node->out->n / s->rows, width, false};

		lh_cpu_for(device, s->rows, 1, 2 * node->in[j]->n, copy_rows, &p);
		y += width;
	}
	return 0;
}

int lh_cpu_concat_backward(struct lh_device *device, const struct lh_graph_node *node,
			   const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_concat *s = node->spec;
	const float *dy = node->out->grad;

	(void)pass;
	(void)err;
	for (uint32_t j = 0; j < node->n_in; j++) {
		int64_t width = node->in[j]->n / s->rows;
		struct part p = {dy,	node->in[j]->grad, node->out->n / s->rows, width,
				 width, node->adds[j]};

		if (p.to)
			lh_cpu_for(device, s->rows, 1, 2 * node->in[j]->n, copy_rows, &p);
		dy += width;
	}
	return 0;
}
