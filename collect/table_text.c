/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as aligned text for a terminal. See table.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/table.h"
#include "core/cleanup.h"

enum { CELL_MAX = 352, GAP = 2 };

/* Columns of a terminal that UTF-8 text takes, one per character. */
static size_t text_width(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static const char *head_of(const struct lh_column *column)
{
	return column->head ? column->head : column->name;
}

static const char *cell_text(const struct lh_table *table, size_t row, size_t c, char *buf,
			     size_t n_buf)
{
	const struct lh_cell *cell = lh_table_cell(table, row, c);

	if (!cell->is_known)
		return "-";
	return lh_cell_format(&table->columns[c], cell, table->columns[c].text_decimals, buf,
			      n_buf);
}

/* Each column's width; 0 for one that is hidden or wholly unknown and may be dropped. */
static void measure(const struct lh_table *table, size_t *widths)
{
	char buf[CELL_MAX];

	for (size_t c = 0; c < table->n_columns; c++) {
		bool is_empty = table->n_rows > 0;

		widths[c] = 0;
		if (table->columns[c].drop == LH_COLUMN_HIDE)
			continue;
		widths[c] = text_width(head_of(&table->columns[c]));
		for (size_t row = 0; row < table->n_rows; row++) {
			size_t w = text_width(cell_text(table, row, c, buf, sizeof(buf)));

			is_empty = is_empty && !lh_table_cell(table, row, c)->is_known;
			widths[c] = w > widths[c] ? w : widths[c];
		}
		if (is_empty && table->columns[c].drop != LH_COLUMN_KEEP)
			widths[c] = 0;
	}
}

static size_t total_width(const size_t *widths, size_t n)
{
	size_t total = 0;

	for (size_t c = 0; c < n; c++)
		if (widths[c])
			total += widths[c] + (total ? GAP : 0);
	return total;
}

/* Takes columns out until the rest fits; marks them in is_dropped. */
static size_t fit(const struct lh_table *table, size_t *widths, bool *is_dropped, size_t width)
{
	size_t n_dropped = 0;

	while (width && total_width(widths, table->n_columns) > width) {
		size_t victim = table->n_columns;

		for (size_t c = 0; c < table->n_columns; c++)
			if (widths[c] && table->columns[c].drop != LH_COLUMN_KEEP &&
			    (victim == table->n_columns ||
			     table->columns[c].drop >= table->columns[victim].drop))
				victim = c;
		if (victim == table->n_columns)
			break;
		widths[victim] = 0;
		is_dropped[victim] = true;
		n_dropped++;
	}
	return n_dropped;
}

/* One padded cell; *pending holds the blanks owed before the next one, so that no line ends in
 * them. */
static void write_cell(FILE *f, const char *text, size_t width, bool is_right, size_t *pending)
{
	size_t pad = width - text_width(text);

	fprintf(f, "%*s%s", (int)(*pending + (is_right ? pad : 0)), "", text);
	*pending = GAP + (is_right ? 0 : pad);
}

static void write_lines(FILE *f, const struct lh_table *table, const size_t *widths)
{
	for (size_t line = 0; line <= table->n_rows; line++) {
		size_t pending = 0;

		for (size_t c = 0; c < table->n_columns; c++) {
			char buf[CELL_MAX];

			if (!widths[c])
				continue;
			write_cell(f,
				   line == 0 ? head_of(&table->columns[c])
					     : cell_text(table, line - 1, c, buf, sizeof(buf)),
				   widths[c], table->columns[c].kind != LH_CELL_TEXT, &pending);
		}
		fputc('\n', f);
	}
}

int lh_table_format_text(const struct lh_table *table, size_t width, char **ret_text,
			 struct lh_error *err)
{
	lh_cleanup_free size_t *widths = calloc(table->n_columns + 1, sizeof(*widths));
	lh_cleanup_free bool *is_dropped = calloc(table->n_columns + 1, sizeof(*is_dropped));
	char *text = NULL;
	size_t size, n_dropped;
	FILE *f;
	int r = lh_table_check(table, err);

	if (r < 0)
		return r;
	if (!widths || !is_dropped || !(f = open_memstream(&text, &size)))
		return lh_fail(err, LH_ESYS, ENOMEM, "format a table");
	measure(table, widths);
	n_dropped = fit(table, widths, is_dropped, width);
	write_lines(f, table, widths);
	if (n_dropped) {
		const char *sep = "(not shown: ";

		for (size_t c = 0; c < table->n_columns; c++)
			if (is_dropped[c]) {
				fprintf(f, "%s%s", sep, head_of(&table->columns[c]));
				sep = ", ";
			}
		fputs(")\n", f);
	}
	if (fclose(f) != 0) {
		free(text);
		return lh_fail(err, LH_ESYS, ENOMEM, "format a table");
	}
	*ret_text = text;
	return 0;
}
