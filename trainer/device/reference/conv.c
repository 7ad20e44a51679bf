/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution of the reference device. See reference.h and layers.h. */
#include <string.h>

#include "trainer/device/reference/reference.h"

/* The channels of one pixel under a kernel: where x's and w's begin that meet, per group. */
struct tap {
	int64_t x, w; /* x: -1 outside the image */
};

/* Pixel k of the kernel at y's (n, oh, ow, o). */
static struct tap find_tap(const struct lh_conv2d *s, int64_t n, int64_t oh, int64_t ow, int64_t o,
			   int64_t k)
{
	int64_t per_group = s->c / s->groups;
	int64_t kw = k % s->kernel_w, kh = k / s->kernel_w;
	int64_t h = oh * s->stride_h + kh - s->pad_h, w = ow * s->stride_w + kw - s->pad_w;
	int64_t channel = o / (s->out_channels / s->groups) * per_group;
	struct tap tap = {-1, (o * s->kernel_h * s->kernel_w + k) * per_group};

	if (h >= 0 && h < s->h && w >= 0 && w < s->w)
		tap.x = ((n * s->h + h) * s->w + w) * s->c + channel;
	return tap;
}

int LH_REFERENCE(conv2d_forward)(struct lh_device *device, const struct lh_graph_node *node,
				 const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data;
	const real *b = s->has_bias ? node->parameter[1]->data : NULL;
	int64_t taps = s->kernel_h * s->kernel_w, per_group = s->c / s->groups;
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

			for (int64_t c = 0; tap.x >= 0 && c < per_group; c++)
				sum += (double)x[tap.x + c] * (double)w[tap.w + c];
		}
		y[i] = (real)sum;
	}
	return 0;
}

int LH_REFERENCE(conv2d_backward)(struct lh_device *device, const struct lh_graph_node *node,
				  const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	const real *x = node->in[0]->data, *w = node->parameter[0]->data, *dy = node->out->grad;
	real *dx = node->in[0]->grad, *dw = node->parameter[0]->grad;
	real *db = s->has_bias ? node->parameter[1]->grad : NULL;
	int64_t taps = s->kernel_h * s->kernel_w, per_group = s->c / s->groups;

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

			for (int64_t c = 0; tap.x >= 0 && c < per_group; c++) {
				if (dx)
					put(dx, tap.x + c, (double)dy[i] * (double)w[tap.w + c],
					    true);
				put(dw, tap.w + c, (double)dy[i] * (double)x[tap.x + c], true);
			}
		}
		if (db)
			put(db, o, (double)dy[i], true);
	}
	return 0;
}
