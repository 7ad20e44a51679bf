/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a tar shard, as they are and with right checksums (which a fuzzer would never
 * find): members and samples lie within it; what is refused is refused with a message.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/data/tar.h"
#include "trainer/data/webdataset.h"

const char lh_fuzz_name[] = "tar";
const char *const lh_fuzz_words[] = {"ustar", "L",	"x",	       "g",
				     "S",     "5",	"00000000001", "77777777777",
				     "\x80",  " path=", " size=",      "12 path=abc\n",
				     ".cls",  ".ppm",	".wav",	       ".txt",
				     "/",     ".",	"0000",	       NULL};

enum { BLOCK = 512, AT_CHECKSUM = 148, AT_MAGIC = 257 };

static void expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "tar: %s\n", what);
	abort();
}

static bool is_within(const uint8_t *p, size_t n, const uint8_t *data, size_t size)
{
	return p >= data && n <= size && p <= data + size - n;
}

static void walk(const uint8_t *data, size_t size)
{
	static struct lh_tar tar;
	struct lh_wds_index index = {0};
	struct lh_error err = {0};
	int r;

	lh_tar_init(&tar, "fuzz.tar", data, size);
	while ((r = lh_tar_next(&tar, &err)) > 0) {
		expect(is_within(tar.content, tar.content_size, data, size), "content outside");
		expect(memchr(tar.name, '\0', sizeof(tar.name)) != NULL, "a name without end");
	}
	expect(r == 0 || err.message[0], "an error without a message");
	r = lh_wds_index_add(&index, 0, "fuzz.tar", data, size, &err);
	expect(r == 0 || err.message[0], "an error without a message");
	for (size_t i = 0; i < index.n; i++)
		for (int p = 0; p < LH_WDS_N_PARTS; p++) {
			int32_t label;

			if (!(index.samples[i].has & 1u << p))
				continue;
			expect(is_within(index.samples[i].parts[p].data,
					 index.samples[i].parts[p].size, data, size),
			       "a part outside");
			if (lh_wds_label(index.samples[i].parts[p].data,
					 index.samples[i].parts[p].size, &label) == 0)
				expect(label >= 0, "a negative label");
		}
	lh_wds_index_done(&index);
}

/* Makes the checksum of each block that looks like a header right. */
static void seal(uint8_t *data, size_t size)
{
	for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
		uint8_t *h = data + at;
		unsigned sum = 0;

		if (memcmp(h + AT_MAGIC, "ustar", 5) != 0)
			continue;
		memset(h + AT_CHECKSUM, ' ', 8);
		for (int i = 0; i < BLOCK; i++)
			sum += h[i];
		snprintf((char *)h + AT_CHECKSUM, 8, "%06o", sum);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	lh_cleanup_free uint8_t *copy = malloc(size + !size);

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	walk(copy, size);
	seal(copy, size);
	walk(copy, size);
	return 0;
}
