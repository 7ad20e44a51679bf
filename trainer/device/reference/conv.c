/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of the reference device. See reference.h and layers.h. */
#include <string.h>

#include "trainer/device/reference/reference.h"

/* One product of the sum: x's and w's element that meet at y's, or neither outside the image. */
struct tap {
	int64_t x, w; /* x: -1 outside */
};

static struct tap find_tap(const struct lh_conv2d *s, int64_t n, int64_t oh, int64_t ow, int64_t o,
			   int64_t i)
{
	int64_t per_group = s->c / s->groups;
	int64_t c = i % per_group, kw = i / per_group % s->kernel_w,
		kh = i / per_group / s->kernel_w;
	int64_t h = oh * s->stride_h + kh - s->pad_h, w = ow * s->stride_w + kw - s->pad_w;
	int64_t channel = o / (s->out_channels / s->groups) * per_group + c;
	struct tap tap = {-1, o * s->kernel_h * s->kernel_w * per_group + i};

	if (h >= 0 && h < s->h && w >= 0 && w < s->w)
		tap.x = ((n * s->h + h) * s->w + w) * s->c + channel;
	return tap;
}

int LH_REFERENCE(conv2d_forward)(struct lh_device *device, const struct lh_node *node,
				 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data;
	const real *b = s->has_bias ? node->parameter[1]->data : NULL;
	int64_t taps = s->kernel_h * s->kernel_w * (s->c / s->groups);
	real *y = node->out->data;

	(void)device;
	(void)pass;
	(void)err;
	for (int64_t i = 0; i < node->out->n; i++) {
		int64_t o = i % s->out_channels, ow = i / s->out_channels % s->ow;
		int64_t oh = i / s->out_channels / s->ow % s->oh,
			n = i / s->out_channels / s->ow / s->oh;
		double sum = b ? (double)b[o] : 0;

		for (int64_t k = 0; k < taps; k++) {
			struct tap tap = find_tap(s, n, oh, ow, o, k);

			if (tap.x >= 0)
				sum += (double)x[tap.x] * (double)w[tap.w];
		}
		y[i] = (real)sum;
	}
	return 0;
}

int LH_REFERENCE(conv2d_backward)(struct lh_device *device, const struct lh_node *node,
				  const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data, *dy = node->out->grad;
	real *dx = node->in[0]->grad, *dw = node->parameter[0]->grad;
	real *db = s->has_bias ? node->parameter[1]->grad : NULL;
	int64_t taps = s->kernel_h * s->kernel_w * (s->c / s->groups);

	(void)device;
	(void)pass;
	(void)err;
	if (dx && !node->adds[0])
		memset(dx, 0, (size_t)node->in[0]->n * sizeof(*dx));
	for (int64_t i = 0; i < node->out->n; i++) {
		int64_t o = i % s->out_channels, ow = i / s->out_channels % s->ow;
		int64_t oh = i / s->out_channels / s->ow % s->oh,
			n = i / s->out_channels / s->ow / s->oh;

		for (int64_t k = 0; k < taps; k++) {
			struct tap tap = find_tap(s, n, oh, ow, o, k);

			if (tap.x < 0)
				continue;
			if (dx)
				put(dx, tap.x, (double)dy[i] * (double)w[tap.w], true);
			put(dw, tap.w, (double)dy[i] * (double)x[tap.x], true);
		}
		if (db)
			put(db, o, (double)dy[i], true);
	}
	return 0;
}
