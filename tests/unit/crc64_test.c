/* SPDX-License-Identifier: Apache-2.0 */
/* The checksum against its published check value and against itself, bit by bit. */
#include "core/crc64.h"

#include "tests/unit/test.h"

static uint64_t crc_of(const void *data, size_t size)
{
	struct lh_crc64 crc;

	lh_crc64_init(&crc);
	lh_crc64_add(&crc, data, size);
	return lh_crc64_value(&crc);
}

static void test_check_values(void **state)
{
	(void)state;
	assert_true(crc_of("", 0) == 0);
	assert_true(crc_of("123456789", 9) == 0x995dc9bbdf1939fa);
}

/* The definition, a bit at a time. */
static uint64_t slow_crc_of(const uint8_t *data, size_t size)
{
	uint64_t state = ~UINT64_C(0);

	for (size_t i = 0; i < 8 * size; i++) {
		uint64_t bit = ((uint64_t)data[i / 8] >> i % 8 ^ state) & 1;

		state = state >> 1 ^ (bit ? 0xc96c5795d7870f42 : 0);
	}
	return ~state;
}

static void test_pieces_give_what_the_whole_gives(void **state)
{
	uint8_t data[100];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * i + 7 * i);
	for (size_t size = 0; size <= sizeof(data); size++) {
		uint64_t whole = slow_crc_of(data, size);

		assert_true(crc_of(data, size) == whole);
		for (size_t cut = 0; cut <= size; cut++) {
			struct lh_crc64 crc;

			lh_crc64_init(&crc);
			lh_crc64_add(&crc, data, cut);
			lh_crc64_add(&crc, data + cut, size - cut);
			assert_true(lh_crc64_value(&crc) == whole);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check_values),
		cmocka_unit_test(test_pieces_give_what_the_whole_gives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
