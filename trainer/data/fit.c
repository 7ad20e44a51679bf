/* SPDX-License-Identifier: Apache-2.0 */
/* Images to one size. See fit.h. */
#include "trainer/data/fit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One output position's input positions and their weights. */
struct lh_fit_tap {
	uint32_t first;
	uint32_t n;
	size_t weights_at;
};

/* A rectangle of the input. */
struct part {
	uint32_t y, x, height, width;
};

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

int lh_fit_init(struct lh_fit *fit, const struct lh_data_request *spec, const float mean3[3],
		const float stddev3[3], uint32_t side_max, struct lh_error *err)
{
	uint32_t out_max = max_u32(spec->height, spec->width);

	*fit = (struct lh_fit){.height = spec->height,
			       .width = spec->width,
			       .channels = spec->channels,
			       .how = spec->fit,
			       .side_max = side_max};
	for (uint32_t c = 0; c < fit->channels; c++) {
		float mean = spec->stddev[c] > 0 ? spec->mean[c] : mean3[c];
		float stddev = spec->stddev[c] > 0 ? spec->stddev[c] : stddev3[c];

		fit->scale[c] = 1.0f / (255.0f * stddev);
		fit->shift[c] = -mean / stddev;
		for (int v = 0; v < 256; v++)
			fit->table[c][v] = (float)v * fit->scale[c] + fit->shift[c];
	}
	fit->rows = malloc(sizeof(float) * side_max * spec->width * spec->channels);
	fit->weights = malloc(sizeof(float) * (2 * (size_t)side_max + 4 * (size_t)out_max));
	fit->taps = malloc(sizeof(*fit->taps) * out_max);
	if (!fit->rows || !fit->weights || !fit->taps)
		return lh_fail(err, LH_ESYS, ENOMEM, "prepare images");
	return 0;
}

void lh_fit_done(struct lh_fit *fit)
{
	free(fit->rows);
	free(fit->weights);
	free(fit->taps);
	*fit = (struct lh_fit){0};
}

/* A pixel's value in channel c of n_out, in 0..255; p has n_in channels. */
static float value_of(const uint8_t *p, uint32_t n_in, uint32_t n_out, uint32_t c)
{
	if (n_in == n_out)
		return p[c];
	if (n_in == 1)
		return p[0];
	return 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
}

static void normalise_row(const struct lh_fit *fit, const uint8_t *p, uint32_t n_in, uint32_t n,
			  float *ret)
{
	for (uint32_t x = 0; x < n; x++)
		for (uint32_t c = 0; c < fit->channels; c++) {
			const uint8_t *pixel = p + (size_t)x * n_in;

			*ret++ = n_in == fit->channels || n_in == 1
					 ? fit->table[c][pixel[n_in == 1 ? 0 : c]]
					 : value_of(pixel, n_in, 1, c) * fit->scale[c] +
						   fit->shift[c];
		}
}

static void pad(const struct lh_fit *fit, const uint8_t *pixels, const struct lh_image_size *size,
		float *ret)
{
	uint32_t height = size->height < fit->height ? size->height : fit->height;
	uint32_t width = size->width < fit->width ? size->width : fit->width;
	uint32_t from_y = (size->height - height) / 2, from_x = (size->width - width) / 2;
	uint32_t to_y = (fit->height - height) / 2, to_x = (fit->width - width) / 2;
	size_t n_out = (size_t)fit->height * fit->width * fit->channels;

	if (height < fit->height || width < fit->width)
		for (size_t i = 0; i < n_out; i++)
			ret[i] = fit->shift[i % fit->channels];
	for (uint32_t y = 0; y < height; y++)
		normalise_row(fit,
			      pixels + ((size_t)(from_y + y) * size->width + from_x) *
					       size->channels,
			      size->channels, width,
			      ret + ((size_t)(to_y + y) * fit->width + to_x) * fit->channels);
}

