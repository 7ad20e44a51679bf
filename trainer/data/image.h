/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images in memory to 8-bit pixels [H,W,C]: PPM and PGM by hand, PNG through libpng, JPEG
 * through libjpeg. Alpha is dropped, palettes become RGB, 16 bits 8. No colour management.
 */
#ifndef LH_TRAINER_DATA_IMAGE_H
#define LH_TRAINER_DATA_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum { LH_IMAGE_SIDE_MAX = 16384, LH_IMAGE_PIXELS_MAX = 1 << 26 };

struct lh_image_size {
	uint32_t height;
	uint32_t width;
	uint32_t channels; /* 1 or 3 */
};

/* Bytes of the decoded image. */
size_t lh_image_bytes(const struct lh_image_size *size);

/* Reads an image's head; sizes beyond the bounds are refused. name is for messages.
 * Allocates nothing. LH_EINPUT. */
int lh_image_probe(const char *name, const uint8_t *data, size_t n, struct lh_image_size *ret,
		   struct lh_error *err);

struct lh_image_decoder;

/* What decoding needs, kept between images; NULL: memory is out. */
struct lh_image_decoder *lh_image_decoder_new(void);
void lh_image_decoder_free(struct lh_image_decoder *d);

/* Decodes an image whose head says `size` (of lh_image_probe) into ret_pixels
 * [lh_image_bytes()]. Allocates nothing but inside libjpeg. LH_EINPUT. */
int lh_image_decode(struct lh_image_decoder *d, const char *name, const uint8_t *data, size_t n,
		    const struct lh_image_size *size, uint8_t *ret_pixels, struct lh_error *err);

#endif
