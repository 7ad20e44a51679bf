/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: rows and CSV. See table.h; the text form is table_text.c. */
#include "collect/table.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"

enum { NUMBER_MAX = 352 }; /* a double's 309 digits before the point, and the decimals */

void lh_table_init(struct lh_table *table, const struct lh_column *columns, size_t n_columns)
{
	memset(table, 0, sizeof(*table));
	table->columns = columns;
	table->n_columns = n_columns;
}

void lh_table_done(struct lh_table *table)
{
	for (size_t i = 0; i < table->n_rows * table->n_columns; i++)
		if (table->columns[i % table->n_columns].kind == LH_CELL_TEXT)
			free(table->cells[i].text);
	free(table->cells);
	lh_table_init(table, table->columns, table->n_columns);
}

void lh_table_row(struct lh_table *table)
{
	size_t n = table->n_columns;

	if (table->is_failed)
		return;
	if (table->n_rows == table->n_room) {
		size_t room = table->n_room ? table->n_room * 2 : 16;
		struct lh_cell *grown = reallocarray(table->cells, room, n * sizeof(*grown));

		if (!grown) {
			table->is_failed = true;
			return;
		}
		table->cells = grown;
		table->n_room = room;
	}
	memset(table->cells + table->n_rows * n, 0, n * sizeof(*table->cells));
	table->n_rows++;
	table->n_filled = 0;
}

/* The next cell to fill, or NULL in a failed table. */
static struct lh_cell *next_cell(struct lh_table *table, enum lh_cell_kind kind)
{
	size_t column = table->n_filled;

	if (table->is_failed)
		return NULL;
	assert(table->n_rows > 0 && column < table->n_columns);
	assert(table->columns[column].kind == kind);
	(void)kind;
	table->n_filled++;
	return &table->cells[(table->n_rows - 1) * table->n_columns + column];
}

void lh_table_put_text(struct lh_table *table, const char *text)
{
	struct lh_cell *cell = next_cell(table, LH_CELL_TEXT);

	if (!cell || !text)
		return;
	cell->text = strdup(text);
	cell->is_known = cell->text != NULL;
	if (!cell->text)
		table->is_failed = true;
}

void lh_table_put_int(struct lh_table *table, int64_t value)
{
	struct lh_cell *cell = next_cell(table, LH_CELL_INT);

	if (!cell)
		return;
	cell->integer = value;
	cell->is_known = true;
}

void lh_table_put_real(struct lh_table *table, double value)
{
	struct lh_cell *cell = next_cell(table, LH_CELL_REAL);

	if (!cell || !isfinite(value))
		return;
	cell->real = value;
	cell->is_known = true;
}

void lh_table_skip(struct lh_table *table)
{
	if (table->is_failed)
		return;
	assert(table->n_rows > 0 && table->n_filled < table->n_columns);
	table->n_filled++;
}

int lh_table_check(const struct lh_table *table, struct lh_error *err)
{
	if (table->is_failed)
		return lh_fail(err, LH_ESYS, ENOMEM, "fill a table");
	return 0;
}

const struct lh_cell *lh_table_cell(const struct lh_table *table, size_t row, size_t column)
{
	assert(row < table->n_rows && column < table->n_columns);
	return &table->cells[row * table->n_columns + column];
}

int lh_table_find_column(const struct lh_table *table, const char *name)
{
	for (size_t c = 0; c < table->n_columns; c++)
		if (strcmp(table->columns[c].name, name) == 0)
			return (int)c;
	return -1;
}

char *lh_number_format(double value, int decimals, char *buf, size_t n_buf)
{
	char raw[NUMBER_MAX];
	size_t used = 0;
	bool is_zero = true;

	if (!isfinite(value)) {
		buf[0] = '\0';
		return buf;
	}
	snprintf(raw, sizeof(raw), "%.*f", decimals, value);
	for (const char *p = raw; *p; p++)
		is_zero = is_zero && !(*p >= '1' && *p <= '9');
	/* whatever bytes the locale has for its decimal point become one '.' */
	for (const char *p = raw; *p && used + 1 < n_buf; p++) {
		bool is_digit = *p >= '0' && *p <= '9';

		if (*p == '-' && is_zero)
			continue;
		if (is_digit || *p == '-')
			buf[used++] = *p;
		else if (used > 0 && buf[used - 1] != '.')
			buf[used++] = '.';
	}
	buf[used] = '\0';
	return buf;
}

