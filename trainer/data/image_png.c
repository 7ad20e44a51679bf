/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PNG through libpng, whose memory comes from one block that is emptied after each image: no
 * allocation per image, and what would inflate beyond the block is refused.
 */
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/image_internal.h"

enum {
	/* rows of 16384 pixels of 16-bit RGBA, several of them, and zlib's window */
	ARENA_BYTES = 2 << 20,
	ALIGN_BYTES = 16,
};

struct lh_png_reader {
	uint8_t *arena;
	size_t used;
	const uint8_t *data;
	size_t left;
	char *why;
};

struct lh_png_reader *lh_png_reader_new(void)
{
	struct lh_png_reader *r = calloc(1, sizeof(*r));

	if (r)
		r->arena = malloc(ARENA_BYTES);
	if (r && !r->arena) {
		free(r);
		return NULL;
	}
	return r;
}

void lh_png_reader_free(struct lh_png_reader *r)
{
	if (!r)
		return;
	free(r->arena);
	free(r);
}

static png_voidp take(png_structp png, png_alloc_size_t size)
{
	struct lh_png_reader *r = png_get_mem_ptr(png);
	void *p;

	if (size > ARENA_BYTES - ALIGN_BYTES || r->used > ARENA_BYTES - ALIGN_BYTES - size)
		return NULL;
	p = r->arena + r->used;
	r->used += (size + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
	return p;
}

/* All is given back at once, after the image. */
static void keep(png_structp png, png_voidp p)
{
	(void)png;
	(void)p;
}

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
	struct lh_png_reader *r = png_get_io_ptr(png);

	if (n > r->left)
		png_error(png, "the file ends too early");
	memcpy(to, r->data, n);
	r->data += n;
	r->left -= n;
}

static __attribute__((noreturn)) void fail(png_structp png, png_const_charp message)
{
	struct lh_png_reader *r = png_get_error_ptr(png);

	snprintf(r->why, LH_IMAGE_WHY_MAX, "%s", message);
	png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp message)
{
	(void)png;
	(void)message;
}

/* Leaves through png's jump where something is wrong. */
static void read_pixels(png_structp png, png_infop info, const struct lh_image_size *size,
			uint8_t *ret_pixels)
{
	size_t stride = (size_t)size->width * size->channels;
	int passes;

	/* colour profiles, texts: not used, so not inflated */
	png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
	png_set_user_limits(png, LH_IMAGE_SIDE_MAX, LH_IMAGE_SIDE_MAX);
	png_read_info(png, info);
	png_set_expand(png); /* palettes to RGB, fewer bits to 8 */
	png_set_scale_16(png);
	png_set_strip_alpha(png);
	passes = png_set_interlace_handling(png);
	png_read_update_info(png, info);
	if (png_get_rowbytes(png, info) != stride ||
	    png_get_image_height(png, info) != size->height)
		png_error(png, "rows of another size than the head says");
	for (int pass = 0; pass < passes; pass++)
		for (uint32_t y = 0; y < size->height; y++)
			png_read_row(png, ret_pixels + y * stride, NULL);
	png_read_end(png, NULL);
}

int lh_png_decode(struct lh_png_reader *r, const uint8_t *data, size_t n,
		  const struct lh_image_size *size, uint8_t *ret_pixels,
		  char why[static LH_IMAGE_WHY_MAX])
{
	png_structp png;
	png_infop info;

	r->used = 0;
	r->data = data;
	r->left = n;
	r->why = why;
	png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, fail, ignore, r, take, keep);
	info = png ? png_create_info_struct(png) : NULL;
	if (!info) {
		snprintf(why, LH_IMAGE_WHY_MAX, "libpng does not start");
		return -1;
	}
	png_set_read_fn(png, r, read_bytes);
	if (setjmp(png_jmpbuf(png))) {
		png_destroy_read_struct(&png, &info, NULL);
		return -1;
	}
	read_pixels(png, info, size, ret_pixels);
	png_destroy_read_struct(&png, &info, NULL);
	return 0;
}
