/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics against tables of Student's t and samples worked by hand. */
#include "tests/unit/test.h"

#include "collect/stats.h"

static void t_is_that_of_the_tables(void **state)
{
	static const struct {
		size_t df;
		double t;
	} cases[] = {
		{1, 12.7062047}, {2, 4.3026527},   {3, 3.1824463},    {4, 2.7764451},
		{5, 2.5705818},	 {9, 2.2621572},   {10, 2.2281389},   {29, 2.0452296},
		{30, 2.0422725}, {100, 1.9839715}, {1000, 1.9623391},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_near(lh_stats_t975(cases[i].df), cases[i].t, 5e-7);
}

static void interval_of_a_known_sample(void **state)
{
	static const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
	struct lh_sample_stats s = lh_stats_of(values, N_ELEMENTS(values));

	(void)state;
	assert_int_equal(s.n, 8);
	assert_near(s.mean, 5, 1e-12);
	assert_near(s.sd, sqrt(32.0 / 7), 1e-12);
	/* t(7) = 2.3646243, sd / sqrt(8) = 0.7559289 */
	assert_near(s.ci95_low, 5 - 1.7874879, 1e-6);
	assert_near(s.ci95_high, 5 + 1.7874879, 1e-6);
}

static void one_value_has_no_interval(void **state)
{
	const double value = 3;
	struct lh_sample_stats s = lh_stats_of(&value, 1);

	(void)state;
	assert_near(s.mean, 3, 0);
	assert_true(isnan(s.sd) && isnan(s.ci95_low) && isnan(s.ci95_high));
	assert_true(isnan(lh_stats_of(NULL, 0).mean));
}

static void median_of_odd_and_even(void **state)
{
	double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};

	(void)state;
	assert_near(lh_stats_median(odd, 3), 5, 0);
	assert_near(lh_stats_median(even, 4), 2.5, 0);
	assert_true(isnan(lh_stats_median(NULL, 0)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_is_that_of_the_tables),
		cmocka_unit_test(interval_of_a_known_sample),
		cmocka_unit_test(one_value_has_no_interval),
		cmocka_unit_test(median_of_odd_and_even),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
