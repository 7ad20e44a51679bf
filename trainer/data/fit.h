/* SPDX-License-Identifier: Apache-2.0 */
/* 8-bit images of any size to normalised float images of one size. */
#ifndef LH_TRAINER_DATA_FIT_H
#define LH_TRAINER_DATA_FIT_H

#include "trainer/data/dataset.h"
#include "trainer/data/image.h"

/* The shape of what comes out, and memory kept for it. */
struct lh_fit {
	uint32_t height;
	uint32_t width;
	uint32_t channels;
	enum lh_data_fit how;
	float table[LH_DATA_CHANNELS_MAX][256]; /* what each 8-bit value becomes */
	float scale[LH_DATA_CHANNELS_MAX];
	float shift[LH_DATA_CHANNELS_MAX];
	uint32_t side_max;
	float *rows;	/* [side_max, width, channels] */
	float *weights; /* of one direction, below taps */
	struct lh_fit_tap *taps;
};

/*
 * Prepares for images of sides up to side_max pixels. height, width and channels are those of
 * the spec, all above 0; mean and stddev where the spec has none are mean3 and stddev3.
 * LH_ESYS: memory is out. lh_fit_done() on any.
 */
int lh_fit_init(struct lh_fit *fit, const struct lh_data_request *spec, const float mean3[3],
		const float stddev3[3], uint32_t side_max, struct lh_error *err);

void lh_fit_done(struct lh_fit *fit);

/* Writes [height,width,channels]: (pixel / 255 - mean) / stddev. Scaling weighs by a triangle
 * as wide as two pixels of the coarser grid. Grey becomes equal channels; RGB becomes grey by
 * ITU-R BT.601's weights. Allocates nothing. */
void lh_fit_apply(const struct lh_fit *fit, const uint8_t *pixels, const struct lh_image_size *size,
		  float *ret);

#endif
