/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on a machine, from canned measurements. */
#include "emulator/fitness.h"

#include <string.h>

#include "tests/unit/test.h"

static const struct lh_fitness_spec spec = {.timer_lateness_ns = 1000000, .rate_headroom = 2};

static struct lh_fitness judged(struct lh_fitness f, const struct lh_fitness_spec *by,
				double asked_bps)
{
	lh_fitness_judge(&f, by, asked_bps);
	return f;
}

static struct lh_fitness measured(int64_t timer_ns, int64_t guest_ns, double carried_bps)
{
	return (struct lh_fitness){.is_measured = true,
				   .timer_p99_ns = timer_ns,
				   .guest_timer_p99_ns = guest_ns,
				   .carried_bps = carried_bps};
}

static void test_what_is_within_its_limits_is_fit(void **state)
{
	(void)state;
	assert_true(judged(measured(1000000, -1, 2e9), &spec, 1e9).ok);
	assert_true(judged(measured(1, 1000000, 2e9), &spec, 1e9).ok);
	assert_true(judged(measured(1, -1, -1), &spec, 1e12).ok); /* one node alone */
	assert_true(judged((struct lh_fitness){.timer_p99_ns = 1 << 30}, &spec, 1e12).ok);
}

static void test_the_measure_that_fails_is_named(void **state)
{
	struct lh_fitness f = judged(measured(1000001, -1, 9e9), &spec, 1e9);

	(void)state;
	assert_false(f.ok);
	assert_non_null(strstr(f.message, "its timers are late"));
	f = judged(measured(1, 1000001, 9e9), &spec, 1e9);
	assert_false(f.ok);
	assert_non_null(strstr(f.message, "the guest's timers are late"));
	f = judged(measured(1, -1, 1.9e9), &spec, 1e9);
	assert_false(f.ok);
	assert_non_null(strstr(f.message, "carries 1900 Mbit/s"));
	assert_non_null(strstr(f.message, "1000 Mbit/s were asked for"));
}

static void test_a_limit_of_zero_judges_nothing(void **state)
{
	const struct lh_fitness_spec rate = {.rate_headroom = 2}, timer = {.timer_lateness_ns = 1};

	(void)state;
	assert_true(judged(measured(1 << 30, 1 << 30, 2e9), &rate, 1e9).ok);
	assert_true(judged(measured(1, -1, 1), &timer, 1e9).ok);
}

static void test_the_worse_of_two_measurements_of_timers_counts(void **state)
{
	struct lh_fitness f = measured(500000, -1, 9e9), none = {.is_measured = false};

	(void)state;
	lh_fitness_note_timer(&f, 0.1);
	assert_true(f.timer_p99_ns == 500000);
	lh_fitness_note_timer(&f, 3);
	assert_true(f.timer_p99_ns == 3000000);
	lh_fitness_note_timer(&none, 3);
	assert_null(lh_fitness_to_json(&none, &spec));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_within_its_limits_is_fit),
		cmocka_unit_test(test_the_measure_that_fails_is_named),
		cmocka_unit_test(test_a_limit_of_zero_judges_nothing),
		cmocka_unit_test(test_the_worse_of_two_measurements_of_timers_counts),
	};

	return cmocka_run_group_tests_name("fitness", tests, NULL, NULL);
}
