/* SPDX-License-Identifier: Apache-2.0 */
/* Errors and diagnostics: what is kept, how contexts join, and the exit statuses. */
#include "core/error.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/test.h"

static void test_failing_keeps_code_system_text_and_place(void **state)
{
	struct lh_error err = {0};
	int line = __LINE__ + 1;
	int r = lh_fail(&err, LH_ESYS, ENOENT, "open %s", "a.yaml");

	(void)state;
	assert_int_equal(r, LH_ESYS);
	assert_int_equal(err.code, LH_ESYS);
	assert_int_equal(err.sys, ENOENT);
	assert_string_equal(err.message, "open a.yaml: No such file or directory");
	assert_non_null(strstr(err.file, "error_test.c"));
	assert_int_equal(err.line, line);
}

static void test_failing_without_an_error_struct_returns_the_code(void **state)
{
	(void)state;
	assert_int_equal(lh_fail(NULL, LH_EINPUT, 0, "x"), LH_EINPUT);
	assert_int_equal(lh_error_prefix(NULL, "x"), LH_ERUN);
}

static void test_prefixes_stand_before_the_message(void **state)
{
	struct lh_error err = {0};

	(void)state;
	lh_fail(&err, LH_EENV, 0, "no netem");
	assert_int_equal(lh_error_prefix(&err, "path %s", "eu"), LH_EENV);
	assert_int_equal(lh_error_prefix(&err, "plan"), LH_EENV);
	assert_string_equal(err.message, "plan: path eu: no netem");
}

static void test_long_messages_are_cut_not_overrun(void **state)
{
	char text[2 * LH_ERROR_MESSAGE_MAX];
	struct lh_error err = {0};

	(void)state;
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	lh_fail(&err, LH_ESYS, EIO, "%s", text);
	assert_int_equal(strlen(err.message), LH_ERROR_MESSAGE_MAX - 1);
	lh_error_prefix(&err, "%s", text);
	lh_error_prefix(&err, "short");
	assert_int_equal(strlen(err.message), LH_ERROR_MESSAGE_MAX - 1);
	assert_memory_equal(err.message, "short: aaa", 10);
}

static void test_each_code_has_its_exit_status(void **state)
{
	static const struct {
		int code, sys, status;
	} cases[] = {
		{LH_OK, 0, 0},	     {LH_ESYS, EIO, 1},		{LH_EUSAGE, 0, 2},
		{LH_EINPUT, 0, 3},   {LH_EENV, 0, 4},		{LH_ERUN, 0, 1},
		{LH_EMEASURE, 0, 6}, {LH_ESIGNAL, SIGINT, 130}, {LH_ESIGNAL, SIGTERM, 143},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_error err = {.code = cases[i].code, .sys = cases[i].sys};

		assert_int_equal(lh_error_exit_status(&err), cases[i].status);
	}
}

static void test_a_signal_is_not_read_as_errno(void **state)
{
	struct lh_error err = {0};

	(void)state;
	lh_fail(&err, LH_ESIGNAL, SIGINT, "interrupted");
	assert_string_equal(err.message, "interrupted");
}

static void test_diagnostics_name_place_and_key(void **state)
{
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_diag_check(&diag, &err), 0);
	lh_diag_add(&diag, (struct lh_pos){"a.yaml", 3, 7}, "nodes[0].site", "unknown site '%s'",
		    "gc");
	assert_int_equal(lh_diag_check(&diag, &err), LH_EINPUT);
	assert_string_equal(err.message, "1 error in the input");
	lh_diag_add(&diag, (struct lh_pos){NULL, 1, 1}, "", "is empty");
	lh_diag_add(&diag, (struct lh_pos){"b.yaml", 1, 2}, NULL, "is empty");
	assert_int_equal(lh_diag_check(&diag, NULL), LH_EINPUT);
	assert_int_equal(diag.n_messages, 3);
	assert_string_equal(diag.messages[0], "a.yaml:3:7: nodes[0].site: unknown site 'gc'");
	assert_string_equal(diag.messages[1], "-:1:1: is empty");
	assert_string_equal(diag.messages[2], "b.yaml:1:2: is empty");
	lh_diag_done(&diag);
	assert_int_equal(diag.n_messages, 0);
	lh_diag_done(&diag);
}

static void test_diagnostics_beyond_the_bound_are_counted(void **state)
{
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	char expected[64];

	(void)state;
	for (int i = 0; i < LH_DIAG_MAX + 5; i++)
		lh_diag_add(&diag, (struct lh_pos){"a.yaml", i + 1, 1}, "k", "wrong");
	assert_int_equal(diag.n_messages, LH_DIAG_MAX);
	assert_int_equal(diag.n_dropped, 5);
	lh_diag_check(&diag, &err);
	snprintf(expected, sizeof(expected), "%d errors in the input", LH_DIAG_MAX + 5);
	assert_string_equal(err.message, expected);
	lh_diag_done(&diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failing_keeps_code_system_text_and_place),
		cmocka_unit_test(test_failing_without_an_error_struct_returns_the_code),
		cmocka_unit_test(test_prefixes_stand_before_the_message),
		cmocka_unit_test(test_long_messages_are_cut_not_overrun),
		cmocka_unit_test(test_each_code_has_its_exit_status),
		cmocka_unit_test(test_a_signal_is_not_read_as_errno),
		cmocka_unit_test(test_diagnostics_name_place_and_key),
		cmocka_unit_test(test_diagnostics_beyond_the_bound_are_counted),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
