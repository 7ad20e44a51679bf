/* SPDX-License-Identifier: Apache-2.0 */
/* YAML trees: values with their places, what is refused and where, merging, and JSON. */
#include "core/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "tests/unit/test.h"

static struct lh_yaml *parse(const char *text)
{
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	struct lh_yaml *root = NULL;

	if (lh_yaml_parse("t.yaml", text, strlen(text), &root, &diag, &err) < 0)
		fail_msg("%s: %s", err.message, diag.n_messages ? diag.messages[0] : "");
	assert_non_null(root);
	return root;
}

static void test_values_know_where_they_stand(void **state)
{
	struct lh_yaml *root = parse("name: x\npaths:\n  - {rtt: 5 ms, \"q\": '7'}\n");
	struct lh_yaml *paths = lh_yaml_get(root, "paths");
	struct lh_yaml *path = paths->entries[0].value;
	struct lh_yaml *rtt = lh_yaml_get(path, "rtt");

	(void)state;
	assert_int_equal(root->kind, LH_YAML_MAPPING);
	assert_int_equal(paths->kind, LH_YAML_SEQUENCE);
	assert_int_equal(paths->n_entries, 1);
	assert_null(paths->entries[0].key);
	assert_string_equal(rtt->text, "5 ms");
	assert_false(rtt->quoted);
	assert_string_equal(rtt->pos.file, "t.yaml");
	assert_int_equal(rtt->pos.line, 3);
	assert_int_equal(rtt->pos.col, 11);
	assert_int_equal(path->entries[0].key_pos.line, 3);
	assert_int_equal(path->entries[0].key_pos.col, 6);
	assert_true(lh_yaml_get(path, "q")->quoted);
	assert_null(lh_yaml_get(path, "none"));
	assert_null(lh_yaml_get(paths, "rtt"));
	assert_null(lh_yaml_get(NULL, "rtt"));
	lh_yaml_free(root);
}

static void test_aliases_are_expanded(void **state)
{
	struct lh_yaml *root = parse("a: &x {k: [1, 2]}\nb: *x\nc: *x\n");

	(void)state;
	assert_string_equal(lh_yaml_get(lh_yaml_get(root, "c"), "k")->entries[1].value->text, "2");
	assert_ptr_not_equal(lh_yaml_get(root, "b"), lh_yaml_get(root, "c"));
	lh_yaml_free(root);
}

static void test_what_is_wrong_is_named_with_its_place(void **state)
{
	static const struct {
		const char *text;
		const char *message; /* the first, or a part of it */
	} cases[] = {
		{"", "t.yaml:1:1: the file is empty"},
		{"# only a comment\n", "t.yaml:1:1: the file is empty"},
		{"a: 1\nb: [1, 2\n", "t.yaml:3:1: not YAML"},
		{"a: 1\n b: 2\n", "t.yaml:2:"},
		{"a: \t- x\n\tb: 1\n", "t.yaml:"},
		{"a: 1\nb: 2\na: 3\n", "t.yaml:3:1: key 'a' stands twice"},
		{"? [1]\n: 2\n", "t.yaml:1:3: a key is not a plain word"},
		{"a: &x {b: 1}\nc:\n  <<: *x\n", "t.yaml:3:3: merge keys"},
		{"a: 1\n---\nb: 2\n", "t.yaml:3:1: a second document"},
		{"a: *none\n", "t.yaml:1:4: not YAML"},
		{"a: !!int 5\n", "t.yaml:1:4: tags"},
		{"a: !thing {b: 1}\n", "t.yaml:1:4: tags"},
		{"a: !!set [1]\n", "t.yaml:1:4: tags"},
		{"!x a: 1\n", "t.yaml:1:1: tags"},
		{"a: \"x\\0y\"\n", "t.yaml:1:4: a NUL character"},
		{"\"x\\0y\": 1\n", "t.yaml:1:1: a NUL character"},
		{"a: &x [*x]\n", "nested too deeply"},
		{"a: \xff\n", "not YAML"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_diag diag = {0};
		struct lh_error err = {0};
		struct lh_yaml *root = NULL;
		int r = lh_yaml_parse("t.yaml", cases[i].text, strlen(cases[i].text), &root, &diag,
				      &err);

		if (r != LH_EINPUT)
			fail_msg("'%s': %d, not LH_EINPUT", cases[i].text, r);
		assert_null(root);
		assert_true(diag.n_messages > 0);
		if (!strstr(diag.messages[0], cases[i].message))
			fail_msg("'%s': the message is '%s', not '%s'", cases[i].text,
				 diag.messages[0], cases[i].message);
		lh_diag_done(&diag);
	}
}

static void test_all_faults_are_told_at_once(void **state)
{
	static const char text[] = "a: 1\na: 2\nb: {c: 1, c: 2}\n";
	struct lh_diag diag = {0};
	struct lh_yaml *root = NULL;

	(void)state;
	assert_int_equal(lh_yaml_parse("t", text, strlen(text), &root, &diag, NULL), LH_EINPUT);
	assert_int_equal(diag.n_messages, 2);
	lh_diag_done(&diag);
}

/* Ten aliases of ten aliases of ...: 10^9 values from 500 bytes. */
static void test_aliases_of_aliases_are_bounded(void **state)
{
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	struct lh_yaml *root = NULL;
	char text[2048] = "v0: &v0 x\n";

	(void)state;
	for (int level = 1; level <= 9; level++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "v%d: &v%d [", level, level);
		for (int i = 0; i < 10; i++) {
			used = strlen(text);
			snprintf(text + used, sizeof(text) - used, "%s*v%d", i ? ", " : "",
				 level - 1);
		}
		used = strlen(text);
		snprintf(text + used, sizeof(text) - used, "]\n");
	}
	/* faults of another file before it do not hide what is wrong here */
	lh_diag_add(&diag, (struct lh_pos){"other.yaml", 1, 1}, NULL, "wrong");
	assert_int_equal(lh_yaml_parse("t", text, strlen(text), &root, &diag, &err), LH_EINPUT);
	assert_int_equal(diag.n_messages, 2);
	assert_non_null(strstr(diag.messages[1], "too large"));
	lh_diag_done(&diag);
}

