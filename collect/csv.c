/* SPDX-License-Identifier: Apache-2.0 */
/* CSV reader. See csv.h. */
#include "collect/csv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

#define CSV_FILE_MAX_BYTES ((size_t)4 << 30)

/* Ends the field at *p (a separator, a line end or the end) and steps over it; true: the row ended.
 */
static bool end_field(struct lh_csv *csv, char *field_end, char **p)
{
	char *q = *p;
	bool is_row_end = true;

	if (q < csv->end && *q == ',') {
		is_row_end = false;
		q++;
	} else if (q < csv->end) {
		q += *q == '\r' && q + 1 < csv->end && q[1] == '\n' ? 2 : 1;
		csv->n_lines++;
	} else {
		csv->n_lines++;
	}
	*field_end = '\0';
	*p = q;
	return is_row_end;
}

static bool ends_line(const struct lh_csv *csv, const char *p)
{
	return p == csv->end || *p == '\n' || (*p == '\r' && p + 1 < csv->end && p[1] == '\n');
}

/* Unquotes in place the field whose opening quote is at *p; returns its end, NULL if it never
 * closes. */
static char *read_quoted(struct lh_csv *csv, char **p)
{
	char *in = *p + 1;
	char *out = in;

	for (;; in++) {
		if (in >= csv->end)
			return NULL;
		if (*in == '"') {
			if (in + 1 < csv->end && in[1] == '"')
				in++;
			else
				break;
		}
		csv->n_lines += *in == '\n';
		*out++ = *in;
	}
	*p = in + 1;
	return out;
}

/* Splits the row at csv->next into at most max cells; returns their number, or LH_EINPUT. */
static int read_row(struct lh_csv *csv, char **cells, size_t max, struct lh_error *err)
{
	char *p = csv->next;
	bool is_row_end = false;
	size_t n = 0;

	csv->line = csv->n_lines + 1;
	csv->row = csv->next;
	while (!is_row_end) {
		char *start = p, *field_end;

		if (n == max)
			return lh_fail(err, LH_EINPUT, 0, "%s:%zu:%td: more than %zu cells",
				       csv->path, csv->line, p - csv->row + 1, max);
		if (p < csv->end && *p == '"') {
			start = p + 1;
			field_end = read_quoted(csv, &p);
			if (!field_end || !(ends_line(csv, p) || *p == ','))
				return lh_fail(err, LH_EINPUT, 0,
					       "%s:%zu:%td: a quote does not close", csv->path,
					       csv->line, start - csv->row);
		} else {
			while (!ends_line(csv, p) && *p != ',')
				p++;
			field_end = p;
		}
		cells[n++] = start;
		is_row_end = end_field(csv, field_end, &p);
	}
	csv->next = p;
	return (int)n;
}

/* Reads the header of what csv holds; closes it where that fails. */
static int begin(struct lh_csv *csv, size_t size, struct lh_error *err)
{
	char *cells[LH_CSV_COLUMNS_MAX];
	int n;

	if (!csv->path || !csv->text)
		return lh_fail(err, LH_ESYS, ENOMEM, "read CSV");
	if (size == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s:1:1: empty; expected a line of column names",
			       csv->path);
	csv->next = csv->text;
	csv->end = csv->text + size;
	n = read_row(csv, cells, LH_CSV_COLUMNS_MAX, err);
	if (n < 0)
		return n;
	csv->n_columns = (size_t)n;
	csv->header = calloc(csv->n_columns, sizeof(*csv->header));
	csv->cells = calloc(csv->n_columns, sizeof(*csv->cells));
	if (!csv->header || !csv->cells)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", csv->path);
	memcpy(csv->header, cells, csv->n_columns * sizeof(*cells));
	memcpy(csv->cells, cells, csv->n_columns * sizeof(*cells));
	return 0;
}

/* Hands over what has a header now, or closes it. */
static int opened(struct lh_csv *csv, size_t size, struct lh_csv *ret_csv, struct lh_error *err)
{
	int r = begin(csv, size, err);

	if (r < 0)
		lh_csv_close(csv);
	else
		*ret_csv = *csv;
	return r;
}