/* Weighs n_in positions from `first` for each of n_out. */
static void make_taps(const struct lh_fit *fit, uint32_t first, uint32_t n_in, uint32_t n_out)
{
	double scale = (double)n_in / n_out, reach = scale > 1 ? scale : 1;
	size_t at = 0;

	for (uint32_t i = 0; i < n_out; i++) {
		double centre = (i + 0.5) * scale, sum = 0;
		double from = floor(centre - reach + 0.5), to = ceil(centre + reach - 0.5);
		uint32_t begin = from > 0 ? (uint32_t)from : 0;
		uint32_t end = to < n_in ? (uint32_t)to : n_in;

		fit->taps[i] = (struct lh_fit_tap){first + begin, end - begin, at};
		for (uint32_t j = begin; j < end; j++) {
			double w = 1 - fabs(j + 0.5 - centre) / reach;

			fit->weights[at + j - begin] = (float)fmax(w, 0);
			sum += fmax(w, 0);
		}
		for (uint32_t j = begin; j < end; j++)
			fit->weights[at + j - begin] /= (float)sum;
		at += end - begin;
	}
}

static void scale_rows(const struct lh_fit *fit, const uint8_t *pixels,
		       const struct lh_image_size *size, const struct part *part)
{
	float *to = fit->rows;

	make_taps(fit, part->x, part->width, fit->width);
	for (uint32_t y = 0; y < part->height; y++)
		for (uint32_t x = 0; x < fit->width; x++)
			for (uint32_t c = 0; c < fit->channels; c++) {
				const struct lh_fit_tap *tap = &fit->taps[x];
				const uint8_t *p = pixels + ((size_t)(part->y + y) * size->width +
							     tap->first) *
								    size->channels;
				float sum = 0;

				for (uint32_t i = 0; i < tap->n; i++)
					sum += fit->weights[tap->weights_at + i] *
					       value_of(p + (size_t)i * size->channels,
							size->channels, fit->channels, c);
				*to++ = sum;
			}
}

static void scale_columns(const struct lh_fit *fit, uint32_t height, float *ret)
{
	size_t stride = (size_t)fit->width * fit->channels;

	make_taps(fit, 0, height, fit->height);
	for (uint32_t y = 0; y < fit->height; y++, ret += stride) {
		const struct lh_fit_tap *tap = &fit->taps[y];

		memset(ret, 0, stride * sizeof(float));
		for (uint32_t i = 0; i < tap->n; i++) {
			const float *row = fit->rows + (tap->first + i) * stride;
			float w = fit->weights[tap->weights_at + i];

			for (size_t x = 0; x < stride; x++)
				ret[x] += w * row[x];
		}
		for (size_t x = 0; x < stride; x++)
			ret[x] = ret[x] * fit->scale[x % fit->channels] +
				 fit->shift[x % fit->channels];
	}
}

/* The largest centred part with the proportions of what comes out. */
static struct part centre_part(const struct lh_fit *fit, const struct lh_image_size *size)
{
	struct part part = {0, 0, size->height, size->width};
	uint64_t a = (uint64_t)size->width * fit->height, b = (uint64_t)size->height * fit->width;

	if (a > b)
		part.width = max_u32((uint32_t)(b / fit->height), 1);
	else
		part.height = max_u32((uint32_t)(a / fit->width), 1);
	part.y = (size->height - part.height) / 2;
	part.x = (size->width - part.width) / 2;
	return part;
}

void lh_fit_apply(const struct lh_fit *fit, const uint8_t *pixels, const struct lh_image_size *size,
		  float *ret)
{
	struct part part = centre_part(fit, size);

	if (fit->how == LH_DATA_FIT_PAD ||
	    (part.height == fit->height && part.width == fit->width)) {
		pad(fit, pixels, size, ret);
		return;
	}
	scale_rows(fit, pixels, size, &part);
	scale_columns(fit, part.height, ret);
}