static void test_deep_nesting_is_bounded(void **state)
{
	enum { DEPTH = 100000 };
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	struct lh_yaml *root = NULL;
	lh_cleanup_free char *text = malloc(DEPTH);

	(void)state;
	assert_non_null(text);
	memset(text, '[', DEPTH);
	assert_int_equal(lh_yaml_parse("t", text, DEPTH, &root, &diag, &err), LH_EINPUT);
	lh_diag_done(&diag);
}

static void test_merging_keeps_what_is_there(void **state)
{
	struct lh_yaml *map = parse("a: 1\nrun: {seed: 7}\nlist: [1]\n");
	struct lh_yaml *base = parse("a: 2\nb: 3\nrun: {seed: 1, clock: virtual}\nlist: [2, 3]\n");
	lh_cleanup_json json_t *json = NULL;
	lh_cleanup_json json_t *expected = NULL;

	(void)state;
	assert_int_equal(lh_yaml_merge(map, base), 0);
	lh_yaml_free(base);
	json = lh_yaml_to_json(map);
	expected = json_loads("{\"a\": 1, \"run\": {\"seed\": 7, \"clock\": \"virtual\"},"
			      " \"list\": [1], \"b\": 3}",
			      0, NULL);
	assert_non_null(expected);
	assert_true(json_equal(json, expected));
	lh_yaml_free(map);
}

static void test_setting_replaces_or_appends(void **state)
{
	struct lh_pos pos = {"s.yaml", 9, 9};
	struct lh_yaml *map = parse("a: 1\n");
	struct lh_yaml *copy;

	(void)state;
	assert_int_equal(lh_yaml_set(map, "a", lh_yaml_scalar("2", pos)), 0);
	assert_int_equal(lh_yaml_set(map, "b", lh_yaml_mapping(pos)), 0);
	assert_int_equal(lh_yaml_set(map, "c", NULL), -1);
	assert_int_equal(map->n_entries, 2);
	copy = lh_yaml_copy(map);
	lh_yaml_free(map);
	assert_string_equal(lh_yaml_get(copy, "a")->text, "2");
	assert_int_equal(lh_yaml_get(copy, "b")->pos.line, 9);
	assert_string_equal(copy->entries[1].key_pos.file, "s.yaml");
	lh_yaml_free(copy);
}

static void test_json_gets_numbers_and_booleans_of_unquoted_scalars(void **state)
{
	struct lh_yaml *root =
		parse("[1, -2, 1.5, 1e3, true, false, yes, 5 ms, '1', \"true\", 0x10,"
		      " 99999999999999999999, null, '']\n");
	lh_cleanup_json json_t *json = lh_yaml_to_json(root);
	lh_cleanup_json json_t *expected =
		json_loads("[1, -2, 1.5, 1000.0, true, false, \"yes\", \"5 ms\", \"1\", \"true\","
			   " \"0x10\", \"99999999999999999999\", \"null\", \"\"]",
			   0, NULL);

	(void)state;
	assert_non_null(expected);
	assert_true(json_equal(json, expected));
	lh_yaml_free(root);
}

static void test_a_missing_file_is_no_fault_of_the_input(void **state)
{
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	struct lh_yaml *root = NULL;

	(void)state;
	assert_int_equal(lh_yaml_read("/none/t.yaml", &root, &diag, &err), LH_ESYS);
	assert_int_equal(diag.n_messages, 0);
	assert_non_null(strstr(err.message, "/none/t.yaml"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values_know_where_they_stand),
		cmocka_unit_test(test_aliases_are_expanded),
		cmocka_unit_test(test_what_is_wrong_is_named_with_its_place),
		cmocka_unit_test(test_all_faults_are_told_at_once),
		cmocka_unit_test(test_aliases_of_aliases_are_bounded),
		cmocka_unit_test(test_deep_nesting_is_bounded),
		cmocka_unit_test(test_merging_keeps_what_is_there),
		cmocka_unit_test(test_setting_replaces_or_appends),
		cmocka_unit_test(test_json_gets_numbers_and_booleans_of_unquoted_scalars),
		cmocka_unit_test(test_a_missing_file_is_no_fault_of_the_input),
	};

	return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
