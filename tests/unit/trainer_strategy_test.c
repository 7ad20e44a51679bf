/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting parameters over ranks, and the real numbers that go along. */
#include "trainer/strategy/strategy.h"

#include "core/rng.h"
#include "tests/unit/test.h"
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

static void test_samples_cover_every_shard_within_bounds(void **state)
{
	static const uint64_t sizes[] = {1, 63, 64, 1000, 197767336};
	struct lh_sample_layout layout;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(sizes); i++)
		for (uint32_t n = 1; n <= LH_JOB_RANKS_MAX; n++) {
			uint32_t total = 0;

			lh_sample_layout_init(&layout, sizes[i], n);
			for (uint32_t shard = 0; shard < n; shard++) {
				uint64_t elements = lh_shard_elements(sizes[i], n, shard);

				assert_int_equal(layout.at[shard], total);
				assert_true(layout.elements[shard] <= elements);
				assert_true(!elements == !layout.elements[shard]);
				total += layout.elements[shard];
			}
			assert_int_equal(layout.total, total);
			assert_true(total > 0 && total <= 32768);
		}
}

static void test_a_weighted_average_is_one(void **state)
{
	const float a[] = {1.0f, -2.0f}, b[] = {4.0f, 1.0f};
	float sum[2] = {0};

	(void)state;
	lh_sample_add(sum, a, 2, 1);
	lh_sample_add(sum, b, 2, 2);
	lh_sample_divide(sum, 2, 3);
	assert_near(sum[0], 3.0, 0.0);
	assert_near(sum[1], 0.0, 0.0);
}

static void test_gradients_repeat_and_differ_by_rank_and_epoch(void **state)
{
	struct lh_sample_layout layout;
	float first[8], again[8], other[8];

	(void)state;
	lh_sample_layout_init(&layout, 8, 2);
	lh_sample_draw(&layout, 7, 1, 2, first);
	lh_sample_draw(&layout, 7, 1, 2, again);
	assert_memory_equal(first, again, sizeof(first));
	lh_sample_draw(&layout, 7, 1, 3, other);
	assert_memory_not_equal(first, other, sizeof(first));
	lh_sample_draw(&layout, 7, 0, 2, other);
	assert_memory_not_equal(first, other, sizeof(first));
	for (int i = 0; i < 8; i++)
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
		cmocka_unit_test(test_samples_cover_every_shard_within_bounds),
		cmocka_unit_test(test_a_weighted_average_is_one),
		cmocka_unit_test(test_gradients_repeat_and_differ_by_rank_and_epoch),
		cmocka_unit_test(test_strategies_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
