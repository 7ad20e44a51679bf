/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates at the corners of schedules, and between. */
#include "trainer/optim/schedule.h"

#include <string.h>

#include "tests/unit/test.h"

static struct lh_schedule schedule_of(const char *kind)
{
	return (struct lh_schedule){.kind = kind,
				    .lr = 0.4,
				    .final_ratio = 0.1,
				    .power = 2,
				    .warmup_steps = 10,
				    .total_steps = 110};
}

static void test_warm_up_is_a_line_to_the_peak(void **state)
{
	(void)state;
	for (const struct lh_schedule_kind *k = lh_schedules; k->name; k++) {
		struct lh_schedule s = schedule_of(k->name);

		for (uint64_t i = 0; i < 10; i++)
			assert_near(lh_schedule_lr(&s, i), 0.04 * (double)(i + 1), 1e-15);
		assert_near(lh_schedule_lr(&s, 10), 0.4, 1e-15);
	}
}

static void test_values_between_and_at_the_end(void **state)
{
	static const struct {
		const char *kind;
		double quarter, half, end;
	} cases[] = {
		{"constant", 0.4, 0.4, 0.4},
		{"cosine", 0.04 + 0.36 * 0.85355339059327376, 0.22, 0.04},
		{"linear", 0.31, 0.22, 0.04},
		{"polynomial", 0.04 + 0.36 * 0.5625, 0.13, 0.04},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_schedule s = schedule_of(cases[i].kind);
		struct lh_error err = {0};

		assert_int_equal(lh_schedule_check(&s, &err), 0);
		assert_near(lh_schedule_lr(&s, 35), cases[i].quarter, 1e-15);
		assert_near(lh_schedule_lr(&s, 60), cases[i].half, 1e-15);
		assert_near(lh_schedule_lr(&s, 110), cases[i].end, 1e-15);
		assert_near(lh_schedule_lr(&s, 1000000), cases[i].end, 1e-15);
		assert_near(lh_schedule_lr(&s, UINT64_MAX), cases[i].end, 1e-15);
	}
}

static void test_rates_never_rise_after_the_warm_up(void **state)
{
	(void)state;
	for (const struct lh_schedule_kind *k = lh_schedules; k->name; k++) {
		struct lh_schedule s = schedule_of(k->name);

		for (uint64_t i = 10; i < 120; i++)
			assert_true(lh_schedule_lr(&s, i + 1) <= lh_schedule_lr(&s, i));
	}
}

static void test_without_warm_up_the_first_step_has_the_peak(void **state)
{
	(void)state;
	for (const struct lh_schedule_kind *k = lh_schedules; k->name; k++) {
		struct lh_schedule s = schedule_of(k->name);

		s.warmup_steps = 0;
		assert_near(lh_schedule_lr(&s, 0), 0.4, 1e-15);
		s.total_steps = 1;
		assert_near(lh_schedule_lr(&s, 0), 0.4, 1e-15);
	}
}

static void test_polynomial_of_power_one_is_linear(void **state)
{
	struct lh_schedule a = schedule_of("linear"), b = schedule_of("polynomial");

	(void)state;
	b.power = 1;
	for (uint64_t i = 0; i < 120; i++)
		assert_near(lh_schedule_lr(&a, i), lh_schedule_lr(&b, i), 1e-16);
}

static void test_the_initial_one_is_constant(void **state)
{
	struct lh_schedule s;
	struct lh_error err = {0};

	(void)state;
	lh_schedule_init(0.3, &s);
	assert_int_equal(lh_schedule_check(&s, &err), 0);
	assert_near(lh_schedule_lr(&s, 0), 0.3, 0);
	assert_near(lh_schedule_lr(&s, 12345), 0.3, 0);
}

static void refuse(struct lh_schedule s, const char *message)
{
	struct lh_error err = {0};

	assert_int_equal(lh_schedule_check(&s, &err), LH_EINPUT);
	if (!strstr(err.message, message))
		fail_msg("'%s' lacks '%s'", err.message, message);
}

static void test_what_has_no_sense_is_refused(void **state)
{
	struct lh_schedule s = schedule_of("cosine");

	(void)state;
	s.kind = "step";
	refuse(s, "no schedule is called step; expected one of constant, cosine, linear");
	s.kind = NULL;
	refuse(s, "no schedule is called (nothing)");
	s = schedule_of("cosine");
	s.lr = 0;
	refuse(s, "lr is 0; expected more than 0");
	s = schedule_of("cosine");
	s.final_ratio = 1.5;
	refuse(s, "final_ratio is 1.5; expected 0 to 1");
	s = schedule_of("polynomial");
	s.power = -1;
	refuse(s, "power is -1");
	s = schedule_of("linear");
	s.total_steps = 10;
	refuse(s, "schedule linear: 10 steps in all; expected more than the 10 of the warm-up");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_warm_up_is_a_line_to_the_peak),
		cmocka_unit_test(test_values_between_and_at_the_end),
		cmocka_unit_test(test_rates_never_rise_after_the_warm_up),
		cmocka_unit_test(test_without_warm_up_the_first_step_has_the_peak),
		cmocka_unit_test(test_polynomial_of_power_one_is_linear),
		cmocka_unit_test(test_the_initial_one_is_constant),
		cmocka_unit_test(test_what_has_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
