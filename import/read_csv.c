/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads CSV: one measurement a row (columns from and to), or a matrix with the sending sites
 * in the first column and the receiving ones in the header.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collect/csv.h"
#include "core/units.h"
#include "import/import_internal.h"

/* ---- one measurement a row --------------------------------------------------------------- */

enum { FROM, TO, RTT, JITTER, THROUGHPUT, SD, STREAMS, DURATION, SOURCE, N_COLUMNS };

static const char *const columns[N_COLUMNS] = {
	"from",	   "to",      "rtt_ms",	    "jitter_ms", "throughput_mbps",
	"sd_mbps", "streams", "duration_s", "source"};

/* The number in a column into *ret; NaN where the cell is empty or the column is not there. */
static int cell_number(struct im_reader *r, const struct lh_csv *csv, int column, double *ret)
{
	const char *end;

	*ret = (double)NAN;
	if (column < 0 || !*csv->cells[column])
		return 0;
	if (im_number(csv->cells[column], ret, &end) == 0 && !*end)
		return 0;
	return im_bad(r, lh_csv_pos(csv, column), csv->header[column], "'%.40s' is not a number",
		      csv->cells[column]);
}

/* Streams and duration of a row or, where they are not there, of the file's options. */
static int read_counts(struct im_reader *r, const struct lh_csv *csv, const int *at,
		       const double *value, struct im_rate *rate)
{
	double streams = value[STREAMS], duration = value[DURATION];

	if (isnan(streams))
		streams = r->file->streams ? (double)r->file->streams : 1;
	if (isnan(duration))
		duration = r->file->duration_ns ? (double)r->file->duration_ns / 1e9 : 10;
	if (!(streams >= 1 && streams <= LH_IMPORT_STREAMS_MAX && streams == floor(streams)))
		return im_bad(r, lh_csv_pos(csv, at[STREAMS]), columns[STREAMS],
			      "expected a whole number from 1 to %d", LH_IMPORT_STREAMS_MAX);
	if (!(duration >= 0.001 && duration <= 3600))
		return im_bad(r, lh_csv_pos(csv, at[DURATION]), columns[DURATION],
			      "expected 0.001 to 3600");
	rate->streams = (int64_t)streams;
	rate->duration_ns = llround(duration * 1e9);
	return 0;
}

static int take_row(struct im_reader *r, const struct lh_csv *csv, const int *at)
{
	struct im_rate rate = {.sd_bps = -1};
	struct im_rtt rtt = {.kind = IM_RTT_TABLE, .n = 1, .min_ms = -1, .sd_ms = -1};
	double value[N_COLUMNS] = {0};
	char source[600];
	bool has_own = at[SOURCE] >= 0 && *csv->cells[at[SOURCE]];
	int s = 0;

	for (int c = RTT; c <= DURATION && s == 0; c++)
		s = cell_number(r, csv, at[c], &value[c]);
	if (s == 0)
		s = read_counts(r, csv, at, value, &rate);
	if (s == 0)
		s = im_reader_site(r, lh_csv_pos(csv, at[FROM]), csv->cells[at[FROM]], &rate.from);
	if (s == 0)
		s = im_reader_site(r, lh_csv_pos(csv, at[TO]), csv->cells[at[TO]], &rate.to);
	if (s < 0)
		return s;
	if (has_own)
		snprintf(source, sizeof(source), "%.500s", csv->cells[at[SOURCE]]);
	else
		snprintf(source, sizeof(source), "%.500s:%zu", r->file->name, csv->line);
	rate.source = rtt.source = source;
	rtt.from = rate.from;
	rtt.to = rate.to;
	if (!isnan(value[RTT])) {
		rtt.ms = &value[RTT];
		rtt.sd_ms = isnan(value[JITTER]) ? -1 : value[JITTER];
		s = im_add_rtt(r, lh_csv_pos(csv, at[RTT]), &rtt);
	}
	if (s == 0 && !isnan(value[THROUGHPUT])) {
		rate.bps = value[THROUGHPUT] * 1e6;
		rate.sd_bps = isnan(value[SD]) ? -1 : value[SD] * 1e6;
		s = im_add_rate(r, lh_csv_pos(csv, at[THROUGHPUT]), &rate);
	}
	return s;
}

static int read_rows(struct im_reader *r, struct lh_csv *csv)
{
	int at[N_COLUMNS], more, s = 0;
	const char *known[2] = {columns[RTT], columns[THROUGHPUT]};

	for (int c = 0; c < N_COLUMNS; c++)
		at[c] = lh_csv_find(csv, columns[c]);
	if (at[RTT] < 0 && at[THROUGHPUT] < 0)
		return im_bad(r, lh_csv_pos(csv, 0), NULL, "no column '%s' and no column '%s'",
			      known[0], known[1]);
	for (size_t c = 0; c < csv->n_columns; c++) {
		bool is_known = false;

		for (int k = 0; k < N_COLUMNS; k++)
			is_known |= at[k] == (int)c;
		if (!is_known)
			s = im_bad(r, lh_csv_pos(csv, (int)c), NULL,
				   "the column '%.40s' is not known; expected from, to, rtt_ms, "
				   "jitter_ms, throughput_mbps, sd_mbps, streams, duration_s, "
				   "source, each once",
				   csv->header[c]);
	}
	if (s < 0)
		return s;
	while ((more = lh_csv_next(csv, r->err)) > 0 && r->diag->n_messages < LH_DIAG_MAX)
		if (take_row(r, csv, at) == LH_ESYS)
			return LH_ESYS;
	return more < 0 ? im_bad_csv(r, more) : 0;
}

/* ---- a matrix ---------------------------------------------------------------------------- */

