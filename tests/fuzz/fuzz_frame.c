/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a frame, as they are and with the right checksum (which a fuzzer would never
 * find): what is taken for a frame is written again as the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "trainer/transport/frame.h"

enum { AT_CHECKSUM = 60 };

const char lh_fuzz_name[] = "frame";
const char *const lh_fuzz_words[] = {"LHT1", "\001", "\377\377\377\377", "\177", NULL};

static void check(const uint8_t bytes[static LH_FRAME_BYTES])
{
	uint8_t again[LH_FRAME_BYTES];
	struct lh_frame frame;
	struct lh_error err = {0};
	int r = lh_frame_parse(bytes, &frame, &err);

	if (r < 0) {
		if (!err.message[0])
			abort();
		return;
	}
	lh_frame_format(&frame, again);
	if (memcmp(bytes, again, sizeof(again)) != 0) {
		fprintf(stderr, "a frame comes back as another\n");
		abort();
	}
}

/* Writes FNV-1a of what is before it, as frame.h says. */
static void seal(uint8_t bytes[static LH_FRAME_BYTES])
{
	uint32_t hash = 0x811c9dc5u;

	for (int i = 0; i < AT_CHECKSUM; i++)
		hash = (hash ^ bytes[i]) * 0x01000193u;
	for (int i = 0; i < 4; i++)
		bytes[AT_CHECKSUM + i] = (uint8_t)(hash >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[LH_FRAME_BYTES] = {0};

	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	check(bytes);
	seal(bytes);
	check(bytes);
	return 0;
}
