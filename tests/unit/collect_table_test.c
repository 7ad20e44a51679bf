/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and CSV: what is written reads back, whatever the text and the locale. */
#include "tests/unit/test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/csv.h"
#include "collect/table.h"
#include "core/file.h"

static const struct lh_column columns[] = {
	{"name", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"count", "n", LH_CELL_INT, 0, 0, 2},
	{"value", "value s", LH_CELL_REAL, 4, 1, 1},
	{"secret", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_HIDE},
};

static void make_table(struct lh_table *table)
{
	lh_table_init(table, columns, N_ELEMENTS(columns));
	lh_table_row(table);
	lh_table_put_text(table, "plain");
	lh_table_put_int(table, -7);
	lh_table_put_real(table, 1.25);
	lh_table_put_text(table, "x");
	lh_table_row(table);
	lh_table_put_text(table, "a \"quoted\", long\nname");
	lh_table_put_int(table, INT64_MAX);
	lh_table_put_real(table, NAN);
}

static void temporary_path(char *path, size_t n)
{
	int fd;

	snprintf(path, n, "/tmp/lh-table-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
}

static void write_text(const char *path, const char *text)
{
	assert_int_equal(lh_file_write(path, text, strlen(text), NULL), 0);
}

static void csv_quotes_as_rfc_4180_says(void **state)
{
	struct lh_table table;
	char *text;

	(void)state;
	make_table(&table);
	assert_int_equal(lh_table_format_csv(&table, &text, NULL), 0);
	assert_string_equal(text, "name,count,value,secret\n"
				  "plain,-7,1.2500,x\n"
				  "\"a \"\"quoted\"\", long\nname\",9223372036854775807,,\n");
	free(text);
	lh_table_done(&table);
}

static void csv_reads_back_what_was_written(void **state)
{
	struct lh_table table;
	struct lh_csv csv = {0};
	char path[64];
	int64_t count;
	double value;

	(void)state;
	temporary_path(path, sizeof(path));
	make_table(&table);
	assert_int_equal(lh_table_write_csv(&table, path, NULL), 0);
	assert_int_equal(lh_csv_open(path, &csv, NULL), 0);
	assert_int_equal(csv.n_columns, 4);
	assert_int_equal(lh_csv_find(&csv, "value"), 2);
	assert_int_equal(lh_csv_find(&csv, "nothing"), -1);
	assert_int_equal(lh_csv_next(&csv, NULL), 1);
	assert_int_equal(csv.line, 2);
	assert_int_equal(lh_csv_int(&csv, 1, &count, NULL), 0);
	assert_int_equal(count, -7);
	assert_int_equal(lh_csv_real(&csv, 2, &value, NULL), 0);
	assert_near(value, 1.25, 0);
	assert_int_equal(lh_csv_next(&csv, NULL), 1);
	assert_string_equal(csv.cells[0], "a \"quoted\", long\nname");
	assert_int_equal(lh_csv_real(&csv, 2, &value, NULL), 0);
	assert_true(isnan(value));
	assert_int_equal(lh_csv_next(&csv, NULL), 0);
	lh_csv_close(&csv);
	lh_table_done(&table);
	unlink(path);
}

static void csv_takes_crlf_and_a_last_line_without_its_end(void **state)
{
	struct lh_csv csv = {0};
	char path[64];

	(void)state;
	temporary_path(path, sizeof(path));
	write_text(path, "a,b\r\n1,\"2\"\r\n3,4");
	assert_int_equal(lh_csv_open(path, &csv, NULL), 0);
	assert_string_equal(csv.header[1], "b");
	assert_int_equal(lh_csv_next(&csv, NULL), 1);
	assert_string_equal(csv.cells[1], "2");
	assert_int_equal(lh_csv_next(&csv, NULL), 1);
	assert_string_equal(csv.cells[1], "4");
	assert_int_equal(lh_csv_next(&csv, NULL), 0);
	lh_csv_close(&csv);

	assert_int_equal(lh_csv_open(path, &csv, NULL), 0);
	csv.is_growing = true;
	assert_int_equal(lh_csv_next(&csv, NULL), 1);
	assert_int_equal(lh_csv_next(&csv, NULL), 0);
	lh_csv_close(&csv);
	unlink(path);
}

static void csv_errors_name_file_and_line(void **state)
{
	static const struct {
		const char *text;
		const char *expected;
	} cases[] = {
		{"a,b\n1,2\n3\n", ":3:1: 1 cells; expected 2"},
		{"a,b\n1,2,3\n", ":2:5: more than 2 cells"},
		{"a,b\n\"x\ny\",1\n\"z,1\n", ":4:1: a quote does not close"},
		{"a,b\n\"x\"y,1\n", ":2:1: a quote does not close"},
		{"a,b\n1,2x\n", ":2:3: column 'b': '2x' is not an integer"},
		{"a,b\n1,99999999999999999999\n", ":2:3: column 'b'"},
	};
	char path[64];

	(void)state;
	temporary_path(path, sizeof(path));
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_csv csv = {0};
		struct lh_error err = {0};
		int64_t value;
		int r;

		write_text(path, cases[i].text);
		assert_int_equal(lh_csv_open(path, &csv, &err), 0);
		while ((r = lh_csv_next(&csv, &err)) > 0)
			if ((r = lh_csv_int(&csv, 1, &value, &err)) < 0)
				break;
		assert_int_equal(r, LH_EINPUT);
		assert_non_null(strstr(err.message, path));
		assert_non_null(strstr(err.message, cases[i].expected));
		lh_csv_close(&csv);
	}
	unlink(path);
}

