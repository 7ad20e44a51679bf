/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling and the shortcut without parameters of the reference device. See reference.h and
 * layers.h. */
#include <string.h>

#include "trainer/device/reference/reference.h"

/* The pixels of x, [from, to) in both directions, that y's pixel (oh, ow) looks at. */
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

static int64_t pixel(const struct lh_pool *s, int64_t n, int64_t h, int64_t w, int64_t c)
{
	return ((n * s->h + h) * s->w + w) * s->c + c;
}

/* Where the window's first largest element lies. */
static int64_t find_largest(const struct lh_pool *s, const real *x, struct window at, int64_t n,
			    int64_t c)
{
	int64_t best = pixel(s, n, at.h0, at.w0, c);

	for (int64_t h = at.h0; h < at.h1; h++)
		for (int64_t w = at.w0; w < at.w1; w++)
			if (x[pixel(s, n, h, w, c)] > x[best])
				best = pixel(s, n, h, w, c);
	return best;
}

static double find_mean(const struct lh_pool *s, const real *x, struct window at, int64_t n,
			int64_t c)
{
	double sum = 0;

	for (int64_t h = at.h0; h < at.h1; h++)
		for (int64_t w = at.w0; w < at.w1; w++)
			sum += (double)x[pixel(s, n, h, w, c)];
	return sum / (double)((at.h1 - at.h0) * (at.w1 - at.w0));
}

int LH_REFERENCE(pool_forward)(struct lh_device *device, const struct lh_graph_node *node,
			       const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_pool *s = node->spec;
	const real *x = node->in[0]->data;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; i < node->out->n; i++) {
		int64_t c = i % s->c, ow = i / s->c % s->ow, oh = i / s->c / s->ow % s->oh;
		int64_t n = i / s->c / s->ow / s->oh;
		struct window at = find_window(s, oh, ow);

		y[i] = s->is_max ? x[find_largest(s, x, at, n, c)]
				 : (real)find_mean(s, x, at, n, c);
	}
	return 0;
}

static void spread_mean(const struct lh_pool *s, real *dx, struct window at, int64_t n, int64_t c,
			double dy)
{
	double share = dy / (double)((at.h1 - at.h0) * (at.w1 - at.w0));

	for (int64_t h = at.h0; h < at.h1; h++)
		for (int64_t w = at.w0; w < at.w1; w++)
			put(dx, pixel(s, n, h, w, c), share, true);
}

int LH_REFERENCE(pool_backward)(struct lh_device *device, const struct lh_graph_node *node,
				const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_pool *s = node->spec;
	const real *x = node->in[0]->data, *dy = node->out->grad;
	real *dx = node->in[0]->grad;

	(void)device;
	(void)pass;
	(void)err;
	if (dx && !node->adds[0])
		memset(dx, 0, (size_t)node->in[0]->n * sizeof(*dx));
	for (int64_t i = 0; dx && i < node->out->n; i++) {
		int64_t c = i % s->c, ow = i / s->c % s->ow, oh = i / s->c / s->ow % s->oh;
		int64_t n = i / s->c / s->ow / s->oh;
		struct window at = find_window(s, oh, ow);

		if (s->is_max)
			put(dx, find_largest(s, x, at, n, c), (double)dy[i], true);
		else
			spread_mean(s, dx, at, n, c, (double)dy[i]);
	}
	return 0;
}

/* x's element that y's element i shows, or -1 in the added channels. */
static int64_t shown(const struct lh_shortcut *s, int64_t i)
{
	int64_t before = (s->out_channels - s->c) / 2;
	int64_t c = i % s->out_channels - before, ow = i / s->out_channels % s->ow;
	int64_t oh = i / s->out_channels / s->ow % s->oh, n = i / s->out_channels / s->ow / s->oh;

	if (c < 0 || c >= s->c)
		return -1;
	return ((n * s->h + oh * s->stride) * s->w + ow * s->stride) * s->c + c;
}

int LH_REFERENCE(shortcut_forward)(struct lh_device *device, const struct lh_graph_node *node,
				   const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_shortcut *s = node->spec;
	const real *x = node->in[0]->data;
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; i < node->out->n; i++)
		y[i] = shown(s, i) < 0 ? 0 : x[shown(s, i)];
	return 0;
}

int LH_REFERENCE(shortcut_backward)(struct lh_device *device, const struct lh_graph_node *node,
				    const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_shortcut *s = node->spec;
	const real *dy = node->out->grad;
	real *dx = node->in[0]->grad;

	(void)device;
	(void)pass;
	(void)err;
	if (dx && !node->adds[0])
		memset(dx, 0, (size_t)node->in[0]->n * sizeof(*dx));
	for (int64_t i = 0; dx && i < node->out->n; i++)
		if (shown(s, i) >= 0)
			put(dx, shown(s, i), (double)dy[i], true);
	return 0;
}
