/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as files of records: as IDX images, as IDX labels and as CIFAR-10's test batch.
 * What is opened has samples that can be read, with labels in range.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/data/dataset.h"
#include "trainer/data/idx.h"

const char lh_fuzz_name[] = "records";
const char *const lh_fuzz_words[] = {"\x08\x03", "\x08\x01", "\x01", "\x02", "\xff\xff\xff\xff",
				     "\x7f",	 "\x1f\x8b", "\x0a", NULL};

enum { SAMPLES = 3, PIXELS_MAX = 1 << 16 };

static char folder[] = "/tmp/lh-fuzz-XXXXXX";

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "records: %s\n", what);
	abort();
}

static void read_some(struct lh_dataset *ds)
{
	static float image[PIXELS_MAX];
	uint64_t size = lh_dataset_size(ds);
	int32_t label;
	void *fields[] = {image, &label};
	struct lh_error err = {0};
	uint32_t n;
	size_t n_pixels = lh_data_field_elements(lh_dataset_fields(ds, &n));

	expect(size > 0 && n == 2, "no samples, or no labels");
	for (uint64_t i = 0; i < SAMPLES && n_pixels <= PIXELS_MAX; i++) {
		uint64_t sample = i * (size - 1) / (SAMPLES - 1);

		expect(lh_dataset_read(ds, sample, 0, fields, &err) == 0, err.message);
		expect(label >= 0 && (uint32_t)label < lh_dataset_n_labels(ds), "label");
		expect(label == lh_dataset_label(ds, sample), "two labels");
		for (size_t p = 0; p < n_pixels; p++)
			expect(isfinite(image[p]), "a pixel that is no number");
	}
}

static void open_as(const char *kind, enum lh_data_split split)
{
	const struct lh_data_request spec = {.kind = kind, .path = folder, .split = split};
	struct lh_dataset *ds = NULL;
	struct lh_error err = {0};
	int r = lh_dataset_open(&spec, &ds, &err);

	expect(r == 0 || (err.message[0] && !ds), "an error without a message");
	if (r == 0)
		read_some(ds);
	lh_dataset_free(ds);
}

static void remove_folder(void)
{
	lh_dir_remove(folder, NULL);
}

static void put(const char *name, const void *bytes, size_t n)
{
	lh_cleanup_free char *path = lh_path_join(folder, name);
	FILE *f;

	/* a new file each time: to rewrite one makes some file systems wait for the disk */
	expect(path != NULL, "memory");
	unlink(path);
	f = fopen(path, "we");
	expect(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "write a file");
}

/* The files that stay, and names for the one that changes. */
static void make_folder(void)
{
	static const char images[] = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x01"
				     "ab";
	static const char labels[] = "\0\0\x08\x01\0\0\0\x02\0\x01";
	static const char *const names[] = {"train-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
					    "test_batch.bin"};

	expect(mkdtemp(folder) != NULL, "make a folder");
	atexit(remove_folder);
	put("train-labels-idx1-ubyte", labels, sizeof(labels) - 1);
	put("t10k-images-idx3-ubyte", images, sizeof(images) - 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		lh_cleanup_free char *path = lh_path_join(folder, names[i]);

		expect(path && symlink("input", path) == 0, "make a link");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool is_ready;
	struct lh_idx idx;

	for (uint32_t n = 1; n <= LH_IDX_DIMS_MAX; n++)
		if (lh_idx_parse("fuzz", data, size, n, &idx, NULL) == 0)
			expect(idx.values + idx.dims[0] <= data + size, "values beyond the end");
	if (!is_ready)
		make_folder();
	is_ready = true;
	put("input", data, size);
	open_as("mnist", LH_DATA_TRAIN);
	open_as("mnist", LH_DATA_TEST);
	open_as("cifar10", LH_DATA_TEST);
	return 0;
}
