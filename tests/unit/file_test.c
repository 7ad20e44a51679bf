/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders: bounds, all-or-nothing writes, removal that follows no links, paths. */
#include "core/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "tests/unit/test.h"

/* A temporary folder for each test, in *state. */
static int make_folder(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char *path = lh_strf("%s/longhaul-file-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	if (!path || !mkdtemp(path))
		return -1;
	*state = path;
	return 0;
}

static int remove_folder(void **state)
{
	int r = lh_dir_remove(*state, NULL);

	free(*state);
	return r;
}

static void test_what_is_written_is_read(void **state)
{
	static const size_t sizes[] = {0, 1, 4094, 4095, 4096, 4097, 1 << 20};
	lh_cleanup_free char *path = lh_path_join(*state, "data");

	for (size_t i = 0; i < N_ELEMENTS(sizes); i++) {
		lh_cleanup_free char *data = malloc(sizes[i] + 1);
		lh_cleanup_free char *back = NULL;
		struct lh_error err = {0};
		size_t n_back = 1;

		assert_non_null(data);
		for (size_t k = 0; k < sizes[i]; k++)
			data[k] = (char)(k * 31);
		assert_int_equal(lh_file_write(path, data, sizes[i], &err), 0);
		assert_int_equal(lh_file_read(path, sizes[i], &back, &n_back, &err), 0);
		assert_int_equal(n_back, sizes[i]);
		if (sizes[i])
			assert_memory_equal(back, data, sizes[i]);
		assert_int_equal(back[n_back], '\0');
	}
}

static void test_a_file_beyond_the_bound_is_refused(void **state)
{
	lh_cleanup_free char *path = lh_path_join(*state, "data");
	lh_cleanup_free char *back = NULL;
	struct lh_error err = {0};

	assert_int_equal(lh_file_write(path, "12345", 5, &err), 0);
	assert_int_equal(lh_file_read(path, 4, &back, NULL, &err), LH_ESYS);
	assert_null(back);
	assert_non_null(strstr(err.message, "larger than 4 bytes"));
	assert_int_equal(lh_file_read("/dev/zero", 10000, &back, NULL, &err), LH_ESYS);
}

static void test_missing_files_and_folders_are_errors(void **state)
{
	lh_cleanup_free char *path = lh_path_join(*state, "none");
	lh_cleanup_free char *deep = lh_path_join(*state, "none/file");
	lh_cleanup_free char *back = NULL;
	struct lh_error err = {0};

	assert_int_equal(lh_file_read(path, 10, &back, NULL, &err), LH_ESYS);
	assert_int_equal(err.sys, ENOENT);
	assert_non_null(strstr(err.message, path));
	assert_int_equal(lh_file_read(*state, 10, &back, NULL, &err), LH_ESYS);
	assert_int_equal(err.sys, EISDIR);
	assert_int_equal(lh_file_write(deep, "x", 1, &err), LH_ESYS);
	assert_int_equal(err.sys, ENOENT);
}

static void test_a_failed_write_leaves_nothing_behind(void **state)
{
	lh_cleanup_free char *folder = lh_path_join(*state, "folder");
	lh_cleanup_free char *inside = lh_path_join(folder, "inside");
	lh_cleanup_free char *part = lh_strf("%s.part-%d", folder, (int)getpid());
	struct lh_error err = {0};

	assert_int_equal(lh_dir_make(inside, &err), 0);
	assert_int_equal(lh_file_write(folder, "x", 1, &err), LH_ESYS);
	assert_false(lh_path_exists(part));
	assert_true(lh_path_exists(inside));
}

static void test_json_keeps_order_and_numbers(void **state)
{
	lh_cleanup_free char *path = lh_path_join(*state, "a.json");
	lh_cleanup_free char *text = NULL;
	lh_cleanup_json json_t *value =
		json_pack("{s:s, s:I, s:f}", "z", "first", "a", (json_int_t)INT64_MAX, "m", 0.1);
	lh_cleanup_json json_t *back = NULL;
	struct lh_error err = {0};

	assert_int_equal(lh_json_write(path, value, &err), 0);
	assert_int_equal(lh_json_read(path, &back, &err), 0);
	assert_true(json_equal(value, back));
	assert_int_equal(lh_file_read(path, 1000, &text, NULL, &err), 0);
	assert_true(strstr(text, "\"z\"") < strstr(text, "\"a\""));
	assert_true(strstr(text, "\"a\"") < strstr(text, "\"m\""));
	assert_int_equal(text[strlen(text) - 1], '\n');
}

static void test_wrong_json_is_named_with_its_place(void **state)
{
	static const struct {
		const char *text, *place;
	} cases[] = {{"{\n  \"a\": x\n}\n", ":2:"}, {"", ":1:"}, {"{\"a\": 1, \"a\": 2}", ":1:"}};
	lh_cleanup_free char *path = lh_path_join(*state, "a.json");

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		json_t *value = NULL;
		struct lh_error err = {0};

		assert_int_equal(lh_file_write(path, cases[i].text, strlen(cases[i].text), &err),
				 0);
		assert_int_equal(lh_json_read(path, &value, &err), LH_EINPUT);
		assert_null(value);
		assert_int_equal(strncmp(err.message, path, strlen(path)), 0);
		assert_int_equal(strncmp(err.message + strlen(path), cases[i].place,
					 strlen(cases[i].place)),
				 0);
	}
}

