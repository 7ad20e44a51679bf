/* SPDX-License-Identifier: Apache-2.0 */
/* Rates as the kernel takes them. What the kernel makes of them is read back in every run. */
#include "emulator/qdisc.h"

#include "tests/unit/test.h"

/* row 30 */
static void test_bits_become_the_nearest_bytes(void **state)
{
	static const struct {
		int64_t bps;
		int64_t bytes_per_s;
	} cases[] = {
		{0, 1},
		{1, 1},
		{8, 1},
		{11, 1},
		{12, 2},
		{210000000, 26250000},
		{34359738352, 4294967294}, /* just below what 32 bits hold */
		{34359738360, 4294967295},
		{34359738368, 4294967296},
		{45000000000, 5625000000},
		{1000000000000, 125000000000},
		{INT64_MAX, INT64_MAX / 8 + 1},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_true(lh_rate_to_kernel(cases[i].bps) == cases[i].bytes_per_s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits_become_the_nearest_bytes),
	};

	return cmocka_run_group_tests_name("qdisc", tests, NULL, NULL);
}