int lh_csv_open(const char *path, struct lh_csv *ret_csv, struct lh_error *err)
{
	struct lh_csv csv = {0};
	size_t size;
	int r = lh_file_read(path, CSV_FILE_MAX_BYTES, &csv.text, &size, err);

	if (r < 0)
		return r;
	csv.path = strdup(path);
	return opened(&csv, size, ret_csv, err);
}

int lh_csv_open_text(const char *name, const char *text, size_t size, struct lh_csv *ret_csv,
		     struct lh_error *err)
{
	struct lh_csv csv = {.path = strdup(name), .text = malloc(size + 1)};

	if (csv.text) {
		memcpy(csv.text, text, size);
		csv.text[size] = '\0';
	}
	return opened(&csv, size, ret_csv, err);
}

struct lh_pos lh_csv_pos(const struct lh_csv *csv, int column)
{
	return (struct lh_pos){csv->path, (int)csv->line, (int)(csv->cells[column] - csv->row) + 1};
}

void lh_csv_close(struct lh_csv *csv)
{
	free(csv->path);
	free(csv->text);
	free(csv->header);
	free(csv->cells);
	memset(csv, 0, sizeof(*csv));
}

int lh_csv_next(struct lh_csv *csv, struct lh_error *err)
{
	int n;

	if (csv->next >= csv->end)
		return 0;
	if (csv->is_growing && !memchr(csv->next, '\n', (size_t)(csv->end - csv->next)))
		return 0;
	n = read_row(csv, csv->cells, csv->n_columns, err);
	if (n < 0)
		return n;
	if ((size_t)n != csv->n_columns)
		return lh_fail(err, LH_EINPUT, 0, "%s:%zu:%td: %d cells; expected %zu", csv->path,
			       csv->line, csv->cells[n - 1] - csv->row + 1, n, csv->n_columns);
	return 1;
}

int lh_csv_find(const struct lh_csv *csv, const char *name)
{
	for (size_t c = 0; c < csv->n_columns; c++)
		if (strcmp(csv->header[c], name) == 0)
			return (int)c;
	return -1;
}

int lh_csv_find_all(const struct lh_csv *csv, const char *const *names, size_t n, int *ret_columns,
		    struct lh_error *err)
{
	for (size_t i = 0; i < n; i++) {
		ret_columns[i] = lh_csv_find(csv, names[i]);
		if (ret_columns[i] < 0)
			return lh_fail(err, LH_EINPUT, 0, "%s:1:1: no column '%s'", csv->path,
				       names[i]);
	}
	return 0;
}

static int bad_number(const struct lh_csv *csv, int column, const char *what, struct lh_error *err)
{
	struct lh_pos pos = lh_csv_pos(csv, column);

	return lh_fail(err, LH_EINPUT, 0, "%s:%d:%d: column '%s': '%.40s' is not %s", pos.file,
		       pos.line, pos.col, csv->header[column], csv->cells[column], what);
}

int lh_csv_int(const struct lh_csv *csv, int column, int64_t *ret_value, struct lh_error *err)
{
	const char *text = csv->cells[column];
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno || (*text != '-' && (*text < '0' || *text > '9')))
		return bad_number(csv, column, "an integer of 64 bits", err);
	*ret_value = value;
	return 0;
}

/* A decimal number: sign, digits, point, digits. strtod would follow the locale. */
static int parse_real(const char *p, double *ret)
{
	bool is_negative = *p == '-';
	bool is_after_point = false;
	double digits = 0, scale = 1;
	int n = 0;

	for (p += is_negative; *p; p++) {
		if (*p == '.' && !is_after_point) {
			is_after_point = true;
			continue;
		}
		if (*p < '0' || *p > '9' || ++n > 300)
			return -1;
		digits = digits * 10 + (*p - '0');
		scale *= is_after_point ? 10 : 1;
	}
	if (!n)
		return -1;
	*ret = (is_negative ? -digits : digits) / scale;
	return 0;
}

int lh_csv_real(const struct lh_csv *csv, int column, double *ret_value, struct lh_error *err)
{
	double value = NAN;

	if (column >= 0 && *csv->cells[column] && parse_real(csv->cells[column], &value) < 0)
		return bad_number(csv, column, "a decimal number", err);
	*ret_value = value;
	return 0;
}
