/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a depthwise convolution's weights: 16 channels at a time, the sums of one row
 * of the kernel in registers. (oneDNN 2.6 reaches a quarter of this loop's speed.) Sums of images
 * are added in the order of the images. See cpu.h.
 */
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

enum { CHANNELS = 16, IN_REGISTERS = 7 };

struct depthwise {
	const struct lh_conv2d *spec;
	const float *x, *dy;
	float *partials; /* [n, blocks of channels, kernel_h, kernel_w, 16] */
	int64_t n_blocks;
};

static int64_t partial_floats(const struct lh_conv2d *s)
{
	return (s->c + CHANNELS - 1) / CHANNELS * CHANNELS * s->kernel_h * s->kernel_w;
}

size_t lh_cpu_depthwise_bytes(const struct lh_conv2d *s)
{
	return (size_t)(s->n * partial_floats(s)) * sizeof(float);
}

/* The outputs whose input, at this place of the kernel, lies inside: [from, to). */
static int64_t first_inside(int64_t k, int64_t stride, int64_t pad)
{
	return k >= pad ? 0 : (pad - k + stride - 1) / stride;
}

static int64_t end_inside(int64_t k, int64_t in, int64_t out, int64_t stride, int64_t pad)
{
	int64_t end = in + pad - k <= 0 ? 0 : (in + pad - k - 1) / stride + 1;

	return end < out ? end : out;
}

/* One row of x against one of dy, pixels c apart, for up to 7 columns of the kernel from kw on. */
struct row {
	const float *x, *dy;
	int64_t c, stride, shift; /* output 0 and the kernel's first column meet at pixel shift */
};

LH_INLINE void add_pixels(const struct row *r, int columns, int64_t from, int64_t to, float *sums)
{
	struct lh_lanes s[IN_REGISTERS];

#pragma GCC unroll 7
	for (int k = 0; k < columns; k++)
		s[k] = lh_lanes_load(sums + k * CHANNELS);
	for (int64_t ow = from; ow < to; ow++) {
		const float *x = r->x + (ow * r->stride + r->shift) * r->c;
		struct lh_lanes d = lh_lanes_load(r->dy + ow * r->c);

#pragma GCC unroll 7
		for (int k = 0; k < columns; k++)
			lh_lanes_add_product(&s[k], lh_lanes_load(x + k * r->c), d);
	}
#pragma GCC unroll 7
	for (int k = 0; k < columns; k++) {
		lh_store(sums + k * CHANNELS, s[k].low);
		lh_store(sums + k * CHANNELS + 8, s[k].high);
	}
}

/* Channels that do not fill 16. */
static void add_rest(const struct row *r, int64_t width, int64_t from, int64_t to, float *sums)
{
	for (int64_t ow = from; ow < to; ow++)
		for (int64_t c = 0; c < width; c++)
			sums[c] = fmaf(r->x[(ow * r->stride + r->shift) * r->c + c],
				       r->dy[ow * r->c + c], sums[c]);
}

static void add_column(const struct lh_conv2d *s, const struct row *r, int64_t width, int64_t kw,
		       float *sums)
{
	int64_t from = first_inside(kw, s->stride_w, s->pad_w);
	int64_t to = end_inside(kw, s->w, s->ow, s->stride_w, s->pad_w);
	struct row shifted = *r;

	shifted.shift += kw;
	if (width == CHANNELS)
		add_pixels(&shifted, 1, from, to, sums + kw * CHANNELS);
	else
		add_rest(&shifted, width, from, to, sums + kw * CHANNELS);
}

/* Outputs where all columns lie inside go through registers together, the others one by one:
 * the order of a sum depends on the shape alone. */
static void add_row(const struct lh_conv2d *s, const struct row *r, int64_t width, float *sums)
{
	int64_t from = first_inside(0, s->stride_w, s->pad_w);
	int64_t to = end_inside(s->kernel_w - 1, s->w, s->ow, s->stride_w, s->pad_w);

	if (width < CHANNELS || (s->kernel_w != 7 && s->kernel_w != 3) || from >= to) {
		for (int64_t kw = 0; kw < s->kernel_w; kw++)
			add_column(s, r, width, kw, sums);
		return;
	}
	if (s->kernel_w == 7)
		add_pixels(r, 7, from, to, sums);
	else
		add_pixels(r, 3, from, to, sums);
	for (int64_t kw = 0; kw < s->kernel_w; kw++) {
		int64_t first = first_inside(kw, s->stride_w, s->pad_w);
		int64_t end = end_inside(kw, s->w, s->ow, s->stride_w, s->pad_w);
		struct row shifted = *r;

		shifted.shift += kw;
		add_pixels(&shifted, 1, first, from, sums + kw * CHANNELS);
		add_pixels(&shifted, 1, to, end, sums + kw * CHANNELS);
	}
}

static void sum_images(const void *work, struct lh_cpu_span span)
{
	const struct depthwise *d = work;
	const struct lh_conv2d *s = d->spec;
	int64_t floats = s->kernel_h * s->kernel_w * CHANNELS;

	for (int64_t i = span.from; i < span.to; i++) {
		int64_t n = i / d->n_blocks, c = i % d->n_blocks * CHANNELS;
		int64_t width = s->c - c < CHANNELS ? s->c - c : CHANNELS;
		float *sums = d->partials + i * floats;

		memset(sums, 0, (size_t)floats * sizeof(*sums));
		for (int64_t oh = 0; oh < s->oh; oh++) {
			for (int64_t kh = 0; kh < s->kernel_h; kh++) {
				int64_t h = oh * s->stride_h + kh - s->pad_h;
				struct row r;

				if (h < 0 || h >= s->h)
					continue;
				r = (struct row){d->x + (n * s->h + h) * s->w * s->c + c,
						 d->dy + (n * s->oh + oh) * s->ow * s->c + c, s->c,
						 s->stride_w, -s->pad_w};
				add_row(s, &r, width, sums + kh * s->kernel_w * CHANNELS);
			}
		}
	}
}

void lh_cpu_add_depthwise(const struct lh_device *device, const struct lh_conv2d *s, const float *x,
			  const float *dy, float *partials, float *dw)
{
	int64_t taps = s->kernel_h * s->kernel_w, floats = partial_floats(s);
	struct depthwise d = {s, x, dy, partials, (s->c + CHANNELS - 1) / CHANNELS};

	lh_cpu_for(device, s->n * d.n_blocks, 1, s->n * s->oh * s->ow * s->c * taps / 4, sum_images,
		   &d);
	for (int64_t n = 1; n < s->n; n++)
		for (int64_t i = 0; i < floats; i++)
			partials[i] += partials[n * floats + i];
	for (int64_t c = 0; c < s->c; c++)
		for (int64_t k = 0; k < taps; k++)
			dw[c * taps + k] +=
				partials[(c / CHANNELS * taps + k) * CHANNELS + c % CHANNELS];
}
