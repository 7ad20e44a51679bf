/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG through libjpeg, with its slow integer transform, whose results do not depend on the
 * machine. libjpeg allocates for each image; this cannot be had otherwise.
 */
#include <stddef.h> /* jpeglib.h needs size_t and FILE */
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>
#include <setjmp.h>
#include <stdlib.h>

#include "trainer/data/image_internal.h"

/* Of a progressive image; a bomb has thousands. */
enum { SCANS_MAX = 100 };

struct lh_jpeg_reader {
	struct jpeg_decompress_struct dec;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf out;
	char *why;
};

static __attribute__((noreturn)) void fail(j_common_ptr dec)
{
	struct lh_jpeg_reader *r = dec->client_data;
	char message[JMSG_LENGTH_MAX];

	dec->err->format_message(dec, message);
	snprintf(r->why, LH_IMAGE_WHY_MAX, "%.200s", message);
	longjmp(r->out, 1);
}

/* Data that is missing is only a warning to libjpeg, which fills in grey. */
static void warn(j_common_ptr dec, int level)
{
	if (level < 0 &&
	    (dec->err->msg_code == JWRN_JPEG_EOF || dec->err->msg_code == JWRN_HIT_MARKER))
		fail(dec);
}

static void say_nothing(j_common_ptr dec)
{
	(void)dec;
}

static void count_scans(j_common_ptr dec)
{
	struct lh_jpeg_reader *r = dec->client_data;

	if (dec->is_decompressor && r->dec.input_scan_number > SCANS_MAX) {
		snprintf(r->why, LH_IMAGE_WHY_MAX, "more than %d scans", SCANS_MAX);
		longjmp(r->out, 1);
	}
}

static int create(struct lh_jpeg_reader *r)
{
	if (setjmp(r->out))
		return -1;
	jpeg_create_decompress(&r->dec);
	return 0;
}

struct lh_jpeg_reader *lh_jpeg_reader_new(void)
{
	struct lh_jpeg_reader *r = calloc(1, sizeof(*r));
	char why[LH_IMAGE_WHY_MAX];

	if (!r)
		return NULL;
	r->dec.err = jpeg_std_error(&r->errors);
	r->errors.error_exit = fail;
	r->errors.emit_message = warn;
	r->errors.output_message = say_nothing;
	r->progress.progress_monitor = count_scans;
	r->why = why;
	r->dec.client_data = r;
	if (create(r) < 0) {
		free(r);
		return NULL;
	}
	r->why = NULL;
	r->dec.progress = &r->progress;
	return r;
}

void lh_jpeg_reader_free(struct lh_jpeg_reader *r)
{
	if (!r)
		return;
	jpeg_destroy_decompress(&r->dec);
	free(r);
}

/* Leaves through r->out where something is wrong. */
static void read_pixels(struct lh_jpeg_reader *r, const uint8_t *data, size_t n,
			const struct lh_image_size *size, uint8_t *ret_pixels)
{
	struct jpeg_decompress_struct *dec = &r->dec;
	size_t stride = (size_t)size->width * size->channels;

	jpeg_mem_src(dec, data, (unsigned long)n);
	jpeg_read_header(dec, TRUE);
	dec->out_color_space = size->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
	dec->dct_method = JDCT_ISLOW;
	if (dec->image_width != size->width || dec->image_height != size->height ||
	    dec->num_components != (int)size->channels) {
		snprintf(r->why, LH_IMAGE_WHY_MAX, "two heads of different sizes");
		longjmp(r->out, 1);
	}
	jpeg_start_decompress(dec);
	while (dec->output_scanline < dec->output_height) {
		JSAMPROW row = ret_pixels + dec->output_scanline * stride;

		jpeg_read_scanlines(dec, &row, 1);
	}
	jpeg_finish_decompress(dec);
}

int lh_jpeg_decode(struct lh_jpeg_reader *r, const uint8_t *data, size_t n,
		   const struct lh_image_size *size, uint8_t *ret_pixels,
		   char why[static LH_IMAGE_WHY_MAX])
{
	r->why = why;
	if (setjmp(r->out)) {
		jpeg_abort_decompress(&r->dec);
		return -1;
	}
	read_pixels(r, data, n, size, ret_pixels);
	return 0;
}
