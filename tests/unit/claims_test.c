/* SPDX-License-Identifier: Apache-2.0 */
/* Claims beside what came of runs: worked by hand. */
#include "collect/claims.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/schema.h"
#include "tests/unit/test.h"

static const struct lh_claim_run runs[] = {
	{.id = "base", true, 100, 50, 10, 0.95},
	{.id = "fast", true, 170, 30, 8, 0.94},
	{.id = "faster", true, 150, 33, 9, 0.96},
	{.id = "broken", false, 900, 1, 1, 0.99},
};

static struct lh_claim_pair pairs[] = {
	{.of = (char[]){"fast"}, .against = (char[]){"base"}},
	{.of = (char[]){"faster"}, .against = (char[]){"base"}},
	{.of = (char[]){"broken"}, .against = (char[]){"base"}},
	{.of = (char[]){"missing"}, .against = (char[]){"base"}},
};

static char text[] = "it is so", source[] = "page 1", status[] = "confirmed";

static struct lh_claim claim_of(char *measure, double least, double most)
{
	return (struct lh_claim){.id = measure,
				 .claim = text,
				 .source = source,
				 .status = status,
				 .measure = measure,
				 .least = least,
				 .most = most,
				 .pairs = pairs,
				 .n_pairs = N_ELEMENTS(pairs)};
}

static const struct lh_cell *cell(const struct lh_table *table, size_t row, const char *column)
{
	return lh_table_cell(table, row, (size_t)lh_table_find_column(table, column));
}

static void test_ranges_are_those_of_valid_runs(void **state)
{
	static char measures[][16] = {"speed-up",      "faster",     "cost-reduction",
				      "accuracy-gain", "throughput", "accuracy",
				      "wall"};
	static const double least[] = {1.5, 50, 10, -1, 150, 94, 30};
	static const double most[] = {1.7, 70, 20, 1, 170, 96, 33};
	struct lh_claim claims[N_ELEMENTS(measures)];
	struct lh_suite suite = {.claims = claims, .n_claims = N_ELEMENTS(measures)};
	struct lh_claims_report report;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(measures); i++)
		claims[i] = claim_of(measures[i], -1, -1);
	assert_int_equal(lh_claims_compare(&suite, runs, N_ELEMENTS(runs), &report, NULL), 0);
	for (size_t i = 0; i < N_ELEMENTS(measures); i++) {
		assert_near(cell(&report.claims, i, "least")->real, least[i], 1e-9);
		assert_near(cell(&report.claims, i, "most")->real, most[i], 1e-9);
		assert_int_equal(cell(&report.claims, i, "pairs")->integer, 2);
		assert_false(cell(&report.claims, i, "within")->is_known);
	}
	assert_int_equal(report.pairs.n_rows, N_ELEMENTS(measures) * N_ELEMENTS(pairs));
	assert_false(cell(&report.pairs, 2, "value")->is_known);
	assert_false(cell(&report.pairs, 3, "value")->is_known);
	lh_claims_done(&report);
}

static void test_ours_is_within_what_was_published_or_not(void **state)
{
	static const struct {
		double least, most;
		const char *within;
	} cases[] = {{1.5, 1.7, "yes"},
		     {-1, 1.7, "yes"},
		     {1.4, -1, "yes"},
		     {1.6, -1, "no"},
		     {-1, 1.6, "no"}};
	char measure[] = "speed-up";

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_claim claim = claim_of(measure, cases[i].least, cases[i].most);
		struct lh_suite suite = {.claims = &claim, .n_claims = 1};
		struct lh_claims_report report;

		assert_int_equal(lh_claims_compare(&suite, runs, N_ELEMENTS(runs), &report, NULL),
				 0);
		assert_string_equal(cell(&report.claims, 0, "within")->text, cases[i].within);
		lh_claims_done(&report);
	}
}

