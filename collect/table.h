/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables: typed columns, rows, and two ways out: CSV for programs (RFC 4180, the same bytes
 * on every machine and in every locale) and aligned text for people. Reading CSV is csv.h's.
 */
#ifndef LH_COLLECT_TABLE_H
#define LH_COLLECT_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum lh_cell_kind { LH_CELL_TEXT, LH_CELL_INT, LH_CELL_REAL };

/* When a column of the text form gives way to a narrow terminal. */
enum lh_column_drop {
	LH_COLUMN_KEEP = 0,   /* never */
	LH_COLUMN_HIDE = 255, /* not in the text form at all; 1 to 254: the highest goes first */
};

struct lh_column {
	const char *name; /* in CSV */
	const char *head; /* in text, with its unit; NULL: the name */
	enum lh_cell_kind kind;
	int csv_decimals;  /* of a real number in CSV, 0 to 15 */
	int text_decimals; /* of a real number in text */
	int drop;	   /* enum lh_column_drop */
};

struct lh_cell {
	bool is_known;
	union {
		char *text;
		int64_t integer;
		double real;
	};
};

/* Plain data to read; rows are added through the functions below. */
struct lh_table {
	const struct lh_column *columns; /* borrowed */
	size_t n_columns;
	struct lh_cell *cells; /* n_rows x n_columns */
	size_t n_rows;
	size_t n_room;	 /* rows that cells has room for */
	size_t n_filled; /* cells of the last row that were put */
	bool is_failed;	 /* memory ran out; the table must not be used */
};

/* Makes an empty table of n_columns columns, which must outlive it. */
void lh_table_init(struct lh_table *table, const struct lh_column *columns, size_t n_columns);

/* Frees the rows. */
void lh_table_done(struct lh_table *table);

/*
 * Begins a row whose cells are all unknown; lh_table_put_* then fill it from the left, each
 * of the column's kind. Where memory runs out the table is marked failed, and check, write
 * and render return LH_ESYS.
 */
void lh_table_row(struct lh_table *table);

/* Puts a copy of text; NULL is an unknown cell. */
void lh_table_put_text(struct lh_table *table, const char *text);
void lh_table_put_int(struct lh_table *table, int64_t value);
/* NaN and infinities are unknown cells. */
void lh_table_put_real(struct lh_table *table, double value);
/* Leaves the next cell unknown. */
void lh_table_skip(struct lh_table *table);

/* 0, or LH_ESYS where memory ran out while rows were added. */
int lh_table_check(const struct lh_table *table, struct lh_error *err);

const struct lh_cell *lh_table_cell(const struct lh_table *table, size_t row, size_t column);

/* The index of the column called name, or -1. */
int lh_table_find_column(const struct lh_table *table, const char *name);

/* Writes the CSV under path, all or nothing. LH_ESYS. */
int lh_table_write_csv(const struct lh_table *table, const char *path, struct lh_error *err);

/* A table and the name of its file; table NULL: there is none. */
struct lh_table_file {
	const char *name;
	const struct lh_table *table;
};

/* Writes those that there are into the folder dir. LH_ESYS. */
int lh_table_write_all(const struct lh_table_file *files, size_t n, const char *dir,
		       struct lh_error *err);

/* The CSV text, owned by the caller. LH_ESYS. */
int lh_table_format_csv(const struct lh_table *table, char **ret_text, struct lh_error *err);

/*
 * The table as aligned text, owned by the caller: a line of heads, then the rows, numbers to
 * the right, "-" for unknown. width is the room in columns of the terminal, 0 for any: columns
 * that do not fit are left out by their drop order, and a last line says which. LH_ESYS.
 */
int lh_table_format_text(const struct lh_table *table, size_t width, char **ret_text,
			 struct lh_error *err);

/* The rows as an array of objects, unknown cells null; NULL where memory is out. */
json_t *lh_table_format_json(const struct lh_table *table);

/* value with fixed decimals and "." whatever the locale; "" for NaN. Returns buf. */
char *lh_number_format(double value, int decimals, char *buf, size_t n_buf);

/* A cell as text, unquoted, a real number with so many decimals: borrowed, or in buf.
 * "" where it is unknown. */
const char *lh_cell_format(const struct lh_column *column, const struct lh_cell *cell, int decimals,
			   char *buf, size_t n_buf);

#endif
