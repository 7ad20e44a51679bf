/* SPDX-License-Identifier: Apache-2.0 */
/* HTML text and tables. See html.h. */
#include "plots/html.h"

#include <stdarg.h>
#include <stdlib.h>

void lh_html_put(FILE *f, const char *text)
{
	for (const char *p = text ? text : ""; *p; p++) {
		switch (*p) {
		case '&':
			fputs("&amp;", f);
			break;
		case '<':
			fputs("&lt;", f);
			break;
		case '>':
			fputs("&gt;", f);
			break;
		case '"':
			fputs("&quot;", f);
			break;
		case '\'':
			fputs("&#39;", f);
			break;
		default:
			fputc(*p, f);
		}
	}
}

void lh_html_putf(FILE *f, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) >= 0) {
		lh_html_put(f, text);
		free(text);
	}
	va_end(ap);
}

static void put_row(FILE *f, const struct lh_table *table, size_t row)
{
	fputs("<tr>", f);
	for (size_t c = 0; c < table->n_columns; c++) {
		const struct lh_column *column = &table->columns[c];
		const struct lh_cell *cell = lh_table_cell(table, row, c);
		char buf[400];

		if (column->drop == LH_COLUMN_HIDE)
			continue;
		fputs(column->kind == LH_CELL_TEXT ? "<td class=\"t\">" : "<td>", f);
		lh_html_put(f, cell->is_known ? lh_cell_format(column, cell, column->text_decimals,
							       buf, sizeof(buf))
					      : "–");
		fputs("</td>", f);
	}
	fputs("</tr>\n", f);
}

void lh_html_put_table(FILE *f, const struct lh_table *table)
{
	fputs("<div class=\"wide\"><table>\n<tr>", f);
	for (size_t c = 0; c < table->n_columns; c++) {
		const struct lh_column *column = &table->columns[c];

		if (column->drop == LH_COLUMN_HIDE)
			continue;
		fputs(column->kind == LH_CELL_TEXT ? "<th class=\"t\">" : "<th>", f);
		lh_html_put(f, column->head ? column->head : column->name);
		fputs("</th>", f);
	}
	fputs("</tr>\n", f);
	for (size_t row = 0; row < table->n_rows; row++)
		put_row(f, table, row);
	fputs("</table></div>\n", f);
}