const char *lh_cell_format(const struct lh_column *column, const struct lh_cell *cell, int decimals,
			   char *buf, size_t n_buf)
{
	if (!cell->is_known)
		return "";
	switch (column->kind) {
	case LH_CELL_TEXT:
		return cell->text;
	case LH_CELL_INT:
		snprintf(buf, n_buf, "%" PRId64, cell->integer);
		return buf;
	case LH_CELL_REAL:
		return lh_number_format(cell->real, decimals, buf, n_buf);
	}
	return "";
}

/* One field, quoted where RFC 4180 asks for it. */
static void write_field(FILE *f, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, f);
		return;
	}
	fputc('"', f);
	for (const char *p = text; *p; p++) {
		if (*p == '"')
			fputc('"', f);
		fputc(*p, f);
	}
	fputc('"', f);
}

int lh_table_format_csv(const struct lh_table *table, char **ret_text, struct lh_error *err)
{
	char *text = NULL;
	size_t size;
	FILE *f;
	int r = lh_table_check(table, err);

	if (r < 0)
		return r;
	f = open_memstream(&text, &size);
	if (!f)
		return lh_fail(err, LH_ESYS, errno, "format a table");
	for (size_t c = 0; c < table->n_columns; c++)
		fprintf(f, "%s%s", c ? "," : "", table->columns[c].name);
	fputc('\n', f);
	for (size_t row = 0; row < table->n_rows; row++) {
		for (size_t c = 0; c < table->n_columns; c++) {
			const struct lh_column *column = &table->columns[c];
			char buf[NUMBER_MAX];

			if (c)
				fputc(',', f);
			write_field(f, lh_cell_format(column, lh_table_cell(table, row, c),
						      column->csv_decimals, buf, sizeof(buf)));
		}
		fputc('\n', f);
	}
	if (fclose(f) != 0) {
		free(text);
		return lh_fail(err, LH_ESYS, ENOMEM, "format a table");
	}
	*ret_text = text;
	return 0;
}

int lh_table_write_csv(const struct lh_table *table, const char *path, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	int r = lh_table_format_csv(table, &text, err);

	if (r < 0)
		return r;
	return lh_file_write(path, text, strlen(text), err);
}

int lh_table_write_all(const struct lh_table_file *files, size_t n, const char *dir,
		       struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		lh_cleanup_free char *path = lh_path_join(dir, files[i].name);

		if (!files[i].table)
			continue;
		r = path ? lh_table_write_csv(files[i].table, path, err)
			 : lh_fail(err, LH_ESYS, ENOMEM, "write %s", files[i].name);
	}
	return r;
}

static json_t *cell_json(const struct lh_column *column, const struct lh_cell *cell)
{
	if (!cell->is_known)
		return json_null();
	switch (column->kind) {
	case LH_CELL_TEXT:
		return json_string(cell->text);
	case LH_CELL_INT:
		return json_integer(cell->integer);
	case LH_CELL_REAL:
		return json_real(cell->real);
	}
	return json_null();
}

json_t *lh_table_format_json(const struct lh_table *table)
{
	lh_cleanup_json json_t *rows = json_array();

	if (table->is_failed || !rows)
		return NULL;
	for (size_t row = 0; row < table->n_rows; row++) {
		json_t *object = json_object();

		if (!object || json_array_append_new(rows, object) < 0)
			return NULL;
		for (size_t c = 0; c < table->n_columns; c++)
			if (json_object_set_new(object, table->columns[c].name,
						cell_json(&table->columns[c],
							  lh_table_cell(table, row, c))) < 0)
				return NULL;
	}
	return lh_steal(&rows);
}
