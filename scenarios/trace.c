/* SPDX-License-Identifier: Apache-2.0 */
/* Traces. See trace.h. Source of the packet-delivery format: mm-link(1). */
#include "scenarios/trace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "scenarios/catalog.h"
#include "scenarios/lines.h"

enum {
	FILE_MAX_BYTES = 16 << 20,
	ROWS_MAX = 100000,
	ROW_TEXT_BYTES = 64,
	COLUMNS_MAX = 8,
	PACKET_WIRE_BYTES =
		1500 + 14, /* of a packet-delivery trace; rates count Ethernet's header */
	MS_PER_INTERVAL = 100,
};

static const double NS_PER_S = 1e9, NS_PER_MS = 1e6, BPS_PER_MBPS = 1e6;

enum column { TIME, DELAY, RATE, LOSS, N_COLUMNS };

static const struct {
	const char *name;
	unsigned sets;
	double max;
} columns[N_COLUMNS] = {
	[TIME] = {"time_s", 0, (double)LH_TRACE_LENGTH_MAX_NS / 1e9},
	[DELAY] = {"delay_ms", LH_DELAY, 3600000},
	[RATE] = {"rate_mbps", LH_BANDWIDTH, 1000000},
	[LOSS] = {"loss_ratio", LH_LOSS, 1},
};

/* A table being read, line by line. */
struct reader {
	struct lh_lines lines;
	enum column order[COLUMNS_MAX];
	size_t n_columns;
};

static bool read_header(struct reader *r, unsigned *ret_sets)
{
	size_t n_line, seen[N_COLUMNS] = {0};
	const char *line = lh_lines_next(&r->lines, &n_line), *end = line + (line ? n_line : 0);
	bool ok = line != NULL;

	*ret_sets = 0;
	while (line && line <= end) {
		size_t n = strcspn(line, ",\r\n");
		int c = 0;

		if (line + n > end)
			n = (size_t)(end - line);
		while (c < N_COLUMNS &&
		       (strlen(columns[c].name) != n || strncmp(columns[c].name, line, n) != 0))
			c++;
		if (c == N_COLUMNS || seen[c]++ || r->n_columns == COLUMNS_MAX) {
			lh_lines_say(
				&r->lines,
				"is no column; expected time_s and any of delay_ms, rate_mbps, "
				"loss_ratio, each once",
				line, n);
			return false;
		}
		r->order[r->n_columns++] = (enum column)c;
		*ret_sets |= columns[c].sets;
		line += n + 1;
	}
	if (!ok || !seen[TIME] || !*ret_sets) {
		r->lines.n_line = r->lines.n_line ? r->lines.n_line : 1;
		lh_lines_say(&r->lines,
			     "is the header; expected time_s and any of delay_ms, rate_mbps, "
			     "loss_ratio",
			     ok ? end - n_line : "", ok ? n_line : 0);
		return false;
	}
	return true;
}

/* The numbers of a line, by column. */
static bool read_cells(struct reader *r, const char *line, size_t n_line, double *ret)
{
	const char *end = line + n_line;

	for (size_t i = 0; i < r->n_columns; i++) {
		enum column c = r->order[i];
		size_t n = line > end ? 0 : strcspn(line, ",\n");
		char text[32], why[80], *rest;

		if (line <= end && line + n > end)
			n = (size_t)(end - line);
		snprintf(text, sizeof(text), "%.*s", (int)(n < 31 ? n : 31),
			 line > end ? "" : line);
		ret[c] = strtod(text, &rest);
		if (rest == text || *rest || !(ret[c] >= 0 && ret[c] <= columns[c].max)) {
			snprintf(why, sizeof(why), "is no %s; expected a number from 0 to %.15g",
				 columns[c].name, columns[c].max);
			lh_lines_say(&r->lines, why, text, strlen(text));
			return false;
		}
		line += n + 1;
	}
	if (line <= end) {
		lh_lines_say(&r->lines, "is more than the header has columns", line,
			     (size_t)(end - line));
		return false;
	}
	return true;
}