static void test_folders_are_made_with_those_above(void **state)
{
	lh_cleanup_free char *deep = lh_path_join(*state, "a/b//c/");
	lh_cleanup_free char *file = lh_path_join(*state, "a/file");
	lh_cleanup_free char *below = lh_path_join(*state, "a/file/x");
	struct lh_error err = {0};

	assert_int_equal(lh_dir_make(deep, &err), 0);
	assert_int_equal(lh_dir_make(deep, &err), 0);
	assert_true(lh_path_exists(deep));
	assert_int_equal(lh_file_write(file, "x", 1, &err), 0);
	assert_int_equal(lh_dir_make(file, &err), LH_ESYS);
	assert_int_equal(lh_dir_make(below, &err), LH_ESYS);
	assert_int_equal(lh_dir_make("/", &err), 0);
	assert_int_equal(lh_dir_make("", &err), LH_ESYS);
}

static void test_removing_a_folder_follows_no_links(void **state)
{
	lh_cleanup_free char *kept = lh_path_join(*state, "kept");
	lh_cleanup_free char *file = lh_path_join(*state, "kept/file");
	lh_cleanup_free char *gone = lh_path_join(*state, "gone/a/b");
	lh_cleanup_free char *top = lh_path_join(*state, "gone");
	lh_cleanup_free char *link = lh_path_join(*state, "gone/a/link");
	struct lh_error err = {0};

	assert_int_equal(lh_dir_make(kept, &err), 0);
	assert_int_equal(lh_file_write(file, "x", 1, &err), 0);
	assert_int_equal(lh_dir_make(gone, &err), 0);
	assert_int_equal(symlink(kept, link), 0);
	assert_int_equal(lh_dir_remove(top, &err), 0);
	assert_false(lh_path_exists(top));
	assert_true(lh_path_exists(file));
	assert_int_equal(lh_dir_remove(top, &err), 0);
	assert_int_equal(symlink(kept, top), 0);
	assert_int_equal(lh_dir_remove(top, &err), LH_ESYS);
	assert_true(lh_path_exists(file));
}

static void test_paths_join_and_split(void **state)
{
	static const struct {
		const char *base, *name, *joined, *folder;
	} cases[] = {
		{"a", "b", "a/b", "a"},
		{"a/", "b", "a/b", "a"},
		{".", "b", "b", "."},
		{"", "b", "b", "."},
		{"a", "/b", "/b", "/"},
		{"/", "b", "/b", "/"},
		{"a/b", "c/d", "a/b/c/d", "a/b/c"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		lh_cleanup_free char *joined = lh_path_join(cases[i].base, cases[i].name);
		lh_cleanup_free char *folder = lh_path_dirname(joined);

		assert_string_equal(joined, cases[i].joined);
		assert_string_equal(folder, cases[i].folder);
	}
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_what_is_written_is_read),
		IN_FOLDER(test_a_file_beyond_the_bound_is_refused),
		IN_FOLDER(test_missing_files_and_folders_are_errors),
		IN_FOLDER(test_a_failed_write_leaves_nothing_behind),
		IN_FOLDER(test_json_keeps_order_and_numbers),
		IN_FOLDER(test_wrong_json_is_named_with_its_place),
		IN_FOLDER(test_folders_are_made_with_those_above),
		IN_FOLDER(test_removing_a_folder_follows_no_links),
		cmocka_unit_test(test_paths_join_and_split),
	};

	return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
