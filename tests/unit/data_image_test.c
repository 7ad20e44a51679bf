/* SPDX-License-Identifier: Apache-2.0 */
/* Images: PPM, PNG and JPEG that libpng and libjpeg wrote come back; bad ones are refused. */
#include "trainer/data/image.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "tests/unit/test.h"

enum { HEIGHT = 19, WIDTH = 23, BYTES = HEIGHT * WIDTH * 3 };

/* A smooth picture, which JPEG keeps. */
static void paint(uint8_t *rgb, uint32_t channels)
{
	for (uint32_t y = 0; y < HEIGHT; y++)
		for (uint32_t x = 0; x < WIDTH; x++)
			for (uint32_t c = 0; c < channels; c++)
				*rgb++ = (uint8_t)(20 + 6 * x + 2 * y + 10 * c);
}

static size_t write_png(uint32_t format, const void *pixels, const void *colours, uint8_t *ret,
			size_t n)
{
	png_image image = {.version = PNG_IMAGE_VERSION,
			   .width = WIDTH,
			   .height = HEIGHT,
			   .format = format,
			   .colormap_entries = colours ? 256 : 0};
	png_alloc_size_t size = n;

	assert_true(png_image_write_to_memory(&image, ret, &size, 0, pixels, 0, colours));
	return size;
}

static size_t write_jpeg(uint32_t channels, bool is_progressive, const uint8_t *pixels,
			 uint8_t *ret, size_t n)
{
	struct jpeg_compress_struct enc;
	struct jpeg_error_mgr errors;
	unsigned char *out = NULL;
	unsigned long size = 0;

	enc.err = jpeg_std_error(&errors);
	jpeg_create_compress(&enc);
	jpeg_mem_dest(&enc, &out, &size);
	enc.image_width = WIDTH;
	enc.image_height = HEIGHT;
	enc.input_components = (int)channels;
	enc.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(&enc);
	jpeg_set_quality(&enc, 100, TRUE);
	if (is_progressive)
		jpeg_simple_progression(&enc);
	jpeg_start_compress(&enc, TRUE);
	for (uint32_t y = 0; y < HEIGHT; y++) {
		JSAMPROW row = (uint8_t *)pixels + y * WIDTH * channels;

		jpeg_write_scanlines(&enc, &row, 1);
	}
	jpeg_finish_compress(&enc);
	jpeg_destroy_compress(&enc);
	assert_true(size <= n);
	memcpy(ret, out, size);
	free(out);
	return size;
}