static void test_the_text_has_claims_sources_and_what_is_not_known(void **state)
{
	char measure[] = "speed-up";
	struct lh_claim claim = claim_of(measure, -1, 1.7);
	struct lh_unknown_setting unknown = {(char[]){"the batch"}, (char[]){"64"}};
	struct lh_sweep_point point = {.series = (char[]){"a"}, .at = 2, .run = (char[]){"fast"}};
	struct lh_suite suite = {.claims = &claim,
				 .n_claims = 1,
				 .unknown = &unknown,
				 .n_unknown = 1,
				 .sweep = {.label = (char[]){"f"},
					   .against = (char[]){"base"},
					   .points = &point,
					   .n_points = 1}};
	static const char *const words[] = {"it is so", "page 1 (confirmed)", "1.50",
					    "1.70",	"the batch",	      "0.9400"};
	struct lh_claims_report report;
	lh_cleanup_free char *lines = NULL;

	(void)state;
	assert_int_equal(lh_claims_compare(&suite, runs, N_ELEMENTS(runs), &report, NULL), 0);
	assert_int_equal(lh_claims_format(&suite, &report, 100, &lines, NULL), 0);
	for (size_t i = 0; i < N_ELEMENTS(words); i++)
		if (!strstr(lines, words[i]))
			fail_msg("'%s' is not in:\n%s", words[i], lines);
	assert_near(cell(&report.sweep, 0, "speedup")->real, 1.7, 1e-9);
	lh_claims_done(&report);
}

/* The choices of `measure` in a suite are the measures that there are. */
static void test_the_schema_lists_the_measures(void **state)
{
	const struct lh_field *field = lh_field_find(&lh_claim_section, "measure");
	size_t n = 0;

	(void)state;
	for (; lh_measures[n].name; n++)
		assert_string_equal(field->choices[n].name, lh_measures[n].name);
	assert_null(field->choices[n].name);
}

static void test_the_suite_that_ships_reads(void **state)
{
	const char *dir = getenv("LONGHAUL_DATADIR");
	struct lh_suite *suite = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	(void)state;
	assert_non_null(dir);
	if (lh_suite_read("cloudless-training", dir, &suite, &diag, &err))
		fail_msg("%s", diag.n_messages ? diag.messages[0] : err.message);
	assert_int_equal(suite->n_claims, 3);
	assert_true(suite->n_unknown >= 8);
	assert_true(suite->claims[0].least == 9.2 && suite->claims[0].most == 24);
	assert_string_equal(suite->sweep.against, "CT-4x4-lenet-asgd");
	lh_suite_free(suite);
	lh_diag_done(&diag);
}

static void test_experiments_that_are_not_there_are_told(void **state)
{
	static const char yaml[] =
		"longhaul: 1\nsuite: mine\nworkloads: {w: {model: resnet18}}\n"
		"groups: [{workloads: [w], placements: {A: {}}}]\n"
		"claims:\n  - {id: a, claim: b, source: c, status: confirmed, measure: speed-up,\n"
		"     pairs: [{of: A-w, against: B-w}]}\n"
		"sweep: {about: a, label: b, against: A-w, points: [{series: s, at: 1, run: "
		"A-v}]}\n";
	char dir[] = "/tmp/lh-claims-XXXXXX";
	lh_cleanup_free char *folder = NULL, *path = NULL;
	struct lh_suite *suite = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	(void)state;
	assert_non_null(mkdtemp(dir));
	folder = lh_path_join(dir, "experiments");
	path = lh_path_join(folder, "mine.yaml");
	assert_int_equal(lh_dir_make(folder, NULL), 0);
	assert_int_equal(lh_file_write(path, yaml, strlen(yaml), NULL), 0);
	assert_int_equal(lh_suite_read("mine", dir, &suite, &diag, &err), LH_EINPUT);
	assert_int_equal(diag.n_messages, 2);
	assert_non_null(strstr(diag.messages[0], "no experiment 'B-w' in this suite"));
	assert_non_null(strstr(diag.messages[1], "no experiment 'A-v' in this suite"));
	lh_diag_done(&diag);
	assert_int_equal(lh_dir_remove(dir, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges_are_those_of_valid_runs),
		cmocka_unit_test(test_ours_is_within_what_was_published_or_not),
		cmocka_unit_test(test_the_text_has_claims_sources_and_what_is_not_known),
		cmocka_unit_test(test_the_schema_lists_the_measures),
		cmocka_unit_test(test_the_suite_that_ships_reads),
		cmocka_unit_test(test_experiments_that_are_not_there_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
