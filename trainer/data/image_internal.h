/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of single formats; `why` is where they write what is wrong. */
#ifndef LH_TRAINER_DATA_IMAGE_INTERNAL_H
#define LH_TRAINER_DATA_IMAGE_INTERNAL_H

#include "trainer/data/image.h"

enum { LH_IMAGE_WHY_MAX = 256 };

struct lh_png_reader;
struct lh_png_reader *lh_png_reader_new(void);
void lh_png_reader_free(struct lh_png_reader *r);
/* 0, or -1 with why. */
int lh_png_decode(struct lh_png_reader *r, const uint8_t *data, size_t n,
		  const struct lh_image_size *size, uint8_t *ret_pixels,
		  char why[static LH_IMAGE_WHY_MAX]);

struct lh_jpeg_reader;
struct lh_jpeg_reader *lh_jpeg_reader_new(void);
void lh_jpeg_reader_free(struct lh_jpeg_reader *r);
int lh_jpeg_decode(struct lh_jpeg_reader *r, const uint8_t *data, size_t n,
		   const struct lh_image_size *size, uint8_t *ret_pixels,
		   char why[static LH_IMAGE_WHY_MAX]);

#endif
