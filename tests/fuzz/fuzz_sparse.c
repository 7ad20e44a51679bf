/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a sparse message, and as what each codec decodes: a message that is taken has
 * ascending indices below the number it is about, and is written again as the same bytes; codecs
 * take all bytes of the right length. The first byte is that number or the elements.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "trainer/compress/compress.h"
#include "trainer/compress/sparse.h"

enum { CAPACITY = 100, ELEMENTS_MAX = 16384 };

const char lh_fuzz_name[] = "sparse";
const char *const lh_fuzz_words[] = {"\001", "\002", "\377\377\377\377", "\177", "\200", NULL};

static void complain(const char *what)
{
	fprintf(stderr, "%s\n", what);
	abort();
}

static void check_message(const uint8_t *data, size_t size, uint32_t n)
{
	uint32_t indices[CAPACITY];
	float values[CAPACITY], sum[UINT8_MAX + 1] = {0};
	struct lh_sparse message = {0, indices, values};
	uint8_t again[4 + 8 * CAPACITY];
	struct lh_error err = {0};

	if (lh_sparse_parse(data, size, n, CAPACITY, &message, &err) < 0) {
		if (!err.message[0])
			complain("a message is refused without a word");
		return;
	}
	for (uint32_t i = 0; i < message.count; i++)
		if (indices[i] >= n || (i && indices[i] <= indices[i - 1]))
			complain("indices do not ascend below their number");
	lh_sparse_add(&message, 0.5f, sum);
	if (lh_sparse_wire_bytes(message.count) != size)
		complain("a message has another length than its bytes");
	lh_sparse_write(&message, again);
	if (memcmp(again, data, size) != 0)
		complain("a message comes back as another");
}

static void check_codecs(const uint8_t *data, size_t size)
{
	static float values[ELEMENTS_MAX];

	for (size_t i = 0; lh_codecs[i]; i++) {
		size_t n = 0;

		/* the most elements that these bytes can be */
		for (size_t step = ELEMENTS_MAX / 2; step; step /= 2)
			if (lh_codecs[i]->wire_bytes(n + step) <= size)
				n += step;
		lh_codecs[i]->decode(data, n, values);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	check_message(data + 1, size - 1, data[0]);
	check_codecs(data + 1, size - 1);
	return 0;
}
