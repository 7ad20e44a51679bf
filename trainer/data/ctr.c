/* SPDX-License-Identifier: Apache-2.0 */
/* Kind ctr: click logs. See ctr.h. */
#include "trainer/data/ctr.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/data/dataset_internal.h"
#include "trainer/data/map.h"

enum {
	CRITEO_DENSE = 13,
	CRITEO_SPARSE = 26,
	BUCKETS_DEFAULT = 10000,
	NUMBER_BYTES_MAX = 63,
	VALUE_BYTES_MAX = 4096,
};

struct ctr {
	char *path;
	struct lh_map map;
	struct lh_ctr_shape shape;
	uint64_t *starts; /* [n + 1]: of lines within the file */
	uint64_t n;
	uint64_t first;	       /* of the split */
	uint64_t first_number; /* of line 0, for messages */
};

/* ---- one line ----------------------------------------------------------------------------- */

/* Where a value stands, for messages. */
struct place {
	const char *path;
	uint64_t line;
	uint32_t column;
};

static int parse_label(const struct place *at, const char *p, size_t n, int32_t *ret,
		       struct lh_error *err)
{
	if (n != 1 || (*p != '0' && *p != '1'))
		return lh_fail(err, LH_EINPUT, 0, "%s:%llu: column 1, the label, is not 0 or 1",
			       at->path, (unsigned long long)at->line);
	*ret = *p == '1';
	return 0;
}

static int parse_dense(const struct place *at, const char *p, size_t n, float *ret,
		       struct lh_error *err)
{
	char text[NUMBER_BYTES_MAX + 1];
	char *end;
	double x;

	*ret = 0;
	if (n == 0)
		return 0;
	if (n <= NUMBER_BYTES_MAX) {
		memcpy(text, p, n);
		text[n] = '\0';
		/* strtod passes over blanks */
		x = strchr("+-.0123456789", text[0]) ? strtod(text, &end) : NAN;
		if (isfinite(x) && end == text + n) {
			*ret = (float)copysign(log1p(fabs(x)), x);
			return 0;
		}
	}
	return lh_fail(err, LH_EINPUT, 0, "%s:%llu: column %u is not a number: '%.*s'", at->path,
		       (unsigned long long)at->line, at->column,
		       (int)(n < NUMBER_BYTES_MAX ? n : NUMBER_BYTES_MAX), p);
}

/* FNV-1a of the text. */
static int parse_sparse(const struct lh_ctr_shape *shape, const struct place *at, const char *p,
			size_t n, int32_t *ret, struct lh_error *err)
{
	uint64_t h = 0xcbf29ce484222325u;

	if (n > VALUE_BYTES_MAX || memchr(p, '"', n) || memchr(p, '\0', n))
		return lh_fail(err, LH_EINPUT, 0,
			       "%s:%llu: column %u is quoted, binary or longer than %d bytes; "
			       "plain text is read",
			       at->path, (unsigned long long)at->line, at->column, VALUE_BYTES_MAX);
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)p[i]) * 0x100000001b3u;
	*ret = (int32_t)((h ^ h >> 32) % shape->n_buckets);
	return 0;
}

int lh_ctr_parse(const struct lh_ctr_shape *shape, const char *path, uint64_t number,
		 const char *line, size_t n, struct lh_ctr_row *ret, struct lh_error *err)
{
	uint32_t n_columns = 1 + shape->n_dense + shape->n_sparse;
	const char *p = line, *end = line + n;
	struct place at = {path, number, 1};

	if (n && end[-1] == '\r')
		end--;
	for (; at.column <= n_columns; at.column++) {
		const char *stop = memchr(p, shape->separator, (size_t)(end - p));
		size_t length = (size_t)((stop ? stop : end) - p);
		uint32_t value = at.column - 2; /* after the label */
		int r;

		if (at.column == 1)
			r = parse_label(&at, p, length, &ret->label, err);
		else if (value < shape->n_dense)
			r = parse_dense(&at, p, length, &ret->dense[value], err);
		else
			r = parse_sparse(shape, &at, p, length,
					 &ret->sparse[value - shape->n_dense], err);
		if (r < 0)
			return r;
		if (!stop != (at.column == n_columns))
			return lh_fail(err, LH_EINPUT, 0,
				       "%s:%llu: %s %u columns; a label, %u numbers and %u "
				       "categories were expected",
				       path, (unsigned long long)number,
				       stop ? "more than" : "only", at.column, shape->n_dense,
				       shape->n_sparse);
		p = stop ? stop + 1 : end;
	}
	return 0;
}

/* ---- the dataset -------------------------------------------------------------------------- */

static size_t line_length(const struct ctr *c, uint64_t line)
{
	return c->starts[line + 1] - 1 - c->starts[line];
}

/* Separator and shape, from the first line and what is asked for. */
static int find_shape(struct ctr *c, struct lh_data_request *spec, size_t first_length,
		      struct lh_error *err)
{
	const char *line = (const char *)c->map.data;
	uint32_t n_columns = 1;