/* Appends a row; false where it cannot stand there. */
static bool add_row(struct reader *r, struct lh_trace *trace, const double *cells, const char *line,
		    size_t n_line)
{
	struct lh_trace_row row = {
		.at_ns = llround(cells[TIME] * NS_PER_S),
		.delay_ns = llround(cells[DELAY] * NS_PER_MS),
		.bandwidth_bps = llround(cells[RATE] * BPS_PER_MBPS),
		.loss_ratio = cells[LOSS],
	};

	if (trace->n_rows == ROWS_MAX) {
		lh_lines_say(&r->lines, "is beyond the 100000 rows that a trace may have", line,
			     n_line);
		return false;
	}
	if (trace->n_rows && row.at_ns < trace->rows[trace->n_rows - 1].at_ns + LH_TRACE_STEP_NS) {
		lh_lines_say(&r->lines, "does not come 1 ms or more after the row before", line,
			     n_line);
		return true; /* the rest is worth reading */
	}
	trace->rows[trace->n_rows++] = row;
	return true;
}

/* Reads the table into rows. */
static void read_rows(struct reader *r, struct lh_trace *trace)
{
	unsigned sets = 0;
	const char *line;
	size_t n_line, room = 1;

	if (!read_header(r, &sets))
		return;
	for (const char *c = r->lines.at; *c; c++)
		room += *c == '\n';
	trace->rows = calloc(room < ROWS_MAX ? room : ROWS_MAX, sizeof(*trace->rows));
	if (!trace->rows)
		return;
	while ((line = lh_lines_next(&r->lines, &n_line))) {
		double cells[N_COLUMNS] = {0};

		if (read_cells(r, line, n_line, cells) && !add_row(r, trace, cells, line, n_line))
			return;
	}
	if (!trace->n_rows)
		lh_lines_say(&r->lines, "is all; expected rows after the header", "", 0);
	trace->sets = sets;
}

/* Length where it is not written: the last row lasts as long as the one before it. */
static int64_t natural_length(const struct lh_trace *trace)
{
	size_t n = trace->n_rows;

	return n < 2 ? trace->rows[0].at_ns + LH_TRACE_STEP_NS
		     : 2 * trace->rows[n - 1].at_ns - trace->rows[n - 2].at_ns;
}

static void find_mean(struct lh_trace *trace)
{
	int64_t end = trace->repeat ? trace->length_ns : natural_length(trace);
	double sum = 0;

	for (size_t i = 0; i < trace->n_rows; i++) {
		int64_t until = i + 1 < trace->n_rows ? trace->rows[i + 1].at_ns : end;

		sum += (double)trace->rows[i].bandwidth_bps *
		       (double)(until - trace->rows[i].at_ns);
	}
	trace->mean_bps = (int64_t)(sum / (double)(end - trace->rows[0].at_ns));
}

/* Complains where keys do not go together; written: the trace's tree. */
static bool check_keys(const struct lh_yaml *written, const char *key_path, struct lh_diag *diag)
{
	bool has_csv = lh_yaml_get(written, "csv"), has_mahi = lh_yaml_get(written, "mahimahi");
	size_t before = diag->n_messages;

	if (has_csv && has_mahi)
		lh_diag_add(diag, written->pos, key_path, "csv and mahimahi exclude each other");
	if (!has_csv && !has_mahi && !lh_yaml_get(written, "table"))
		lh_diag_add(diag, written->pos, key_path, "expected csv, mahimahi or table");
	if (!has_mahi && lh_yaml_get(written, "interval"))
		lh_diag_add(diag, written->pos, key_path, "interval without mahimahi");
	return diag->n_messages == before;
}

void lh_trace_resolve(struct lh_trace *trace, const struct lh_yaml *written, const char *key_path,
		      struct lh_diag *diag)
{
	const struct lh_yaml *table = lh_yaml_get(written, "table");
	struct reader r = {.lines = {.at = trace->table, .key_path = key_path, .diag = diag}};
	size_t before = diag->n_messages;

	if (!written || written->kind != LH_YAML_MAPPING || !check_keys(written, key_path, diag) ||
	    !trace->table || !table)
		return;
	r.lines.pos = table->pos;
	read_rows(&r, trace);
	if (!trace->n_rows || diag->n_messages > before) {
		trace->sets = 0;
		return;
	}
	if (trace->length_ns >= 0 && !trace->repeat)
		lh_diag_add(diag, written->pos, key_path, "length without repeat");
	else if (trace->length_ns >= 0 && trace->length_ns <= trace->rows[trace->n_rows - 1].at_ns)
		lh_diag_add(diag, written->pos, key_path,
			    "length: ends before the last row begins, at %.9g s",
			    (double)trace->rows[trace->n_rows - 1].at_ns / NS_PER_S);
	if (trace->length_ns < 0)
		trace->length_ns = natural_length(trace);
	find_mean(trace);
	if ((trace->sets & LH_BANDWIDTH) && !trace->mean_bps)
		lh_diag_add(diag, written->pos, key_path, "nothing passes at any time");
}

