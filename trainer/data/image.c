/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: their heads, and PPM and PGM. See image.h.
 * Source: Netpbm's ppm(5), pgm(5); PNG, RFC 2083, section 4.1.1; JPEG, ITU-T T.81, annex B.
 */
#include "trainer/data/image.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/image_internal.h"

struct lh_image_decoder {
	struct lh_png_reader *png;
	struct lh_jpeg_reader *jpeg;
};

enum format { FORMAT_NONE, FORMAT_PNM, FORMAT_PNG, FORMAT_JPEG };

/* A PPM or PGM file's head. */
struct pnm {
	struct lh_image_size size;
	uint32_t max_value;
	size_t pixels_at;
};

static const uint8_t png_signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

size_t lh_image_bytes(const struct lh_image_size *size)
{
	return (size_t)size->height * size->width * size->channels;
}

static enum format format_of(const uint8_t *data, size_t n)
{
	if (n >= 2 && data[0] == 'P' && (data[1] == '5' || data[1] == '6'))
		return FORMAT_PNM;
	if (n >= sizeof(png_signature) && memcmp(data, png_signature, sizeof(png_signature)) == 0)
		return FORMAT_PNG;
	if (n >= 3 && data[0] == 0xff && data[1] == 0xd8 && data[2] == 0xff)
		return FORMAT_JPEG;
	return FORMAT_NONE;
}

static uint32_t read_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* ---- PPM and PGM -------------------------------------------------------------------------- */

/* Reads the next number of a head, past white space and comments. */
static int pnm_number(const uint8_t *data, size_t n, size_t *at, uint32_t *ret)
{
	uint32_t value = 0;
	size_t i = *at, digits = 0;

	while (i < n && (data[i] == '#' || strchr(" \t\r\n\v\f", data[i]))) {
		if (data[i] == '\0')
			return -1;
		if (data[i] == '#')
			while (i < n && data[i] != '\n')
				i++;
		else
			i++;
	}
	for (; i < n && data[i] >= '0' && data[i] <= '9' && digits < 7; i++, digits++)
		value = value * 10 + (data[i] - '0');
	if (digits == 0 || i >= n || (data[i] >= '0' && data[i] <= '9'))
		return -1;
	*at = i;
	*ret = value;
	return 0;
}

static int pnm_head(const char *name, const uint8_t *data, size_t n, struct pnm *ret,
		    struct lh_error *err)
{
	size_t at = 2;

	ret->size.channels = data[1] == '6' ? 3 : 1;
	if (pnm_number(data, n, &at, &ret->size.width) < 0 ||
	    pnm_number(data, n, &at, &ret->size.height) < 0 ||
	    pnm_number(data, n, &at, &ret->max_value) < 0 || !strchr(" \t\r\n", data[at]) ||
	    data[at] == '\0')
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: head of a PPM or PGM is not: P5 or P6, width, height, maximum",
			       name);
	if (ret->max_value < 1 || ret->max_value > 255)
		return lh_fail(err, LH_EINPUT, 0, "%s: its maximum is %u; 1 to 255 are read", name,
			       ret->max_value);
	ret->pixels_at = at + 1;
	return 0;
}

static int pnm_decode(const char *name, const uint8_t *data, size_t n, uint8_t *ret_pixels,
		      struct lh_error *err)
{
	struct pnm head;
	size_t wanted;
	int r = pnm_head(name, data, n, &head, err);

	if (r < 0)
		return r;
	wanted = lh_image_bytes(&head.size);
	if (n - head.pixels_at < wanted)
		return lh_fail(err, LH_EINPUT, 0, "%s: cut off: %zu of its %zu bytes of pixels",
			       name, n - head.pixels_at, wanted);
	for (size_t i = 0; i < wanted; i++) {
		uint32_t v = data[head.pixels_at + i];

		if (v > head.max_value)
			return lh_fail(err, LH_EINPUT, 0,
				       "%s: value %u of pixel %zu is above its maximum %u", name, v,
				       i / head.size.channels, head.max_value);
		ret_pixels[i] = (uint8_t)((v * 255 + head.max_value / 2) / head.max_value);
	}
	return 0;
}

/* ---- heads -------------------------------------------------------------------------------- */

static int png_head(const char *name, const uint8_t *data, size_t n, struct lh_image_size *ret,
		    struct lh_error *err)
{
	enum { AT_IHDR = 8, AT_WIDTH = 16, AT_HEIGHT = 20, AT_COLOUR = 25, HEAD_BYTES = 33 };