static void an_empty_file_is_an_error(void **state)
{
	struct lh_csv csv = {0};
	char path[64];

	(void)state;
	temporary_path(path, sizeof(path));
	assert_int_equal(lh_csv_open(path, &csv, NULL), LH_EINPUT);
	unlink(path);
	assert_int_equal(lh_csv_open(path, &csv, NULL), LH_ESYS);
}

static void numbers_have_a_point_in_every_locale(void **state)
{
	static const char *const locales[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8"};
	char buf[64];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(locales); i++) {
		if (!setlocale(LC_ALL, locales[i]))
			continue;
		assert_string_equal(lh_number_format(-1234.5678, 2, buf, sizeof(buf)), "-1234.57");
		assert_string_equal(lh_number_format(-0.001, 2, buf, sizeof(buf)), "0.00");
		assert_string_equal(lh_number_format(3, 0, buf, sizeof(buf)), "3");
		assert_string_equal(lh_number_format(NAN, 2, buf, sizeof(buf)), "");
	}
	setlocale(LC_ALL, "C");
}

static void text_aligns_numbers_to_the_right(void **state)
{
	struct lh_table table;
	char *text;

	(void)state;
	lh_table_init(&table, columns, N_ELEMENTS(columns));
	lh_table_row(&table);
	lh_table_put_text(&table, "Zürich");
	lh_table_put_int(&table, 5);
	lh_table_put_real(&table, 12.34);
	lh_table_row(&table);
	lh_table_put_text(&table, "b");
	lh_table_put_int(&table, 1000);
	assert_int_equal(lh_table_format_text(&table, 0, &text, NULL), 0);
	assert_string_equal(text, "name       n  value s\n"
				  "Zürich     5     12.3\n"
				  "b       1000        -\n");
	free(text);
	lh_table_done(&table);
}

static void a_narrow_terminal_drops_columns_by_their_order(void **state)
{
	struct lh_table table;
	char *text;

	(void)state;
	make_table(&table);
	table.n_rows = 1;
	assert_int_equal(lh_table_format_text(&table, 15, &text, NULL), 0);
	assert_string_equal(text, "name   value s\nplain      1.2\n(not shown: n)\n");
	free(text);
	table.n_rows = 2;
	lh_table_done(&table);
}

static void json_has_null_for_unknown(void **state)
{
	struct lh_table table;
	json_t *rows;

	(void)state;
	make_table(&table);
	rows = lh_table_format_json(&table);
	assert_int_equal(json_array_size(rows), 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 0), "count")), -7);
	assert_true(json_is_null(json_object_get(json_array_get(rows, 1), "value")));
	json_decref(rows);
	lh_table_done(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_quotes_as_rfc_4180_says),
		cmocka_unit_test(csv_reads_back_what_was_written),
		cmocka_unit_test(csv_takes_crlf_and_a_last_line_without_its_end),
		cmocka_unit_test(csv_errors_name_file_and_line),
		cmocka_unit_test(an_empty_file_is_an_error),
		cmocka_unit_test(numbers_have_a_point_in_every_locale),
		cmocka_unit_test(text_aligns_numbers_to_the_right),
		cmocka_unit_test(a_narrow_terminal_drops_columns_by_their_order),
		cmocka_unit_test(json_has_null_for_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