	c->shape.separator = memchr(line, '\t', first_length) ? '\t' : ',';
	for (size_t i = 0; i < first_length; i++)
		n_columns += line[i] == c->shape.separator;
	if (!spec->n_dense && !spec->n_sparse && n_columns == 1 + CRITEO_DENSE + CRITEO_SPARSE) {
		spec->n_dense = CRITEO_DENSE;
		spec->n_sparse = CRITEO_SPARSE;
	}
	if (1 + spec->n_dense + spec->n_sparse != n_columns || n_columns == 1)
		return lh_fail(err, LH_EINPUT, 0,
			       "%s: its first line has %u columns; n_dense is %u and n_sparse %u, "
			       "which with the label make %u",
			       c->path, n_columns, spec->n_dense, spec->n_sparse,
			       1 + spec->n_dense + spec->n_sparse);
	spec->n_buckets = spec->n_buckets ? spec->n_buckets : BUCKETS_DEFAULT;
	if ((uint64_t)spec->n_sparse * spec->n_buckets > INT32_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%s: n_sparse x n_buckets is above %d", c->path,
			       INT32_MAX);
	c->shape.n_dense = spec->n_dense;
	c->shape.n_sparse = spec->n_sparse;
	c->shape.n_buckets = spec->n_buckets;
	return 0;
}

/* Finds the lines, without a header: one that begins with neither 0 nor 1 and a separator. */
static int find_lines(struct ctr *c, struct lh_data_request *spec, struct lh_error *err)
{
	const char *text = (const char *)c->map.data;
	size_t size = c->map.size, at = 0;
	const char *stop = memchr(text, '\n', size);
	uint64_t room = 1;
	int r = find_shape(c, spec, stop ? (size_t)(stop - text) : size, err);

	if (r < 0)
		return r;
	for (const char *p = text; (p = memchr(p, '\n', size - (size_t)(p - text))); p++)
		room++;
	c->starts = malloc((room + 1) * sizeof(*c->starts));
	if (!c->starts)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", c->path);
	c->first_number = 1;
	if (size < 2 || (text[0] != '0' && text[0] != '1') || text[1] != c->shape.separator) {
		at = stop ? (size_t)(stop - text) + 1 : size;
		c->first_number = 2;
	}
	while (at < size) {
		const char *end = memchr(text + at, '\n', size - at);

		c->starts[c->n++] = at;
		at = end ? (size_t)(end - text) + 1 : size + 1;
	}
	c->starts[c->n] = at;
	if (c->n == 0)
		return lh_fail(err, LH_EINPUT, 0, "%s: has no lines but the header", c->path);
	return 0;
}

static int parse(const struct ctr *c, uint64_t line, struct lh_ctr_row *ret, struct lh_error *err)
{
	return lh_ctr_parse(&c->shape, c->path, c->first_number + line,
			    (const char *)c->map.data + c->starts[line], line_length(c, line), ret,
			    err);
}

/* Reads every line once, so that what is wrong is told at the start. */
static int check_lines(const struct ctr *c, struct lh_error *err)
{
	struct lh_ctr_row row = {0};
	int r = 0;

	row.dense = malloc((c->shape.n_dense + 1) * sizeof(*row.dense));
	row.sparse = malloc((c->shape.n_sparse + 1) * sizeof(*row.sparse));
	if (!row.dense || !row.sparse)
		r = lh_fail(err, LH_ESYS, ENOMEM, "open %s", c->path);
	for (uint64_t i = 0; i < c->n && r == 0; i++)
		r = parse(c, i, &row, err);
	free(row.dense);
	free(row.sparse);
	return r;
}

static int open_ctr(struct lh_dataset *ds, struct lh_error *err)
{
	struct ctr *c = ds->state = calloc(1, sizeof(*c));
	bool is_whole;
	int r;

	if (!c)
		return lh_fail(err, LH_ESYS, ENOMEM, "open data");
	if ((r = lh_data_split_path(&ds->spec, ".csv", &c->path, &is_whole, err)) < 0 ||
	    (r = lh_map_open(c->path, &c->map, err)) < 0 ||
	    (r = find_lines(c, &ds->spec, err)) < 0 || (r = check_lines(c, err)) < 0)
		return r;
	ds->size = c->n;
	if (is_whole && (r = lh_data_split_range(&ds->spec, c->n, &c->first, &ds->size, err)) < 0)
		return r;
	ds->n_labels = 2;
	lh_dataset_add_field(ds, "dense", LH_DATA_F32, 1, c->shape.n_dense, 0, 0);
	lh_dataset_add_field(ds, "sparse", LH_DATA_I32, 1, c->shape.n_sparse, 0, 0);
	lh_dataset_add_field(ds, "labels", LH_DATA_I32, 0, 0, 0, 0);
	return 0;
}

static void close_ctr(struct lh_dataset *ds)
{
	struct ctr *c = ds->state;

	lh_map_close(&c->map);
	free(c->starts);
	free(c->path);
	free(c);
}

static int read_ctr(struct lh_dataset *ds, uint64_t index, uint64_t epoch, void *const *ret_fields,
		    struct lh_error *err)
{
	const struct ctr *c = ds->state;
	struct lh_ctr_row row = {0, ret_fields[0], ret_fields[1]};
	int r = parse(c, c->first + index, &row, err);

	(void)epoch;
	if (r == 0)
		*(int32_t *)ret_fields[2] = row.label;
	return r;
}

static int32_t label_of(const struct lh_dataset *ds, uint64_t index)
{
	const struct ctr *c = ds->state;

	return c->map.data[c->starts[c->first + index]] == '1';
}

const struct lh_dataset_ops lh_dataset_ctr = {
	.name = "ctr",
	.doc = "click logs, CSV or tabs: label, numbers, categories (as Criteo's)",
	.open = open_ctr,
	.close = close_ctr,
	.read = read_ctr,
	.label = label_of,
};
