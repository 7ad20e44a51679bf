/* SPDX-License-Identifier: Apache-2.0 */
/* How long replayed work takes where it goes slower at times. */
#include "trainer/compute/replay.h"

#include "tests/unit/test.h"

static void test_work_is_stretched_by_what_it_meets(void **state)
{
	/* slow from 100 to 200 (twice) and from 300 on (four times) */
	static const struct lh_job_slow slow[] = {{100, 200, 2}, {300, INT64_MAX, 4}};
	static const struct {
		int64_t begin_ns, work_ns, takes_ns;
	} cases[] = {
		{0, 50, 50},	 /* before */
		{0, 100, 100},	 /* up to it */
		{100, 10, 20},	 /* inside */
		{90, 20, 30},	 /* in part: 10 before, 10 inside */
		{150, 50, 75},	 /* 25 inside, which take 50, and 25 after */
		{100, 50, 100},	 /* all of it */
		{50, 200, 250},	 /* 50 before, 50 in the first span, 100 between */
		{200, 100, 100}, /* between */
		{250, 60, 90},	 /* 50 before, 10 inside the open end */
		{1000, 7, 28},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		int64_t takes_ns = lh_replay_stretch_ns(slow, N_ELEMENTS(slow), cases[i].begin_ns,
							cases[i].work_ns);

		assert_int_equal(takes_ns, cases[i].takes_ns);
	}
}

static void test_the_longest_work_does_not_overflow(void **state)
{
	static const struct lh_job_slow slow[] = {{0, INT64_MAX, 1000}};

	(void)state;
	assert_true(lh_replay_stretch_ns(slow, 1, 0, INT64_MAX / 8) == INT64_MAX / 4);
}

static void test_only_slow_ranks_are_slow(void **state)
{
	struct lh_job_slow slow[] = {{0, 1000000000, 3}};
	struct lh_job_rank ranks[] = {
		{.micro_batch = 32, .samples_per_s = 32},
		{.micro_batch = 32, .samples_per_s = 32, .slow = slow, .n_slow = 1}};
	struct lh_job job = {.seed = 1, .n_ranks = 2, .ranks = ranks};
	struct lh_replay replay;

	(void)state;
	lh_replay_init(&replay, &job, 0);
	assert_int_equal(lh_replay_next_ns(&replay, 0), 1000000000);
	lh_replay_init(&replay, &job, 1);
	/* a third is done when the span ends */
	assert_int_equal(lh_replay_next_ns(&replay, 0), 1666666667);
	assert_int_equal(lh_replay_next_ns(&replay, 1000000000), 1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_work_is_stretched_by_what_it_meets),
		cmocka_unit_test(test_the_longest_work_does_not_overflow),
		cmocka_unit_test(test_only_slow_ranks_are_slow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
