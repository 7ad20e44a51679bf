/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling and shortcuts of the CPU device: loops over channels, innermost. See cpu.h. */
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

enum { CHANNELS = 64 }; /* at a time */

struct pooling {
	const struct lh_pool *spec;
	const float *x, *dy;
	float *y, *dx;
	int64_t n_blocks; /* of channels */
	bool adds;
};

/* The pixels of x, [from, to) in both directions, that a pixel of y looks at. */
struct window {
	int64_t h0, h1, w0, w1;
};

static int64_t clamp(int64_t value, int64_t max)
{
	if (value < 0)
		return 0;
	return value < max ? value : max;
}

static struct window find_window(const struct lh_pool *s, int64_t oh, int64_t ow)
{
	int64_t h = oh * s->stride - s->pad, w = ow * s->stride - s->pad;

	if (s->kernel == 0)
		return (struct window){0, s->h, 0, s->w};
	return (struct window){clamp(h, s->h), clamp(h + s->kernel, s->h), clamp(w, s->w),
			       clamp(w + s->kernel, s->w)};
}

static int64_t area(struct window at)
{
	return (at.h1 - at.h0) * (at.w1 - at.w0);
}

/* Channels c to c + width of one image's pixel. */
static int64_t pixel(const struct lh_pool *s, int64_t n, int64_t h, int64_t w, int64_t c)
{
	return ((n * s->h + h) * s->w + w) * s->c + c;
}

/* The largest of the window and the number of its first pixel of that size. */
LH_INLINE void take_larger(const float *x, float number, float *most, float *which, int64_t width)
{
#pragma omp simd
	for (int64_t j = 0; j < width; j++) {
		bool is_larger = x[j] > most[j];

		most[j] = is_larger ? x[j] : most[j];
		which[j] = is_larger ? number : which[j];
	}
}

static void find_largest(const struct lh_pool *s, const float *x, struct window at, int64_t n,
			 int64_t c, int64_t width, float *most, float *which)
{
	int64_t number = 0;

	memcpy(most, x + pixel(s, n, at.h0, at.w0, c), (size_t)width * sizeof(*most));
	memset(which, 0, (size_t)width * sizeof(*which));
	for (int64_t h = at.h0; h < at.h1; h++)
		for (int64_t w = at.w0; w < at.w1; w++)
			take_larger(x + pixel(s, n, h, w, c), (float)number++, most, which, width);
}

static void find_max(const struct lh_pool *s, const float *x, struct window at, int64_t n,
		     int64_t c, int64_t width, float *most)
{
	memcpy(most, x + pixel(s, n, at.h0, at.w0, c), (size_t)width * sizeof(*most));
	for (int64_t h = at.h0; h < at.h1; h++) {
		for (int64_t w = at.w0; w < at.w1; w++) {
			const float *from = x + pixel(s, n, h, w, c);

#pragma omp simd
			for (int64_t j = 0; j < width; j++)
				most[j] = from[j] > most[j] ? from[j] : most[j];
		}
	}
}

static void find_mean(const struct lh_pool *s, const float *x, struct window at, int64_t n,
		      int64_t c, int64_t width, float *mean)
{
	float share = 1 / (float)area(at);

	memset(mean, 0, (size_t)width * sizeof(*mean));
	for (int64_t h = at.h0; h < at.h1; h++) {
		for (int64_t w = at.w0; w < at.w1; w++) {
			const float *from = x + pixel(s, n, h, w, c);

#pragma omp simd
			for (int64_t j = 0; j < width; j++)
				mean[j] += from[j];
		}
	}
#pragma omp simd
	for (int64_t j = 0; j < width; j++)
		mean[j] *= share;
}

static void pool_pixel(const struct pooling *p, int64_t n, int64_t oh, int64_t ow)
{
	const struct lh_pool *s = p->spec;
	struct window at = find_window(s, oh, ow);
	float *y = p->y + ((n * s->oh + oh) * s->ow + ow) * s->c;

	for (int64_t c = 0; c < s->c; c += CHANNELS) {
		int64_t width = s->c - c < CHANNELS ? s->c - c : CHANNELS;

		if (s->is_max)
			find_max(s, p->x, at, n, c, width, y + c);
		else
			find_mean(s, p->x, at, n, c, width, y + c);
	}
}

static void pool_rows(const void *work, struct lh_cpu_span span)
{
	const struct pooling *p = work;

	for (int64_t i = span.from; i < span.to; i++)
		for (int64_t ow = 0; ow < p->spec->ow; ow++)
			pool_pixel(p, i / p->spec->oh, i % p->spec->oh, ow);
}

int lh_cpu_pool_forward(struct lh_device *device, const struct lh_graph_node *node,
			const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_pool *s = node->spec;
	struct pooling p = {.spec = s, .x = node->in[0]->data, .y = node->out->data};

	(void)pass;
	(void)err;
	lh_cpu_for(device, s->n * s->oh, 1, node->in[0]->n, pool_rows, &p);
	return 0;
}

/* ---- backward: windows may overlap; a thread has an image's block of channels for itself ----- */

static void clear_rows(const struct pooling *p, int64_t n, int64_t from, int64_t to, int64_t c,
		       int64_t width)
{
	const struct lh_pool *s = p->spec;

	for (int64_t h = from; h < to && !p->adds; h++)
		for (int64_t w = 0; w < s->w; w++)
			memset(p->dx + pixel(s, n, h, w, c), 0, (size_t)width * sizeof(*p->dx));
}

