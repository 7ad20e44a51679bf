/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a click log of two numbers and two categories: each line gives numbers, or a
 * message with its number; a log that opens can be read throughout.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "trainer/data/ctr.h"
#include "trainer/data/dataset.h"

const char lh_fuzz_name[] = "ctr";
const char *const lh_fuzz_words[] = {",",  "\t",  "\n",	 "\r\n",  "0",	"1",	  "-", "1e38",
				     ".5", "nan", "inf", "0x1p9", "\"", "label,", NULL};

enum { DENSE = 2, SPARSE = 2, BUCKETS = 7 };

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "ctr: %s\n", what);
	abort();
}

static void check(const struct lh_ctr_row *row)
{
	expect(row->label == 0 || row->label == 1, "label");
	for (int i = 0; i < DENSE; i++)
		expect(isfinite(row->dense[i]), "a number that is none");
	for (int i = 0; i < SPARSE; i++)
		expect(row->sparse[i] >= 0 && row->sparse[i] < BUCKETS, "a category out of range");
}

/* Ready for any line, whatever the one before was. */
static void parse_lines(const char *text, size_t size, char separator)
{
	const struct lh_ctr_shape shape = {DENSE, SPARSE, BUCKETS, separator};
	uint64_t number = 0;

	while (size) {
		const char *stop = memchr(text, '\n', size);
		size_t n = stop ? (size_t)(stop - text) : size;
		float dense[DENSE];
		int32_t sparse[SPARSE];
		struct lh_ctr_row row = {0, dense, sparse};
		struct lh_error err = {0};

		if (lh_ctr_parse(&shape, "fuzz", ++number, text, n, &row, &err) == 0)
			check(&row);
		else
			expect(strncmp(err.message, "fuzz:", 5) == 0, "a message without a place");
		text += n + (stop != NULL);
		size -= n + (stop != NULL);
	}
}

static void open_file(const char *path)
{
	const struct lh_data_request spec = {.kind = "ctr",
					     .path = path,
					     .n_dense = DENSE,
					     .n_sparse = SPARSE,
					     .n_buckets = BUCKETS,
					     .test_ratio = 1e-9};
	struct lh_dataset *ds = NULL;
	struct lh_error err = {0};
	float dense[DENSE];
	int32_t sparse[SPARSE];
	struct lh_ctr_row row = {0, dense, sparse};
	void *fields[] = {dense, sparse, &row.label};

	if (lh_dataset_open(&spec, &ds, &err) < 0)
		expect(err.message[0] && !ds, "an error without a message");
	for (uint64_t i = 0; ds && i < lh_dataset_size(ds); i++) {
		expect(lh_dataset_read(ds, i, 0, fields, &err) == 0, err.message);
		expect(lh_dataset_label(ds, i) == (int)row.label, "two labels");
		check(&row);
	}
	lh_dataset_free(ds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[] = "/tmp/lh-fuzz-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
	parse_lines((const char *)data, size, ',');
	parse_lines((const char *)data, size, '\t');
	open_file(path);
	unlink(path);
	return 0;
}