/* Decodes a file of `channels`, whose pixels must be within `tolerance` of `expected`. */
static void assert_decodes(const uint8_t *file, size_t n, uint32_t channels,
			   const uint8_t *expected, int tolerance)
{
	struct lh_image_decoder *d = lh_image_decoder_new();
	struct lh_image_size size;
	struct lh_error err = {0};
	uint8_t pixels[BYTES];

	assert_non_null(d);
	if (lh_image_probe("image", file, n, &size, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(size.height, HEIGHT);
	assert_int_equal(size.width, WIDTH);
	assert_int_equal(size.channels, channels);
	for (int twice = 0; twice < 2; twice++) {
		memset(pixels, 0, sizeof(pixels));
		if (lh_image_decode(d, "image", file, n, &size, pixels, &err) < 0)
			fail_msg("%s", err.message);
		for (size_t i = 0; i < lh_image_bytes(&size); i++)
			if (abs(pixels[i] - expected[i]) > tolerance)
				fail_msg("byte %zu is %d, not %d", i, pixels[i], expected[i]);
	}
	/* every cut-off copy is refused, or is whole but for what follows the pixels */
	for (size_t cut = 0; cut < n; cut++) {
		lh_cleanup_free uint8_t *exact = malloc(cut + 1);

		memcpy(exact, file, cut);
		if (lh_image_probe("image", exact, cut, &size, &err) < 0 ||
		    lh_image_decode(d, "image", exact, cut, &size, pixels, &err) < 0) {
			assert_non_null(strstr(err.message, "image: "));
			continue;
		}
		if (cut + 2 < n) /* JPEG's end marker */
			fail_msg("%zu of %zu bytes are taken for the whole", cut, n);
	}
	lh_image_decoder_free(d);
}

static void test_ppm_and_pgm_come_back(void **state)
{
	uint8_t file[BYTES + 64], pixels[BYTES];
	int head;

	(void)state;
	paint(pixels, 3);
	head = snprintf((char *)file, 64, "P6\n# a comment\n%d %d\n255\n", WIDTH, HEIGHT);
	memcpy(file + head, pixels, BYTES);
	assert_decodes(file, (size_t)head + BYTES, 3, pixels, 0);
	paint(pixels, 1);
	head = snprintf((char *)file, 64, "P5 %d\t%d #c\n 255 ", WIDTH, HEIGHT);
	memcpy(file + head, pixels, BYTES / 3);
	assert_decodes(file, (size_t)head + BYTES / 3, 1, pixels, 0);
}

static void test_png_comes_back(void **state)
{
	static uint8_t file[4 * BYTES], pixels[BYTES], more[2 * BYTES];
	uint8_t colours[3 * 256];
	size_t n;

	(void)state;
	paint(pixels, 3);
	n = write_png(PNG_FORMAT_RGB, pixels, NULL, file, sizeof(file));
	assert_decodes(file, n, 3, pixels, 0);
	for (int i = 0; i < BYTES / 3; i++) {
		memcpy(more + 4 * i, pixels + 3 * i, 3);
		more[4 * i + 3] = (uint8_t)i;
	}
	n = write_png(PNG_FORMAT_RGBA, more, NULL, file, sizeof(file));
	assert_decodes(file, n, 3, pixels, 0);
	paint(pixels, 1);
	n = write_png(PNG_FORMAT_GRAY, pixels, NULL, file, sizeof(file));
	assert_decodes(file, n, 1, pixels, 0);
	for (int i = 0; i < 256; i++) {
		colours[3 * i] = (uint8_t)i;
		colours[3 * i + 1] = (uint8_t)(255 - i);
		colours[3 * i + 2] = (uint8_t)(i ^ 0x55);
	}
	n = write_png(PNG_FORMAT_RGB_COLORMAP, pixels, colours, file, sizeof(file));
	for (int i = 0; i < BYTES / 3; i++)
		memcpy(more + 3 * i, colours + 3 * pixels[i], 3);
	assert_decodes(file, n, 3, more, 0);
}

static void test_jpeg_comes_back(void **state)
{
	static uint8_t file[4 * BYTES], pixels[BYTES];
	size_t n;

	(void)state;
	paint(pixels, 3);
	n = write_jpeg(3, false, pixels, file, sizeof(file));
	assert_decodes(file, n, 3, pixels, 10);
	n = write_jpeg(3, true, pixels, file, sizeof(file));
	assert_decodes(file, n, 3, pixels, 10);
	paint(pixels, 1);
	n = write_jpeg(1, false, pixels, file, sizeof(file));
	assert_decodes(file, n, 1, pixels, 2);
}

static void test_bad_heads_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *says;
	} cases[] = {
		{"GIF89a", 6, "is no image"},
		{"", 0, "is no image"},
		{"P6 0 3 255 ", 11, "is 0 x 3 pixels"},
		{"P6 99999 3 255 ", 15, "is 99999 x 3 pixels; 1 to 16384 a side"},
		{"P6 16384 16384 255 ", 19, "up to 67108864 in all"},
		{"P6 99999999999 3 255 ", 21, "head of a PPM"},
		{"P6 3 3 65535 ", 13, "maximum is 65535"},
		{"P6 3 3", 6, "head of a PPM"},
		{"P6 3 3 255", 10, "head of a PPM"},
		{"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, "PNG without its head"},
		{"\xff\xd8\xff\xe0\x00\x10JFIF", 10, "no head in the JPEG"},
		{"\xff\xd8\xff\xc0\x00\x11\x08\x00\x10\x00\x10\x04"
		 "\1\1\1\1\1\1\1\1\1\1\1\1",
		 24, "JPEG of 4 components"},
	};
	struct lh_image_size size;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_error err = {0};

		assert_int_equal(lh_image_probe("x.img", (const uint8_t *)cases[i].bytes,
						cases[i].n, &size, &err),
				 LH_EINPUT);
		if (!strstr(err.message, cases[i].says) || !strstr(err.message, "x.img: "))
			fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
	}
}

static void test_values_above_the_maximum_are_refused(void **state)
{
	struct lh_image_decoder *d = lh_image_decoder_new();
	const uint8_t file[] = "P5 2 1 100 \x32\x65";
	struct lh_image_size size;
	struct lh_error err = {0};
	uint8_t pixels[2];

	(void)state;
	assert_int_equal(lh_image_probe("x", file, sizeof(file) - 1, &size, &err), 0);
	assert_int_equal(lh_image_decode(d, "x", file, sizeof(file) - 1, &size, pixels, &err),
			 LH_EINPUT);
	assert_non_null(strstr(err.message, "value 101 of pixel 1"));
	assert_int_equal(pixels[0], 128); /* 50 of 100 */
	lh_image_decoder_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ppm_and_pgm_come_back),
		cmocka_unit_test(test_png_comes_back),
		cmocka_unit_test(test_jpeg_comes_back),
		cmocka_unit_test(test_bad_heads_are_refused),
		cmocka_unit_test(test_values_above_the_maximum_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