	if (n < HEAD_BYTES || memcmp(data + AT_IHDR, "\0\0\0\rIHDR", 8) != 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: PNG without its head (IHDR)", name);
	ret->width = read_be32(data + AT_WIDTH);
	ret->height = read_be32(data + AT_HEIGHT);
	/* colour types 0 and 4 are grey, 2 and 6 RGB, 3 a palette */
	ret->channels = data[AT_COLOUR] == 0 || data[AT_COLOUR] == 4 ? 1 : 3;
	return 0;
}

static bool is_start_of_frame(uint8_t marker)
{
	return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
	       marker != 0xcc;
}

static int jpeg_head(const char *name, const uint8_t *data, size_t n, struct lh_image_size *ret,
		     struct lh_error *err)
{
	size_t at = 2;

	while (at + 4 <= n && data[at] == 0xff) {
		size_t length = (size_t)data[at + 2] << 8 | data[at + 3];

		if (data[at + 1] == 0xff) {
			at++;
			continue;
		}
		if (length < 2 || length > n - at - 2)
			break;
		if (is_start_of_frame(data[at + 1]) && length >= 8) {
			const uint8_t *p = data + at + 4;

			ret->height = (uint32_t)p[1] << 8 | p[2];
			ret->width = (uint32_t)p[3] << 8 | p[4];
			ret->channels = p[5];
			if (p[5] == 1 || p[5] == 3)
				return 0;
			return lh_fail(
				err, LH_EINPUT, 0,
				"%s: JPEG of %u components; 1 (grey) and 3 (colour) are read", name,
				p[5]);
		}
		at += 2 + length;
	}
	return lh_fail(err, LH_EINPUT, 0, "%s: cut off or corrupt: no head in the JPEG (byte %zu)",
		       name, at);
}

int lh_image_probe(const char *name, const uint8_t *data, size_t n, struct lh_image_size *ret,
		   struct lh_error *err)
{
	struct lh_image_size size = {0};
	struct pnm pnm;
	int r;

	switch (format_of(data, n)) {
	case FORMAT_PNM:
		r = pnm_head(name, data, n, &pnm, err);
		if (r == 0)
			size = pnm.size;
		break;
	case FORMAT_PNG:
		r = png_head(name, data, n, &size, err);
		break;
	case FORMAT_JPEG:
		r = jpeg_head(name, data, n, &size, err);
		break;
	default:
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: is no image (binary PPM or PGM, PNG or JPEG)", name);
	}
	if (r < 0)
		return r;
	if (size.width < 1 || size.height < 1 || size.width > LH_IMAGE_SIDE_MAX ||
	    size.height > LH_IMAGE_SIDE_MAX ||
	    (uint64_t)size.width * size.height > LH_IMAGE_PIXELS_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: is %u x %u pixels; 1 to %d a side are read, up to %d in all",
			       name, size.width, size.height, LH_IMAGE_SIDE_MAX,
			       LH_IMAGE_PIXELS_MAX);
	*ret = size;
	return 0;
}

/* ---- decoding ----------------------------------------------------------------------------- */

struct lh_image_decoder *lh_image_decoder_new(void)
{
	struct lh_image_decoder *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->png = lh_png_reader_new();
	d->jpeg = lh_jpeg_reader_new();
	if (!d->png || !d->jpeg) {
		lh_image_decoder_free(d);
		return NULL;
	}
	return d;
}

void lh_image_decoder_free(struct lh_image_decoder *d)
{
	if (!d)
		return;
	lh_png_reader_free(d->png);
	lh_jpeg_reader_free(d->jpeg);
	free(d);
}

int lh_image_decode(struct lh_image_decoder *d, const char *name, const uint8_t *data, size_t n,
		    const struct lh_image_size *size, uint8_t *ret_pixels, struct lh_error *err)
{
	char why[LH_IMAGE_WHY_MAX] = "";
	struct lh_image_size now;
	int r = lh_image_probe(name, data, n, &now, err);

	if (r < 0)
		return r;
	if (now.height != size->height || now.width != size->width ||
	    now.channels != size->channels)
		return lh_fail(err, LH_EINPUT, 0, "%s: its size has changed since it was opened",
			       name);
	if (format_of(data, n) == FORMAT_PNM)
		return pnm_decode(name, data, n, ret_pixels, err);
	if (format_of(data, n) == FORMAT_PNG)
		r = lh_png_decode(d->png, data, n, size, ret_pixels, why);
	else
		r = lh_jpeg_decode(d->jpeg, data, n, size, ret_pixels, why);
	return r == 0 ? 0 : lh_fail(err, LH_EINPUT, 0, "%s: corrupt or cut off: %s", name, why);
}