static void give_largest(const struct pooling *p, struct window at, int64_t n, int64_t c,
			 int64_t width, const float *dy)
{
	float most[CHANNELS], which[CHANNELS], number = 0;

	find_largest(p->spec, p->x, at, n, c, width, most, which);
	for (int64_t h = at.h0; h < at.h1; h++) {
		for (int64_t w = at.w0; w < at.w1; w++, number++) {
			float *dx = p->dx + pixel(p->spec, n, h, w, c);

#pragma omp simd
			for (int64_t j = 0; j < width; j++) {
				float d = dy[j];

				dx[j] += which[j] == number ? d : 0;
			}
		}
	}
}

static void give_mean(const struct pooling *p, struct window at, int64_t n, int64_t c,
		      int64_t width, const float *dy)
{
	float share = 1 / (float)area(at);

	for (int64_t h = at.h0; h < at.h1; h++) {
		for (int64_t w = at.w0; w < at.w1; w++) {
			float *dx = p->dx + pixel(p->spec, n, h, w, c);

#pragma omp simd
			for (int64_t j = 0; j < width; j++)
				dx[j] = fmaf(dy[j], share, dx[j]);
		}
	}
}

static void spread_image(const struct pooling *p, int64_t n, int64_t c, int64_t width)
{
	const struct lh_pool *s = p->spec;
	int64_t cleared = 0;

	for (int64_t oh = 0; oh < s->oh; oh++) {
		struct window row = find_window(s, oh, 0);

		clear_rows(p, n, cleared, row.h1, c, width);
		cleared = row.h1;
		for (int64_t ow = 0; ow < s->ow; ow++) {
			struct window at = find_window(s, oh, ow);
			const float *dy = p->dy + ((n * s->oh + oh) * s->ow + ow) * s->c + c;

			if (s->is_max)
				give_largest(p, at, n, c, width, dy);
			else
				give_mean(p, at, n, c, width, dy);
		}
	}
	clear_rows(p, n, cleared, s->h, c, width);
}

static void spread_images(const void *work, struct lh_cpu_span span)
{
	const struct pooling *p = work;

	for (int64_t i = span.from; i < span.to; i++) {
		int64_t c = i % p->n_blocks * CHANNELS, left = p->spec->c - c;

		spread_image(p, i / p->n_blocks, c, left < CHANNELS ? left : CHANNELS);
	}
}

int lh_cpu_pool_backward(struct lh_device *device, const struct lh_graph_node *node,
			 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_pool *s = node->spec;
	struct pooling p = {.spec = s,
			    .x = node->in[0]->data,
			    .dy = node->out->grad,
			    .dx = node->in[0]->grad,
			    .n_blocks = (s->c + CHANNELS - 1) / CHANNELS,
			    .adds = node->adds[0]};

	(void)pass;
	(void)err;
	if (p.dx)
		lh_cpu_for(device, s->n * p.n_blocks, 1, 2 * node->in[0]->n, spread_images, &p);
	return 0;
}

/* ---- shortcuts ------------------------------------------------------------------------------ */

struct shortcut {
	const struct lh_shortcut *spec;
	const float *x, *dy;
	float *y, *dx;
	bool adds;
};

static void show_rows(const void *work, struct lh_cpu_span span)
{
	const struct shortcut *p = work;
	const struct lh_shortcut *s = p->spec;
	int64_t before = (s->out_channels - s->c) / 2, behind = s->out_channels - s->c - before;

	for (int64_t i = span.from; i < span.to; i++) {
		int64_t n = i / s->oh, h = i % s->oh * s->stride;

		for (int64_t ow = 0; ow < s->ow; ow++) {
			float *y = p->y + (i * s->ow + ow) * s->out_channels;

			memset(y, 0, (size_t)before * sizeof(*y));
			memcpy(y + before, p->x + ((n * s->h + h) * s->w + ow * s->stride) * s->c,
			       (size_t)s->c * sizeof(*y));
			memset(y + before + s->c, 0, (size_t)behind * sizeof(*y));
		}
	}
}

int lh_cpu_shortcut_forward(struct lh_device *device, const struct lh_graph_node *node,
			    const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_shortcut *s = node->spec;
	struct shortcut p = {.spec = s, .x = node->in[0]->data, .y = node->out->data};

	(void)pass;
	(void)err;
	lh_cpu_for(device, s->n * s->oh, 1, 2 * node->out->n, show_rows, &p);
	return 0;
}

static void give_row(const struct shortcut *p, const float *dy, float *dx)
{
	const struct lh_shortcut *s = p->spec;

	for (int64_t ow = 0; ow < s->ow; ow++) {
		float *to = dx + ow * s->stride * s->c;
		const float *from = dy + ow * s->out_channels;

#pragma omp simd
		for (int64_t j = 0; j < s->c; j++)
			to[j] += from[j];
	}
}

static void give_rows(const void *work, struct lh_cpu_span span)
{
	const struct shortcut *p = work;
	const struct lh_shortcut *s = p->spec;
	int64_t row = s->w * s->c, before = (s->out_channels - s->c) / 2;

	for (int64_t i = span.from; i < span.to; i++) {
		int64_t n = i / s->h, h = i % s->h;
		float *dx = p->dx + i * row;

		if (!p->adds)
			memset(dx, 0, (size_t)row * sizeof(*dx));
		if (h % s->stride == 0)
			give_row(p,
				 p->dy + (n * s->oh + h / s->stride) * s->ow * s->out_channels +
					 before,
				 dx);
	}
}

int lh_cpu_shortcut_backward(struct lh_device *device, const struct lh_graph_node *node,
			     const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_shortcut *s = node->spec;
	struct shortcut p = {
		.spec = s, .dy = node->out->grad, .dx = node->in[0]->grad, .adds = node->adds[0]};

	(void)pass;
	(void)err;
	if (p.dx)
		lh_cpu_for(device, s->n * s->h, 1, 2 * node->in[0]->n, give_rows, &p);
	return 0;
}
