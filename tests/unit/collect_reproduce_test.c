/* SPDX-License-Identifier: Apache-2.0 */
/* Ours beside published figures: errors, bias and medians of a suite worked by hand. */
#include "tests/unit/test.h"

#include <string.h>

#include "collect/reproduce.h"

static char source[] = "table 3";

static const struct lh_reproduce_run runs[] = {
	{"A-2-cv", "cnn", true, 110, 5, 8, {100, 4, -1, source}},
	{"A-4-cv", "cnn", true, 190, 3, 9, {200, -1, 10, source}},
	{"A-2-nlp", "bert", true, 330, 2, 7, {300, -1, -1, source}},
	{"A-4-nlp", "bert", false, 900, 2, 7, {300, 2, 7, source}}, /* invalid: counts for nothing
								     */
	{"B-1-cv", "cnn", true, NAN, NAN, NAN, {100, 1, 1, source}},
	{"new", "cnn", true, 50, 1, 1, {-1, -1, -1, NULL}},
};

static double bias_of(const struct lh_reproduce *report, const char *model, const char *metric,
		      const char *what)
{
	json_t *o = json_object_get(json_object_get(report->json, "bias"), model);

	return json_real_value(json_object_get(json_object_get(o, metric), what));
}

static void errors_and_bias_are_as_worked_out_by_hand(void **state)
{
	struct lh_reproduce report = {0};

	(void)state;
	assert_int_equal(lh_reproduce_compare(runs, N_ELEMENTS(runs), &report, NULL), 0);
	assert_int_equal(report.table.n_rows, N_ELEMENTS(runs));
	assert_near(lh_table_cell(&report.table, 0, 4)->real, 10, 1e-9);
	assert_near(lh_table_cell(&report.table, 1, 4)->real, -5, 1e-9);
	assert_false(lh_table_cell(&report.table, 4, 4)->is_known);
	assert_string_equal(lh_table_cell(&report.table, 0, 10)->text, "table 3");
	assert_near(bias_of(&report, "cnn", "throughput_sps", "mean_bias_ratio"), 0.025, 1e-9);
	assert_near(bias_of(&report, "cnn", "throughput_sps", "median_abs_error_ratio"), 0.075,
		    1e-9);
	assert_near(bias_of(&report, "bert", "throughput_sps", "mean_bias_ratio"), 0.1, 1e-9);
	assert_near(bias_of(&report, "all", "throughput_sps", "mean_bias_ratio"), 0.05, 1e-9);
	assert_near(bias_of(&report, "all", "throughput_sps", "median_abs_error_ratio"), 0.1, 1e-9);
	assert_near(bias_of(&report, "all", "granularity", "mean_bias_ratio"), 0.25, 1e-9);
	assert_near(bias_of(&report, "all", "comm_s", "mean_bias_ratio"), -0.1, 1e-9);
	assert_string_equal(lh_table_cell(&report.bias, 0, 0)->text, "cnn");
	lh_reproduce_done(&report);
}

static void json_has_published_twins_only_where_known(void **state)
{
	struct lh_reproduce report = {0};
	json_t *experiments, *first, *last;

	(void)state;
	assert_int_equal(lh_reproduce_compare(runs, N_ELEMENTS(runs), &report, NULL), 0);
	experiments = json_object_get(report.json, "experiments");
	assert_int_equal(json_array_size(experiments), N_ELEMENTS(runs));
	first = json_array_get(experiments, 0);
	assert_string_equal(json_string_value(json_object_get(first, "id")), "A-2-cv");
	assert_near(json_real_value(json_object_get(first, "throughput_sps")), 110, 0);
	assert_near(json_real_value(json_object_get(first, "published_throughput_sps")), 100, 0);
	assert_near(json_real_value(json_object_get(first, "published_granularity")), 4, 0);
	assert_null(json_object_get(first, "published_comm_s"));
	last = json_array_get(experiments, N_ELEMENTS(runs) - 1);
	assert_null(json_object_get(last, "published_throughput_sps"));
	assert_null(json_object_get(last, "published_source"));
	assert_true(
		json_is_null(json_object_get(json_array_get(experiments, 4), "throughput_sps")));
	lh_reproduce_done(&report);
}

static void an_empty_suite_is_an_empty_report(void **state)
{
	struct lh_reproduce report = {0};

	(void)state;
	assert_int_equal(lh_reproduce_compare(NULL, 0, &report, NULL), 0);
	assert_int_equal(report.table.n_rows, 0);
	assert_int_equal(report.bias.n_rows, 0);
	lh_reproduce_done(&report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_and_bias_are_as_worked_out_by_hand),
		cmocka_unit_test(json_has_published_twins_only_where_known),
		cmocka_unit_test(an_empty_suite_is_an_empty_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