/* A unit and what it makes of a matrix. */
struct unit {
	const char *text; /* NULL: in the cells */
	enum lh_unit_kind kind;
};

/* Whether text is a unit of a duration or a rate. */
static bool unit_read(const char *text, struct unit *ret)
{
	static const enum lh_unit_kind kinds[] = {LH_UNIT_DURATION, LH_UNIT_RATE};
	char quantity[64], why[256];
	int64_t value;

	snprintf(quantity, sizeof(quantity), "1 %.40s", text);
	for (size_t k = 0; k < 2; k++)
		if (lh_unit_parse(kinds[k], quantity, &value, why, sizeof(why)) == 0) {
			*ret = (struct unit){text, kinds[k]};
			return true;
		}
	return false;
}

/* A cell as ns or bit/s, and which of them. */
static int cell_quantity(struct im_reader *r, const struct lh_csv *csv, int column,
			 const struct unit *unit, enum lh_unit_kind *ret_kind, int64_t *ret)
{
	const char *cell = csv->cells[column];
	char text[96], why[256];

	snprintf(text, sizeof(text), "%.40s%s%.40s", cell, unit->text ? " " : "",
		 unit->text ? unit->text : "");
	*ret_kind = unit->kind;
	if (unit->text && lh_unit_parse(unit->kind, text, ret, why, sizeof(why)) == 0)
		return 0;
	if (!unit->text) {
		*ret_kind = LH_UNIT_DURATION;
		if (lh_unit_parse(LH_UNIT_DURATION, text, ret, why, sizeof(why)) == 0)
			return 0;
		*ret_kind = LH_UNIT_RATE;
		if (lh_unit_parse(LH_UNIT_RATE, text, ret, why, sizeof(why)) == 0)
			return 0;
	}
	return im_bad(r, lh_csv_pos(csv, column), NULL, "'%.40s' %s%s", cell,
		      unit->text ? why : "is neither a round trip nor a throughput with its unit",
		      unit->text ? "" : "; give --unit ms or --unit Mbit/s before the file");
}

static bool is_empty(const char *cell)
{
	static const char *const words[] = {"", "-", "x", "nan", "NaN"};
	size_t n;

	cell += strspn(cell, " ");
	n = strcspn(cell, " ");
	if (cell[n + strspn(cell + n, " ")])
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == n && strncmp(cell, words[i], n) == 0)
			return true;
	return false;
}

static int take_cell(struct im_reader *r, const struct lh_csv *csv, int column,
		     const struct unit *unit, size_t from, size_t to)
{
	struct im_rate rate = {.from = from,
			       .to = to,
			       .sd_bps = -1,
			       .streams = r->file->streams,
			       .duration_ns = r->file->duration_ns};
	struct im_rtt rtt = {
		.from = from, .to = to, .kind = IM_RTT_TABLE, .n = 1, .min_ms = -1, .sd_ms = -1};
	struct lh_pos pos = lh_csv_pos(csv, column);
	enum lh_unit_kind kind;
	char source[600];
	int64_t value;
	double ms;
	int s;

	if (is_empty(csv->cells[column]))
		return 0;
	s = cell_quantity(r, csv, column, unit, &kind, &value);
	if (s < 0 || (value == 0 && from == to)) /* 0 on the diagonal: not measured */
		return s;
	snprintf(source, sizeof(source), "%.500s:%d:%d", pos.file, pos.line, pos.col);
	rate.source = rtt.source = source;
	if (kind == LH_UNIT_DURATION) {
		ms = (double)value / 1e6;
		rtt.ms = &ms;
		return im_add_rtt(r, pos, &rtt);
	}
	rate.streams = rate.streams ? rate.streams : 1;
	rate.duration_ns = rate.duration_ns ? rate.duration_ns : 10000000000;
	rate.bps = (double)value;
	return im_add_rate(r, pos, &rate);
}

static int read_matrix(struct im_reader *r, struct lh_csv *csv)
{
	struct unit unit = {.text = NULL};
	size_t to[LH_CSV_COLUMNS_MAX];
	int more, s = 0;

	if (r->file->unit && !unit_read(r->file->unit, &unit))
		return im_bad(r, lh_csv_pos(csv, 0), NULL,
			      "--unit %.40s is no unit of a round trip or of a throughput; "
			      "expected ms, Mbit/s or the like",
			      r->file->unit);
	if (!unit.text)
		unit_read(csv->header[0], &unit);
	for (int c = 1; c < (int)csv->n_columns; c++)
		if ((s = im_reader_site(r, lh_csv_pos(csv, c), csv->header[c], &to[c])) < 0)
			return s;
	while ((more = lh_csv_next(csv, r->err)) > 0 && r->diag->n_messages < LH_DIAG_MAX) {
		size_t from;

		s = im_reader_site(r, lh_csv_pos(csv, 0), csv->cells[0], &from);
		for (int c = 1; s != LH_ESYS && c < (int)csv->n_columns; c++) {
			if (s < 0 && c == 1)
				break;
			s = take_cell(r, csv, c, &unit, from, to[c]);
		}
		if (s == LH_ESYS)
			return s;
	}
	return more < 0 ? im_bad_csv(r, more) : 0;
}

int im_read_csv(struct im_reader *r)
{
	lh_cleanup_csv struct lh_csv csv = {0};
	int s = lh_csv_open_text(r->file->name, r->text, r->size, &csv, r->err);

	if (s < 0)
		return im_bad_csv(r, s);
	if (lh_csv_find(&csv, "from") >= 0 && lh_csv_find(&csv, "to") >= 0)
		return read_rows(r, &csv);
	return read_matrix(r, &csv);
}
