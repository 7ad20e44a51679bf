/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the report of an iperf 2 client as text, and iperf -y C. Sums of streams are taken
 * from their [SUM] line; of interval reports only the whole test counts.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/csv.h"
#include "import/import_internal.h"

/* ---- text -------------------------------------------------------------------------------- */

/* A test of a client. */
struct test {
	bool is_open;
	struct lh_pos pos;
	char local[80], remote[80];
	int64_t streams;
	bool has_sum;
	double longest_s, bps; /* of the sum where there is one */
};

static const struct {
	const char *name;
	double bps;
} rate_units[] = {
	{"bits/sec", 1},	 {"Kbits/sec", 1e3},
	{"Mbits/sec", 1e6},	 {"Gbits/sec", 1e9},
	{"Bytes/sec", 8},	 {"KBytes/sec", 8 * 1024.0},
	{"MBytes/sec", 8388608}, {"GBytes/sec", 8589934592.0},
};

/* Ends the test that is open: takes its throughput. */
static int end_test(struct im_reader *r, struct test *t)
{
	struct im_rate rate = {.streams = t->streams, .bps = t->bps, .sd_bps = -1};
	char source[600];
	int s;

	if (!t->is_open)
		return 0;
	t->is_open = false;
	if (!t->streams)
		return im_bad(r, t->pos, NULL, "a test without a connection");
	if (!(t->longest_s > 0))
		return im_bad(r, t->pos, NULL, "a test without its result");
	if (t->streams > 1 && !t->has_sum)
		return im_bad(r, t->pos, NULL, "%lld streams without their [SUM]",
			      (long long)t->streams);
	if (!(t->longest_s <= 3600))
		return im_bad(r, t->pos, NULL, "a test of more than 1 h");
	rate.duration_ns = llround(t->longest_s * 1e9);
	s = im_reader_host(r, t->pos, true, t->local, &rate.from);
	if (s == 0)
		s = im_reader_host(r, t->pos, false, t->remote, &rate.to);
	snprintf(source, sizeof(source), "%.500s: iperf", r->file->name);
	rate.source = source;
	return s < 0 ? s : im_add_rate(r, t->pos, &rate);
}

/* Copies the word at p into to; returns what follows it. */
static const char *word(const char *p, char *to, size_t n)
{
	size_t length;

	p += strspn(p, " \t");
	length = strcspn(p, " \t");
	snprintf(to, n, "%.*s", (int)(length < n ? length : n - 1), p);
	return p + length;
}

/* "local A port P connected with B port P" */
static void take_connection(struct test *t, const char *local)
{
	const char *with = strstr(local, " connected with ");

	if (!with)
		return;
	t->streams++;
	word(local + strlen("local "), t->local, sizeof(t->local));
	word(with + strlen(" connected with "), t->remote, sizeof(t->remote));
}

/* "0.0-10.0 sec   250 MBytes   210 Mbits/sec" */
static int take_result(struct im_reader *r, const struct im_lines *l, struct test *t, const char *p,
		       bool is_sum)
{
	double from, to, bytes, rate;
	const char *q, *end, *sec = strstr(p, " sec ");
	char unit[24];

	if (!sec || im_number(p, &from, &q) < 0 || *q != '-' ||
	    im_number(q + 1 + strspn(q + 1, " "), &to, &q) < 0 || q > sec)
		return im_bad(r, im_lines_pos(l, r, p), NULL,
			      "not a result of iperf; expected '0.0-10.0 sec  250 MBytes  210 "
			      "Mbits/sec'");
	q = sec + strlen(" sec ");
	q += strspn(q, " ");
	if (im_number(q, &bytes, &end) < 0)
		return im_bad(r, im_lines_pos(l, r, q), NULL, "not an amount of data");
	q = word(end, unit, sizeof(unit));
	q += strspn(q, " ");
	if (im_number(q, &rate, &end) < 0)
		return im_bad(r, im_lines_pos(l, r, q), NULL, "not a rate");
	word(end, unit, sizeof(unit));
	for (size_t i = 0; i < sizeof(rate_units) / sizeof(rate_units[0]); i++) {
		if (strcmp(unit, rate_units[i].name) != 0)
			continue;
		/* interval reports after the first do not begin at 0 */
		if (from < 0.001 &&
		    (is_sum > t->has_sum || (is_sum == t->has_sum && to > t->longest_s))) {
			t->longest_s = to;
			t->bps = rate * rate_units[i].bps;
			t->has_sum = is_sum;
		}
		return 0;
	}
	return im_bad(r, im_lines_pos(l, r, end), NULL, "'%.20s' is not a unit of iperf", unit);
}

static int take_line(struct im_reader *r, const struct im_lines *l, struct test *t)
{
	const char *p = l->line + strspn(l->line, " \t");
	const char *close;
	int s;

	if (strncmp(p, "Server listening on ", 20) == 0)
		return im_bad(r, im_lines_pos(l, r, p), NULL,
			      "a server's report; the client's says who sent what");
	if (strncmp(p, "Client connecting to ", 21) == 0) {
		s = end_test(r, t);
		*t = (struct test){.is_open = true, .pos = im_lines_pos(l, r, p)};
		if (strstr(p, "UDP"))
			s = im_bad(r, t->pos, NULL,
				   "a test of UDP; windows and links show with TCP only");
		return s;
	}
	close = *p == '[' ? strchr(p, ']') : NULL;
	if (!close || !t->is_open)
		return 0;
	close += 1 + strspn(close + 1, " \t");
	if (strncmp(close, "local ", 6) == 0)
		take_connection(t, close);
	else if (*close >= '0' && *close <= '9')
		return take_result(r, l, t, close, strncmp(p, "[SUM", 4) == 0);
	return 0;
}