void lh_trace_done(struct lh_trace *trace)
{
	free(trace->rows);
	trace->rows = NULL;
	trace->n_rows = 0;
}

/* How many rows have begun at t_ns of one round. */
static size_t rows_begun(const struct lh_trace *trace, int64_t t_ns)
{
	size_t low = 0, high = trace->n_rows;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (trace->rows[mid].at_ns <= t_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct lh_trace_row *lh_trace_row_at(const struct lh_trace *trace, int64_t t_ns)
{
	bool is_later_round = trace->repeat && t_ns >= trace->length_ns;
	size_t n = rows_begun(trace, trace->repeat ? t_ns % trace->length_ns : t_ns);

	if (!n)
		return is_later_round ? &trace->rows[trace->n_rows - 1] : NULL;
	return &trace->rows[n - 1];
}

int64_t lh_trace_next_ns(const struct lh_trace *trace, int64_t t_ns)
{
	int64_t round_ns = trace->repeat ? t_ns - t_ns % trace->length_ns : 0;
	size_t n = rows_begun(trace, t_ns - round_ns);

	if (n < trace->n_rows)
		return round_ns + trace->rows[n].at_ns;
	return trace->repeat && trace->n_rows > 1
		       ? round_ns + trace->length_ns + trace->rows[0].at_ns
		       : INT64_MAX;
}

/* ---- files ------------------------------------------------------------------------------- */

/* How many packets each interval of a packet-delivery trace can pass. */
struct counts {
	uint32_t *n;
	size_t n_intervals;
	int64_t length_ms;
};

/* The milliseconds of the trace's lines, counted by interval; false, with messages, where it is
 * no such trace. A packet of ms t passes at the end of the interval from t - 1 to t. */
static bool count_packets(struct reader *r, int64_t interval_ms, struct counts *ret)
{
	long long last = 0, max = LH_TRACE_LENGTH_MAX_NS / LH_TRACE_STEP_NS;
	const char *line;
	size_t n_line;

	ret->n = calloc(ROWS_MAX, sizeof(*ret->n));
	while (ret->n && (line = lh_lines_next(&r->lines, &n_line))) {
		char *end;
		long long ms = strtoll(line, &end, 10);
		size_t at = (size_t)(ms > 0 ? (ms - 1) / interval_ms : 0);

		if ((size_t)(end - line) != n_line || ms < 0 || ms > max) {
			lh_lines_say(&r->lines, "is no time in whole ms", line, n_line);
		} else if (ms < last) {
			lh_lines_say(&r->lines, "comes before the line before it", line, n_line);
		} else if (at >= ROWS_MAX) {
			lh_lines_say(&r->lines, "is beyond 100000 intervals; a longer `interval`",
				     line, n_line);
			return false;
		} else {
			last = ms;
			ret->n[at]++;
			ret->n_intervals = at + 1;
		}
	}
	ret->length_ms = last;
	if (ret->n && !last && !r->lines.diag->n_messages)
		lh_lines_say(&r->lines, "is the end; expected lines of ms, the last above 0", "",
			     0);
	return ret->n && last > 0;
}

/* The rates of the intervals as a table; owned by the caller. */
static char *table_of(const struct counts *c, int64_t interval_ms)
{
	char *text = malloc((c->n_intervals + 1) * ROW_TEXT_BYTES);
	size_t used = 0;

	if (!text)
		return NULL;
	used += (size_t)snprintf(text, ROW_TEXT_BYTES, "time_s,rate_mbps\n");
	for (size_t i = 0; i < c->n_intervals; i++) {
		int64_t begin_ms = (int64_t)i * interval_ms;
		int64_t ms = c->length_ms - begin_ms < interval_ms ? c->length_ms - begin_ms
								   : interval_ms;

		if (i && c->n[i] == c->n[i - 1] && ms == interval_ms)
			continue;
		used += (size_t)snprintf(
			text + used, ROW_TEXT_BYTES, "%.3f,%.6f\n", (double)begin_ms / 1e3,
			(double)c->n[i] * PACKET_WIRE_BYTES * 8 / 1e3 / (double)ms);
	}
	return text;
}

/* The interval that is written, in ms; 0, with a message, where it is none. */
static int64_t interval_of(const struct lh_yaml *trace, const char *key_path, struct lh_diag *diag)
{
	const struct lh_yaml *written = lh_yaml_get(trace, "interval");
	char why[128];
	int64_t ns;

	if (!written || written->kind != LH_YAML_SCALAR)
		return MS_PER_INTERVAL;
	/* what is no duration at all is told when the key is bound */
	if (lh_unit_parse(LH_UNIT_DURATION, written->text, &ns, why, sizeof(why)) < 0 ||
	    ns < LH_TRACE_STEP_NS)
		return MS_PER_INTERVAL;
	if (ns % LH_TRACE_STEP_NS == 0)
		return ns / LH_TRACE_STEP_NS;
	lh_diag_add(diag, written->pos, key_path, "interval: '%.40s' is no whole number of ms",
		    written->text);
	return 0;
}

/* Sets table, length and repeat from a packet-delivery trace. */
static void inline_mahimahi(struct lh_yaml *trace, const struct lh_yaml *name, const char *path,
			    const char *text, const char *key_path, struct lh_diag *diag)
{
	const struct lh_yaml *repeat = lh_yaml_get(trace, "repeat");
	struct reader r = {
		.lines = {.at = text, .is_file = true, .key_path = key_path, .diag = diag}};
	int64_t interval_ms = interval_of(trace, key_path, diag);
	struct counts counts = {0};
	lh_cleanup_free char *table = NULL;
	char length[32];

	r.lines.pos.file = path;
	if (repeat && repeat->kind == LH_YAML_SCALAR && strcmp(repeat->text, "false") == 0)
		lh_diag_add(diag, repeat->pos, key_path,
			    "repeat: a packet-delivery trace always repeats; `for` of an event "
			    "ends it");
	if (interval_ms && count_packets(&r, interval_ms, &counts))
		table = table_of(&counts, interval_ms);
	free(counts.n);
	if (!table)
		return;
	snprintf(length, sizeof(length), "%lld ms", (long long)counts.length_ms);
	lh_yaml_set(trace, "repeat", lh_yaml_scalar("true", name->pos));
	lh_yaml_set(trace, "length", lh_yaml_scalar(length, name->pos));
	lh_yaml_set(trace, "table", lh_yaml_scalar(table, name->pos));
}

/* Reads a table once, for messages with the file's own lines. */
static bool is_table(const char *text, const char *path, const char *key_path, struct lh_diag *diag)
{
	struct reader r = {
		.lines = {.at = text, .is_file = true, .key_path = key_path, .diag = diag}};
	struct lh_trace trace = {0};
	size_t before = diag->n_messages;

	r.lines.pos.file = path;
	read_rows(&r, &trace);
	lh_trace_done(&trace);
	return diag->n_messages == before;
}

void lh_trace_inline(const struct lh_catalog *catalog, struct lh_yaml *trace, const char *key_path,
		     struct lh_diag *diag)
{
	const struct lh_yaml *csv = lh_yaml_get(trace, "csv");
	const struct lh_yaml *name = csv ? csv : lh_yaml_get(trace, "mahimahi");
	lh_cleanup_free char *path = NULL;
	lh_cleanup_free char *text = NULL;
	size_t before = diag->n_messages;
	struct lh_error err = {0};
	size_t size;

	if (!name || name->kind != LH_YAML_SCALAR || lh_yaml_get(trace, "table") ||
	    (csv && lh_yaml_get(trace, "mahimahi")))
		return;
	path = lh_catalog_find(catalog, name->text, name->pos, key_path, diag);
	if (path && lh_file_read(path, FILE_MAX_BYTES, &text, &size, &err) < 0)
		lh_diag_add(diag, name->pos, key_path, "%s", err.message);
	if (text && strlen(text) != size)
		lh_diag_add(diag, name->pos, key_path, "%s is no text", path);
	if (text && csv && is_table(text, path, key_path, diag))
		lh_yaml_set(trace, "table", lh_yaml_scalar(text, name->pos));
	else if (text && !csv)
		inline_mahimahi(trace, name, path, text, key_path, diag);
	if (lh_yaml_get(trace, "table"))
		lh_yaml_get(trace, "table")->quoted = true;
	if (diag->n_messages > before)
		trace->kind = LH_YAML_FAILED;
}
