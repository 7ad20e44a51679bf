/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an image: what its head says is within the bounds, what decodes fills all
 * pixels, and fitted to another size it is finite.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/data/fit.h"
#include "trainer/data/image.h"

const char lh_fuzz_name[] = "image";
const char *const lh_fuzz_words[] = {"P6 2 2 255 ",
				     "P5",
				     "#",
				     "\n",
				     "65535",
				     "IHDR",
				     "IDAT",
				     "PLTE",
				     "IEND",
				     "iCCP",
				     "zTXt",
				     "\xff\xc2",
				     "\xff\xda",
				     "\xff\xc4",
				     "\xff\xd9",
				     "\x40\x01",
				     "\x7f\xff\xff\xff",
				     NULL};

/* A corrupt head may ask for much; what is larger is another test's time. */
enum { PIXELS_MAX = 1 << 16, SIDE_MAX = 1024, HEIGHT = 5, WIDTH = 3, CHANNELS = 3 };

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "image: %s\n", what);
	abort();
}

static void fit(const uint8_t *pixels, const struct lh_image_size *size, enum lh_data_fit how)
{
	static const float zero[3] = {0, 0, 0}, one[3] = {1, 1, 1};
	const struct lh_data_request spec = {
		.height = HEIGHT, .width = WIDTH, .channels = CHANNELS, .fit = how};
	float ret[HEIGHT * WIDTH * CHANNELS];
	struct lh_fit f;

	if (lh_fit_init(&f, &spec, zero, one, SIDE_MAX, NULL) == 0) {
		lh_fit_apply(&f, pixels, size, ret);
		for (int i = 0; i < HEIGHT * WIDTH * CHANNELS; i++)
			expect(ret[i] >= -1e-5f && ret[i] <= 1 + 1e-5f, "a pixel out of range");
	}
	lh_fit_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct lh_image_decoder *decoder;
	lh_cleanup_free uint8_t *pixels = NULL;
	struct lh_image_size head;
	struct lh_error err = {0};

	if (!decoder)
		decoder = lh_image_decoder_new();
	if (!decoder || lh_image_probe("fuzz", data, size, &head, &err) < 0) {
		expect(err.message[0], "an error without a message");
		return 0;
	}
	expect(head.width >= 1 && head.height >= 1 && head.width <= LH_IMAGE_SIDE_MAX &&
		       head.height <= LH_IMAGE_SIDE_MAX &&
		       (head.channels == 1 || head.channels == 3),
	       "a size out of bounds");
	if ((uint64_t)head.width * head.height > PIXELS_MAX || head.width > SIDE_MAX ||
	    head.height > SIDE_MAX)
		return 0;
	pixels = malloc(lh_image_bytes(&head));
	if (!pixels)
		return 0;
	if (lh_image_decode(decoder, "fuzz", data, size, &head, pixels, &err) < 0) {
		expect(err.message[0], "an error without a message");
		return 0;
	}
	fit(pixels, &head, LH_DATA_FIT_RESIZE);
	fit(pixels, &head, LH_DATA_FIT_PAD);
	return 0;
}