int im_read_iperf(struct im_reader *r)
{
	struct test t = {.is_open = false};
	struct im_lines l;
	int s = 0;

	im_lines_init(&l, r->text, r->size);
	while (s != LH_ESYS && r->diag->n_messages < LH_DIAG_MAX && im_lines_next(&l))
		s = take_line(r, &l, &t);
	return s == LH_ESYS ? s : end_test(r, &t);
}

/* ---- -y C -------------------------------------------------------------------------------- */

/* Columns of -y C. */
enum { LOCAL = 1, REMOTE = 3, ID = 5, INTERVAL = 6, BYTES = 7, BPS = 8, N_COLUMNS = 9 };

struct row {
	struct lh_pos pos;
	struct im_rate rate;
	double bytes;
};

/* Rows of single streams that no sum has claimed yet. */
struct pending {
	struct row rows[LH_IMPORT_STREAMS_MAX];
	size_t n;
};

/* A cell that is a number and nothing else. */
static int cell_number(struct im_reader *r, const struct lh_csv *csv, int column, double *ret)
{
	const char *end;

	if (im_number(csv->cells[column], ret, &end) == 0 && !*end)
		return 0;
	return im_bad(r, lh_csv_pos(csv, column), NULL, "'%.40s' is not a number",
		      csv->cells[column]);
}

static int read_row(struct im_reader *r, const struct lh_csv *csv, struct row *ret)
{
	const char *end, *interval = csv->cells[INTERVAL];
	struct lh_pos pos = lh_csv_pos(csv, INTERVAL);
	double from, to;
	int s;

	if (im_number(interval, &from, &end) < 0 || *end != '-' ||
	    im_number(end + 1, &to, &end) < 0 || *end)
		return im_bad(r, pos, NULL, "'%.40s' is not an interval such as 0.0-10.0",
			      interval);
	if (from >= 0.001 || !(to > 0 && to <= 3600))
		return im_bad(r, pos, NULL,
			      "'%.40s' is not a whole test of at most 1 h; run iperf -y C without "
			      "-i",
			      interval);
	ret->pos = lh_csv_pos(csv, 0);
	ret->rate = (struct im_rate){.streams = 1, .sd_bps = -1, .duration_ns = llround(to * 1e9)};
	s = cell_number(r, csv, BYTES, &ret->bytes);
	s = s == 0 ? cell_number(r, csv, BPS, &ret->rate.bps) : s;
	s = s == 0 ? im_reader_host(r, lh_csv_pos(csv, LOCAL), true, csv->cells[LOCAL],
				    &ret->rate.from)
		   : s;
	return s == 0 ? im_reader_host(r, lh_csv_pos(csv, REMOTE), false, csv->cells[REMOTE],
				       &ret->rate.to)
		      : s;
}

static int add_row(struct im_reader *r, struct row *row)
{
	char source[600];

	snprintf(source, sizeof(source), "%.500s:%d: iperf -y C", r->file->name, row->pos.line);
	row->rate.source = source;
	return im_add_rate(r, row->pos, &row->rate);
}

/* Takes the pending rows before the last `left` as tests of one stream. */
static int flush(struct im_reader *r, struct pending *p, size_t left)
{
	int s = 0;

	for (size_t i = 0; i + left < p->n && s != LH_ESYS; i++)
		s = add_row(r, &p->rows[i]);
	p->n = 0;
	return s;
}

/* A sum: its streams are the rows before it that add up to its bytes. */
static int take_sum(struct im_reader *r, struct pending *p, struct row *sum)
{
	double bytes = 0;
	size_t k = 0;
	int s;

	while (k < p->n && bytes < sum->bytes)
		bytes += p->rows[p->n - ++k].bytes;
	if (k == 0 || fabs(bytes - sum->bytes) > 0.5)
		return im_bad(r, sum->pos, NULL,
			      "the streams before this sum (id -1) do not add up to it");
	s = flush(r, p, k);
	sum->rate.streams = (int64_t)k;
	return s < 0 ? s : add_row(r, sum);
}

static int take_row(struct im_reader *r, const struct lh_csv *csv, struct pending *p)
{
	struct row row;
	int s = read_row(r, csv, &row);

	if (s < 0)
		return s;
	if (strcmp(csv->cells[ID], "-1") == 0)
		return take_sum(r, p, &row);
	if (p->n == LH_IMPORT_STREAMS_MAX)
		s = flush(r, p, 0);
	p->rows[p->n++] = row;
	return s;
}

int im_read_iperf_csv(struct im_reader *r)
{
	struct pending *pending = calloc(1, sizeof(*pending));
	lh_cleanup_csv struct lh_csv csv = {0};
	int more, s = lh_csv_open_text(r->file->name, r->text, r->size, &csv, r->err);

	if (!pending)
		return lh_fail(r->err, LH_ESYS, ENOMEM, "read %s", r->file->name);
	im_bad_csv(r, s);
	if (s == 0 && csv.n_columns < N_COLUMNS)
		s = im_bad(r, lh_csv_pos(&csv, 0), NULL, "%zu cells; iperf -y C writes %d",
			   csv.n_columns, N_COLUMNS);
	for (more = s == 0; more > 0; more = lh_csv_next(&csv, r->err)) {
		s = take_row(r, &csv, pending);
		if (s == LH_ESYS || r->diag->n_messages == LH_DIAG_MAX)
			break;
	}
	if (more < 0)
		s = im_bad_csv(r, more);
	else if (s == 0)
		s = flush(r, pending, 0);
	free(pending);
	return s;
}
