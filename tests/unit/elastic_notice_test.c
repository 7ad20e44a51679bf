/* SPDX-License-Identifier: Apache-2.0 */
/* Notices to bytes and back, whole, cut and damaged. */
#include "trainer/elastic/notice.h"

#include <string.h>

#include "tests/unit/test.h"

static const struct lh_notice_member members[] = {
	{.rank = 0, .session = 3, .group = 0, .from = 4, .to = 9},
	{.rank = 2, .session = 7, .group = 1, .flags = LH_NOTICE_SPOILED, .from = 1, .to = 1},
	{.rank = 511, .session = 8, .group = 0, .from = 0, .to = UINT64_C(1) << 40},
};

static struct lh_notice begin_of(void)
{
	return (struct lh_notice){.kind = LH_NOTICE_BEGIN,
				  .rank = 5,
				  .epoch = 6,
				  .serial = UINT32_MAX,
				  .count = 7,
				  .number = UINT64_MAX,
				  .time_ns = 8,
				  .n_members = 3,
				  .members = (struct lh_notice_member *)(uintptr_t)members};
}

static int parse(const uint8_t *bytes, size_t size, struct lh_notice *ret_notice)
{
	size_t measured;
	int rc = lh_notice_measure(bytes, &measured, NULL);

	if (rc)
		return rc;
	return measured == size ? lh_notice_parse(bytes, size, ret_notice, NULL) : LH_ERUN;
}

static void test_a_notice_comes_back_as_it_was(void **state)
{
	struct lh_notice notice = begin_of(), back;
	uint8_t bytes[LH_NOTICE_MAX_BYTES];

	(void)state;
	lh_notice_format(&notice, bytes);
	assert_int_equal(lh_notice_bytes(&notice), 64 + 3 * 32);
	assert_int_equal(parse(bytes, 64 + 3 * 32, &back), 0);
	assert_memory_equal(back.members, members, sizeof(members));
	assert_true(back.kind == notice.kind && back.rank == 5 && back.epoch == 6);
	assert_true(back.serial == UINT32_MAX && back.count == 7 && back.number == UINT64_MAX);
	assert_true(back.time_ns == 8 && back.n_members == 3);
	lh_notice_done(&back);
}

static void test_a_text_is_printable_when_it_comes(void **state)
{
	struct lh_notice notice = {.kind = LH_NOTICE_REFUSE}, back;
	uint8_t bytes[LH_NOTICE_MAX_BYTES];

	(void)state;
	strcpy(notice.text, "no\x1b[2J\nmore");
	lh_notice_format(&notice, bytes);
	assert_int_equal(parse(bytes, lh_notice_bytes(&notice), &back), 0);
	assert_string_equal(back.text, "no?[2J?more");
}

static void test_any_bit_that_flips_is_noticed(void **state)
{
	struct lh_notice notice = begin_of(), back;
	uint8_t bytes[LH_NOTICE_MAX_BYTES];
	size_t size = lh_notice_bytes(&notice);

	(void)state;
	lh_notice_format(&notice, bytes);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(parse(bytes, size, &back), LH_ERUN);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* Frames that are right, with what no notice has. */
static void test_what_no_notice_has_is_refused(void **state)
{
	static const struct lh_frame wrong[] = {
		{.type = LH_FRAME_DATA, .part = LH_NOTICE_JOIN},
		{.type = LH_FRAME_NOTICE, .part = 0},
		{.type = LH_FRAME_NOTICE, .part = LH_NOTICE_KIND_END},
		{.type = LH_FRAME_NOTICE, .part = LH_NOTICE_JOIN, .length = 32},
		{.type = LH_FRAME_NOTICE, .part = LH_NOTICE_BEGIN, .length = 31},
		{.type = LH_FRAME_NOTICE, .part = LH_NOTICE_BEGIN, .length = UINT64_MAX - 31},
		{.type = LH_FRAME_NOTICE, .part = LH_NOTICE_BEGIN, .length = 513 * 32},
		{.type = LH_FRAME_NOTICE, .part = LH_NOTICE_REFUSE, .length = 256},
		{.type = LH_FRAME_NOTICE, .part = LH_NOTICE_READY, .samples = UINT64_MAX},
		{.type = LH_FRAME_NOTICE, .part = LH_NOTICE_READY, .step_ns = INT64_C(1) << 32},
	};
	uint8_t bytes[LH_FRAME_BYTES];
	size_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		lh_frame_format(&wrong[i], bytes);
		assert_int_equal(lh_notice_measure(bytes, &size, NULL), LH_ERUN);
	}
}

static void test_members_that_cannot_be_are_refused(void **state)
{
	struct lh_notice_member wrong[][2] = {
		{{.rank = 1}, {.rank = 1}},
		{{.rank = 2}, {.rank = 1}},
		{{.rank = 0}, {.rank = 512}},
		{{.rank = 0, .from = 2, .to = 1}, {.rank = 1}},
		{{.rank = 0}, {.rank = 1, .to = UINT64_MAX}},
		{{.rank = 0, .group = 2}, {.rank = 1}},
		{{.rank = 0, .flags = 2}, {.rank = 1}},
	};
	uint8_t bytes[LH_NOTICE_MAX_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct lh_notice notice = {
			.kind = LH_NOTICE_BEGIN, .n_members = 2, .members = wrong[i]};
		struct lh_notice back;

		lh_notice_format(&notice, bytes);
		assert_int_equal(parse(bytes, lh_notice_bytes(&notice), &back), LH_ERUN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_notice_comes_back_as_it_was),
		cmocka_unit_test(test_a_text_is_printable_when_it_comes),
		cmocka_unit_test(test_any_bit_that_flips_is_noticed),
		cmocka_unit_test(test_what_no_notice_has_is_refused),
		cmocka_unit_test(test_members_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
