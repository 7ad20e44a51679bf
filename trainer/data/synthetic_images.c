/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind synthetic-images: each class is a sum of a few waves of its own directions, phases and
 * colours; a sample is it, moved, with another contrast, and noise. Classes take turns.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "trainer/data/synthetic_internal.h"

enum { WAVES = 3, SIDE_DEFAULT = 32, CHANNELS_DEFAULT = 3, CLASSES_DEFAULT = 10, CYCLES_MAX = 4 };

static const double two_pi = 6.283185307179586;
static const double shift_max = 0.125; /* of the side */
static const float noise_ratio = 0.5f;

struct wave {
	double cycles_y, cycles_x; /* per image */
	double phase;
	float amplitude[LH_DATA_CHANNELS_MAX];
};

struct images {
	struct wave *waves; /* [n_classes, WAVES] */
	float *sine_x;	    /* [width] */
	float *cosine_x;    /* [width] */
};

static int open_images(struct lh_dataset *ds, struct lh_error *err)
{
	struct images *s = ds->state = calloc(1, sizeof(*s));
	struct lh_data_request *spec = &ds->spec;
	struct lh_rng rng;

	if (!s)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	spec->height = spec->height ? spec->height : SIDE_DEFAULT;
	spec->width = spec->width ? spec->width : SIDE_DEFAULT;
	spec->channels = spec->channels ? spec->channels : CHANNELS_DEFAULT;
	spec->n_classes = spec->n_classes ? spec->n_classes : CLASSES_DEFAULT;
	s->waves = malloc(sizeof(*s->waves) * WAVES * spec->n_classes);
	s->sine_x = malloc(sizeof(float) * spec->width);
	s->cosine_x = malloc(sizeof(float) * spec->width);
	if (!s->waves || !s->sine_x || !s->cosine_x)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	lh_synthetic_model_rng(&rng, spec);
	for (uint32_t i = 0; i < WAVES * spec->n_classes; i++) {
		struct wave *w = &s->waves[i];

		w->cycles_y = (double)lh_rng_below(&rng, 2 * CYCLES_MAX + 1) - CYCLES_MAX;
		w->cycles_x = (double)(1 + lh_rng_below(&rng, CYCLES_MAX));
		w->phase = two_pi * lh_rng_uniform(&rng);
		for (int c = 0; c < LH_DATA_CHANNELS_MAX; c++)
			w->amplitude[c] = (float)(0.75 * lh_rng_normal(&rng));
	}
	ds->size = lh_synthetic_size(spec);
	ds->n_labels = spec->n_classes;
	lh_dataset_add_field(ds, "images", LH_DATA_F32, 3, spec->height, spec->width,
			     spec->channels);
	lh_dataset_add_field(ds, "labels", LH_DATA_I32, 0, 0, 0, 0);
	return 0;
}

static void close_images(struct lh_dataset *ds)
{
	struct images *s = ds->state;

	free(s->waves);
	free(s->sine_x);
	free(s->cosine_x);
	free(s);
}

static int32_t label_of(const struct lh_dataset *ds, uint64_t index)
{
	return (int32_t)(index % ds->spec.n_classes);
}

/* Adds a wave, moved by shares of the sides: sin(a + b) = sin a cos b + cos a sin b, row by
 * row. */
static void add_wave(const struct lh_data_request *spec, const struct images *s,
		     const struct wave *w, double shift, float contrast, float *image)
{
	for (uint32_t x = 0; x < spec->width; x++) {
		double angle = two_pi * w->cycles_x * x / spec->width;

		s->sine_x[x] = (float)sin(angle);
		s->cosine_x[x] = (float)cos(angle);
	}
	for (uint32_t y = 0; y < spec->height; y++) {
		double angle = two_pi * (w->cycles_y * y / spec->height + shift) + w->phase;
		float sine = contrast * (float)sin(angle), cosine = contrast * (float)cos(angle);

		for (uint32_t x = 0; x < spec->width; x++) {
			float value = sine * s->cosine_x[x] + cosine * s->sine_x[x];

			for (uint32_t c = 0; c < spec->channels; c++)
				*image++ += w->amplitude[c] * value;
		}
	}
}

static int read_images(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
		       void *const *ret_fields, struct lh_error *err)
{
	const struct images *s = ds->state;
	const struct lh_data_request *spec = &ds->spec;
	size_t n = lh_data_field_elements(&ds->fields[0]);
	int32_t label = label_of(ds, index);
	double shift_y, shift_x;
	float *image = ret_fields[0];
	float contrast;
	struct lh_rng rng;

	(void)epoch;
	(void)err;
	lh_data_rng(&rng, spec, "image", 0, index);
	shift_y = shift_max * (2 * lh_rng_uniform(&rng) - 1);
	shift_x = shift_max * (2 * lh_rng_uniform(&rng) - 1);
	contrast = (float)(0.7 + 0.6 * lh_rng_uniform(&rng));
	for (size_t i = 0; i < n; i++)
		image[i] = noise_ratio * lh_synthetic_noise(&rng);
	for (int i = 0; i < WAVES; i++) {
		const struct wave *w = &s->waves[WAVES * label + i];

		add_wave(spec, s, w, w->cycles_y * shift_y + w->cycles_x * shift_x, contrast,
			 image);
	}
	*(int32_t *)ret_fields[1] = label;
	return 0;
}

const struct lh_dataset_ops lh_dataset_synthetic_images = {
	.name = "synthetic-images",
	.doc = "seeded: a pattern of waves for each class, moved, with noise",
	.open = open_images,
	.close = close_images,
	.read = read_images,
	.label = label_of,
};
