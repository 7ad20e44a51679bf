/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting parameters over ranks, and the real numbers that go along. */
#include "trainer/strategy/strategy.h"

#include "core/rng.h"
#include "tests/unit/test.h"
#include "trainer/job.h"
#include "trainer/strategy/sample.h"
#include "trainer/strategy/shard.h"

static void assert_splits(uint64_t parameters, uint32_t n)
{
	uint64_t sum = 0, sent = 0, least = UINT64_MAX, most = 0;

	for (uint32_t rank = 0; rank < n; rank++) {
		uint64_t shard = lh_shard_elements(parameters, n, rank);

		sum += shard;
		sent += lh_shard_butterfly_elements(parameters, n, rank);
		least = shard < least ? shard : least;
		most = shard > most ? shard : most;
	}
	assert_true(sum == parameters);
	assert_true(most - least <= 1);
	assert_true(sent == 2 * (uint64_t)(n - 1) * parameters);
}

static void test_shards_are_a_partition_and_bytes_are_exact(void **state)
{
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "shard");
	for (uint32_t n = 1; n <= LH_JOB_RANKS_MAX; n++) {
		assert_splits(1, n);
		assert_splits(n - 1, n);
		assert_splits(197767336, n);
		for (int i = 0; i < 100; i++)
			assert_splits(lh_rng_below(&rng, UINT64_C(1) << 40), n);
	}
}

static void test_slices_stay_within_what_all_can_work_out(void **state)
{
	(void)state;
	assert_int_equal(lh_sample_slice_elements(1, 2), 4096);
	assert_int_equal(lh_sample_slice_elements(32, 32), 1024);
	for (uint32_t n = 2; n <= LH_JOB_RANKS_MAX; n++) {
		uint64_t most = lh_sample_slice_elements(n, n);

		assert_true(most >= 8 && most <= 4096);
		assert_true(most == 8 || most * n <= 32768);
		assert_true(most == 8 || most * n * n <= 1 << 20);
	}
}

static void test_a_weighted_average_is_one(void **state)
{
	float a[] = {1.0f, -2.0f}, b[] = {4.0f, 1.0f};

	(void)state;
	lh_sample_weigh(a, 2, 1, 3, 2);
	lh_sample_weigh(b, 2, 2, 3, 2);
	assert_near((a[0] + b[0]) / 2, 3.0, 1e-6);
	assert_near((a[1] + b[1]) / 2, 0.0, 1e-6);
}

static void test_gradients_repeat_and_differ_by_rank_epoch_and_chunk(void **state)
{
	float first[16], again[16], other[16];

	(void)state;
	lh_sample_draw(7, 2, 1, 2, 8, first);
	lh_sample_draw(7, 2, 1, 2, 8, again);
	assert_memory_equal(first, again, sizeof(first));
	assert_memory_not_equal(first, first + 8, sizeof(first) / 2);
	lh_sample_draw(7, 3, 1, 2, 8, other);
	assert_memory_not_equal(first, other, sizeof(first));
	lh_sample_draw(7, 2, 0, 2, 8, other);
	assert_memory_not_equal(first, other, sizeof(first));
	lh_sample_draw(8, 2, 1, 2, 8, other);
	assert_memory_not_equal(first, other, sizeof(first));
	for (int i = 0; i < 16; i++)
		assert_true(fabsf(first[i]) <= 1.0f / 64);
}

static void test_strategies_are_found_by_name(void **state)
{
	(void)state;
	for (size_t i = 0; lh_strategies[i]; i++)
		assert_ptr_equal(lh_strategy_find(lh_strategies[i]->name), lh_strategies[i]);
	assert_null(lh_strategy_find("moth"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shards_are_a_partition_and_bytes_are_exact),
		cmocka_unit_test(test_slices_stay_within_what_all_can_work_out),
		cmocka_unit_test(test_a_weighted_average_is_one),
		cmocka_unit_test(test_gradients_repeat_and_differ_by_rank_epoch_and_chunk),
		cmocka_unit_test(test_strategies_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
