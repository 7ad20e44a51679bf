/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads CSV (RFC 4180: quotes, doubled quotes, line breaks in quotes; LF or CRLF), one row at
 * a time, whatever the locale. The first line names the columns; every row has as many cells.
 */
#ifndef LH_COLLECT_CSV_H
#define LH_COLLECT_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum { LH_CSV_COLUMNS_MAX = 1024 };

/* A file being read. Cells are borrowed until the next row. All zero is a closed one. */
struct lh_csv {
	char *path;
	char *text;
	char *row;  /* where the current row begins */
	char *next; /* where the next row begins */
	char *end;
	size_t line;	/* of the current row, from 1 */
	size_t n_lines; /* read so far */
	char **header;
	char **cells;
	size_t n_columns;
	bool is_growing; /* a last line without its line end is not a row yet */
};

/* Opens path and reads its header. LH_ESYS, LH_EINPUT (no header). */
int lh_csv_open(const char *path, struct lh_csv *ret_csv, struct lh_error *err);

/* The same from size bytes of text that are there already; name is shown in messages. */
int lh_csv_open_text(const char *name, const char *text, size_t size, struct lh_csv *ret_csv,
		     struct lh_error *err);

/* Frees what is held; safe on a closed one. */
void lh_csv_close(struct lh_csv *csv);

/* Reads the next row: 1, 0 at the end, or LH_EINPUT with file:line:col. */
int lh_csv_next(struct lh_csv *csv, struct lh_error *err);

/* Where a cell of the current row (before the first: of the header) begins. */
struct lh_pos lh_csv_pos(const struct lh_csv *csv, int column);

/* The column called name, or -1. */
int lh_csv_find(const struct lh_csv *csv, const char *name);

/* Finds all n named columns; LH_EINPUT names the first one that is missing. */
int lh_csv_find_all(const struct lh_csv *csv, const char *const *names, size_t n, int *ret_columns,
		    struct lh_error *err);

/* The cell of the current row as an integer; LH_EINPUT with file:line:col and its name. */
int lh_csv_int(const struct lh_csv *csv, int column, int64_t *ret_value, struct lh_error *err);

/* The cell as a number, NaN where it is empty or column is -1; LH_EINPUT. */
int lh_csv_real(const struct lh_csv *csv, int column, double *ret_value, struct lh_error *err);

static inline void lh_cleanup_csv_p(struct lh_csv *csv)
{
	lh_csv_close(csv);
}

#define lh_cleanup_csv __attribute__((cleanup(lh_cleanup_csv_p)))

#endif
