/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: there and back, and what is none. */
#include "trainer/transport/frame.h"

#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

static const struct lh_frame full = {
	.type = LH_FRAME_DATA,
	.flags = LH_FRAME_STOPPED | LH_FRAME_JOINED,
	.rank = 65535,
	.part = 513,
	.epoch = 0xfedcba98,
	.samples = UINT64_MAX,
	.time_ns = -123456789012345,
	.step_ns = 987654321,
	.length = UINT64_C(0x123456789abcdef0),
	.token = UINT64_C(0xfedcba9876543210),
	.head_bytes = 0x87654321,
};

static void test_a_frame_comes_back_as_it_went(void **state)
{
	uint8_t bytes[LH_FRAME_BYTES], again[LH_FRAME_BYTES];
	struct lh_frame got;
	struct lh_error err = {0};

	(void)state;
	lh_frame_format(&full, bytes);
	assert_int_equal(lh_frame_parse(bytes, &got, &err), 0);
	lh_frame_format(&got, again);
	assert_memory_equal(bytes, again, sizeof(bytes));
	assert_true(got.time_ns == full.time_ns && got.length == full.length);
	assert_memory_equal(bytes, "LHT1\001", 5);
}

static void test_every_flipped_bit_is_refused(void **state)
{
	uint8_t bytes[LH_FRAME_BYTES];
	struct lh_frame got;

	(void)state;
	lh_frame_format(&full, bytes);
	for (int bit = 0; bit < LH_FRAME_BYTES * 8; bit++) {
		struct lh_error err = {0};

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(lh_frame_parse(bytes, &got, &err), LH_ERUN);
		assert_true(err.message[0]);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void test_impossible_fields_are_refused(void **state)
{
	struct lh_frame wrong[] = {full, full, full, full};
	uint8_t bytes[LH_FRAME_BYTES];
	struct lh_frame got;

	(void)state;
	wrong[0].type = LH_FRAME_TYPE_END;
	wrong[1].flags = 4;
	wrong[2].time_ns = INT64_MIN;
	wrong[3].step_ns = -1;
	for (size_t i = 0; i < N_ELEMENTS(wrong); i++) {
		lh_frame_format(&wrong[i], bytes);
		assert_int_equal(lh_frame_parse(bytes, &got, NULL), LH_ERUN);
	}
}

static void test_garbage_is_refused(void **state)
{
	uint8_t bytes[LH_FRAME_BYTES];
	struct lh_frame got;
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "garbage");
	for (int i = 0; i < 100000; i++) {
		for (size_t k = 0; k < sizeof(bytes); k += sizeof(uint64_t)) {
			uint64_t word = lh_rng_next(&rng);

			memcpy(bytes + k, &word, sizeof(word));
		}
		if (i % 2)
			memcpy(bytes, "LHT1\001", 5);
		assert_int_equal(lh_frame_parse(bytes, &got, NULL), LH_ERUN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_frame_comes_back_as_it_went),
		cmocka_unit_test(test_every_flipped_bit_is_refused),
		cmocka_unit_test(test_impossible_fields_are_refused),
		cmocka_unit_test(test_garbage_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
