/* SPDX-License-Identifier: Apache-2.0 */
/* Files and archives that tests of datasets make, and one sample's buffers. */
#ifndef LH_TESTS_UNIT_DATA_FIXTURE_H
#define LH_TESTS_UNIT_DATA_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "tests/unit/test.h"
#include "trainer/data/dataset.h"

struct data_fixture {
	char dir[32];
	char path[4096]; /* of the last call of data_path() */
};

static inline int data_setup(void **state)
{
	struct data_fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	snprintf(f->dir, sizeof(f->dir), "/tmp/lh-data-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	*state = f;
	return 0;
}

static inline int data_teardown(void **state)
{
	struct data_fixture *f = *state;

	assert_int_equal(lh_dir_remove(f->dir, NULL), 0);
	free(f);
	return 0;
}

static inline const char *data_path(struct data_fixture *f, const char *name)
{
	snprintf(f->path, sizeof(f->path), "%s/%s", f->dir, name);
	return f->path;
}

static inline void data_write(struct data_fixture *f, const char *name, const void *bytes, size_t n)
{
	assert_int_equal(lh_file_write(data_path(f, name), bytes, n, NULL), 0);
}

static inline struct lh_dataset *data_open(const struct lh_data_request *spec)
{
	struct lh_dataset *ds = NULL;
	struct lh_error err = {0};

	if (lh_dataset_open(spec, &ds, &err) < 0)
		fail_msg("%s", err.message);
	return ds;
}

/* Synthetic grey images of 4 x 6 pixels; sample i has the label i mod n_classes. */
static inline struct lh_dataset *data_open_images(uint64_t n_samples, uint32_t n_classes)
{
	const struct lh_data_request spec = {.kind = "synthetic-images",
					     .n_samples = n_samples,
					     .n_classes = n_classes,
					     .height = 4,
					     .width = 6,
					     .channels = 1,
					     .seed = 1};

	return data_open(&spec);
}

/* Fails unless opening is refused with all parts of the message, which ends with NULL. */
static inline void data_refused(const struct lh_data_request *spec, const char *const *parts)
{
	struct lh_dataset *ds = NULL;
	struct lh_error err = {0};

	if (lh_dataset_open(spec, &ds, &err) == 0)
		fail_msg("opened, but should have been refused: %s", parts[0]);
	for (; *parts; parts++)
		if (!strstr(err.message, *parts))
			fail_msg("'%s' does not say '%s'", err.message, *parts);
}

#define assert_refused(spec, ...) data_refused(spec, (const char *const[]){__VA_ARGS__, NULL})

/* One sample; each field has room for what the tests use. */
struct data_sample {
	union {
		float f[8192];
		int32_t i[8192];
	} fields[LH_DATA_FIELDS_MAX];
};

static inline void data_read(struct lh_dataset *ds, uint64_t index, uint64_t epoch,
			     struct data_sample *ret)
{
	void *fields[LH_DATA_FIELDS_MAX];
	struct lh_error err = {0};

	for (int i = 0; i < LH_DATA_FIELDS_MAX; i++)
		fields[i] = ret->fields[i].f;
	memset(ret, 0, sizeof(*ret));
	if (lh_dataset_read(ds, index, epoch, fields, &err) < 0)
		fail_msg("%s", err.message);
}

/* A tar archive being made. */
struct data_tar {
	uint8_t bytes[1 << 18];
	size_t n;
};

/* Adds a member; type is as in the header, '0' for a file. */
static inline void data_tar_add(struct data_tar *t, const char *name, char type,
				const void *content, size_t n)
{
	uint8_t *h = t->bytes + t->n;
	unsigned sum = 0;

	assert_true(t->n + 1024 + n < sizeof(t->bytes));
	memset(h, 0, 512);
	memcpy(h, name, strlen(name) < 100 ? strlen(name) : 100);
	snprintf((char *)h + 100, 8, "0000644");
	snprintf((char *)h + 124, 12, "%011o", (unsigned)n);
	memset(h + 148, ' ', 8);
	h[156] = (uint8_t)type;
	memcpy(h + 257,
	       "ustar\0"
	       "00",
	       8);
	for (int i = 0; i < 512; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
	memcpy(h + 512, content, n);
	memset(h + 512 + n, 0, (512 - n % 512) % 512);
	t->n += 512 + (n + 511) / 512 * 512;
}

/* Adds the two blocks of zeros. */
static inline void data_tar_end(struct data_tar *t)
{
	memset(t->bytes + t->n, 0, 1024);
	t->n += 1024;
}

/* A WAV file of n samples per channel into ret[44 + ...]; returns its size. */
static inline size_t data_wav(uint8_t *ret, uint32_t rate_hz, uint32_t n_channels,
			      const int16_t *samples, uint32_t n)
{
	uint32_t n_bytes = 2 * n * n_channels;
	const uint32_t head[11] = {0x46464952,
				   36 + n_bytes,
				   0x45564157,
				   0x20746d66,
				   16,
				   1 | n_channels << 16,
				   rate_hz,
				   rate_hz * 2 * n_channels,
				   2 * n_channels | 16 << 16,
				   0x61746164,
				   n_bytes};

	memcpy(ret, head, sizeof(head)); /* of little-endian machines */
	memcpy(ret + sizeof(head), samples, n_bytes);
	return sizeof(head) + n_bytes;
}

#endif
