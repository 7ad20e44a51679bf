/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shares.h"

#include <math.h>

#include "core/rng.h"
#include "tests/unit/test.h"

enum { N_MAX = 8, CASES = 500 };

static void test_shares_are_those_worked_out_by_hand(void **state)
{
	static const struct {
		double weights[3];
		uint32_t micro_batches[3];
		uint64_t target, expected[3];
	} cases[] = {
		{{1, 1, 2}, {32, 32, 32}, 512, {4, 4, 8}},
		{{1, 1, 1}, {32, 32, 32}, 511, {6, 5, 5}},
		{{0.6, 0.2, 0.2}, {32, 32, 32}, 3200, {60, 20, 20}},
		{{1, 1, 0}, {10, 20, 5}, 100, {5, 3, 0}},
		{{1, 1, 1}, {64, 64, 64}, 128, {1, 1, 0}},
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct lh_share shares[3];

		for (size_t i = 0; i < 3; i++)
			shares[i] = (struct lh_share){cases[c].weights[i],
						      cases[c].micro_batches[i], 77};
		lh_shares_compute(shares, 3, cases[c].target);
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(shares[i].micro_batches, cases[c].expected[i]);
	}
}

static void test_the_target_is_reached_and_nobody_is_far_from_its_share(void **state)
{
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 3, "shares");
	for (size_t c = 0; c < CASES; c++) {
		struct lh_share shares[N_MAX];
		size_t n = 1 + (size_t)lh_rng_below(&rng, N_MAX);
		uint64_t target = 1 + lh_rng_below(&rng, 100000), samples = 0;
		uint32_t largest = 0;
		double sum = 0;

		for (size_t i = 0; i < n; i++) {
			shares[i] = (struct lh_share){.weight = 0.01 + lh_rng_uniform(&rng),
						      .micro_batch =
							      1 + (uint32_t)lh_rng_below(&rng, 64)};
			sum += shares[i].weight;
			largest = shares[i].micro_batch > largest ? shares[i].micro_batch : largest;
		}
		lh_shares_compute(shares, n, target);
		for (size_t i = 0; i < n; i++) {
			double ideal =
				(double)target * shares[i].weight / sum / shares[i].micro_batch;

			samples += shares[i].micro_batches * shares[i].micro_batch;
			assert_true((double)shares[i].micro_batches > ideal - 1);
			assert_true((double)shares[i].micro_batches <= ideal + 1);
		}
		assert_true(samples >= target && samples < target + largest);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares_are_those_worked_out_by_hand),
		cmocka_unit_test(test_the_target_is_reached_and_nobody_is_far_from_its_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
