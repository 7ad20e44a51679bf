/* SPDX-License-Identifier: Apache-2.0 */
/* A program's reports as events. See reports.h; the events are in docs/formats.md. */
#include "emulator/reports.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/pattern.h"
#include "scenarios/report.h"

enum { LINE_MAX_BYTES = 65536, EPOCH_MAX = 1000000 };

static const double SAMPLES_MAX = 1e15, SECONDS_MAX = 1e9;

/* A line that has begun. */
struct line {
	char *text;
	size_t n;
	bool is_cut; /* it is longer than what is kept of it */
};

struct lh_reports {
	struct lh_reports_spec spec;
	struct lh_pattern *pattern; /* NULL: none */
	int fd;
	struct line lines[LH_N_REPORT_STREAMS];
	int64_t n_reports;
	int64_t epoch; /* of the last report that said; -1: none has */
	double total_samples;
	bool has_error;
};

/* What one report says; NaN: nothing. */
struct report {
	double values[LH_N_REPORT_KEYS];
};

/* Takes the event over. */
static int put(struct lh_reports *r, json_t *event, struct lh_error *err)
{
	lh_cleanup_json json_t *owned = event;
	lh_cleanup_free char *text =
		event ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
	lh_cleanup_free char *line = text ? lh_strf("%s\n", text) : NULL;
	size_t n = line ? strlen(line) : 0;

	if (!line)
		return lh_fail(err, LH_ESYS, ENOMEM, "write an event");
	if (write(r->fd, line, n) != (ssize_t)n)
		return lh_fail(err, LH_ESYS, errno, "write an event of rank %zu", r->spec.rank);
	if (r->spec.is_synced)
		sync_file_range(r->fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
	return 0;
}

static json_t *new_event(const struct lh_reports *r, const char *name, int64_t t_ns)
{
	return json_pack("{s:s, s:I, s:I}", "event", name, "t_ns", (json_int_t)t_ns, "rank",
			 (json_int_t)r->spec.rank);
}

int lh_reports_open(const char *path, const struct lh_reports_spec *spec, int64_t t_ns,
		    struct lh_reports **ret, struct lh_error *err)
{
	struct lh_reports *r = calloc(1, sizeof(*r));
	json_t *start;
	int code = 0;

	if (!r)
		return lh_fail(err, LH_ESYS, ENOMEM, "read reports");
	r->spec = *spec;
	r->epoch = -1;
	r->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (r->fd < 0)
		code = lh_fail(err, LH_ESYS, errno, "create %s", path);
	if (code == 0 && spec->progress->pattern)
		code = lh_pattern_new(spec->progress->pattern, &r->pattern, err);
	if (code == 0) {
		start = new_event(r, "start", t_ns);
		json_object_set_new(start, "node", json_string(spec->node));
		json_object_set_new(start, "world", json_integer((json_int_t)spec->n_ranks));
		code = put(r, start, err);
	}
	if (code < 0) {
		lh_reports_free(r);
		return code;
	}
	*ret = r;
	return 0;
}

/* Says what is wrong with a report; once, lest a bad pattern fills the disk. */
static int complain(struct lh_reports *r, int64_t t_ns, const char *line, size_t n, const char *why,
		    struct lh_error *err)
{
	lh_cleanup_free char *text =
		lh_strf("cannot read its report '%.*s': %s", n > 200 ? 200 : (int)n, line, why);
	json_t *event;

	if (r->has_error)
		return 0;
	r->has_error = true;
	event = new_event(r, "error", t_ns);
	/* bytes that are no text are no message either */
	if (!text || json_object_set_new(event, "message", json_string(text)) < 0)
		json_object_set_new(event, "message", json_string(why));
	return put(r, event, err);
}

/* NULL, or what is wrong with a value of that key. */
static const char *check_value(enum lh_report_key key, double v)
{
	switch (key) {
	case LH_REPORT_EPOCH:
		return v >= 0 && v < EPOCH_MAX && v == floor(v)
			       ? NULL
			       : "epoch is not a whole number from 0 to 999999";
	case LH_REPORT_SAMPLES:
	case LH_REPORT_TOTAL_SAMPLES:
		return v >= 0 && v <= SAMPLES_MAX && v == floor(v)
			       ? NULL
			       : "samples is not a whole number of at least 0";
	case LH_REPORT_CALC_S:
	case LH_REPORT_COMM_S:
		return v >= 0 && v <= SECONDS_MAX ? NULL : "not a time in seconds";
	default:
		return NULL;
	}
}

/* Reads the groups of the match; NULL, or what is wrong. */
static const char *read_match(const struct lh_reports *r, struct report *ret)
{
	for (int k = 0; k < LH_N_REPORT_KEYS; k++) {
		const char *name = lh_report_key_name((enum lh_report_key)k);
		lh_cleanup_free char *text = lh_pattern_take(r->pattern, name);
		char *end;

		ret->values[k] = NAN;
		if (!text || !*text)
			continue;
		ret->values[k] = strtod(text, &end);
		if (*end)
			return "a group matched what is no number";
	}
	return NULL;
}

/* The same of a JSON object. */
static const char *read_object(const json_t *object, struct report *ret)
{
	for (int k = 0; k < LH_N_REPORT_KEYS; k++) {
		const json_t *value =
			json_object_get(object, lh_report_key_name((enum lh_report_key)k));

		ret->values[k] = NAN;
		if (!value || json_is_null(value))
			continue;
		if (!json_is_number(value))
			return "a value is no number";
		ret->values[k] = json_number_value(value);
	}
	return NULL;
}

/* Fills in what follows from earlier reports; NULL, or what is wrong. */
static const char *complete(struct lh_reports *r, struct report *p)
{
	double *v = p->values;
	bool has_total = !isnan(v[LH_REPORT_TOTAL_SAMPLES]);

	for (int k = 0; k < LH_N_REPORT_KEYS; k++) {
		const char *why = isnan(v[k]) ? NULL : check_value((enum lh_report_key)k, v[k]);

		if (why)
			return why;
	}
	if (has_total && v[LH_REPORT_TOTAL_SAMPLES] < r->total_samples)
		return "total_samples runs backwards";
	if (v[LH_REPORT_EPOCH] < (double)r->epoch)
		return "epoch runs backwards";
	if (isnan(v[LH_REPORT_SAMPLES]) && has_total)
		v[LH_REPORT_SAMPLES] = v[LH_REPORT_TOTAL_SAMPLES] - r->total_samples;
	if (isnan(v[LH_REPORT_SAMPLES]) && r->spec.progress->samples > 0)
		v[LH_REPORT_SAMPLES] = (double)r->spec.progress->samples;
	if (!isnan(v[LH_REPORT_SAMPLES]))
		r->total_samples = has_total ? v[LH_REPORT_TOTAL_SAMPLES]
					     : r->total_samples + v[LH_REPORT_SAMPLES];
	if (!isnan(v[LH_REPORT_EPOCH]))
		r->epoch = (int64_t)v[LH_REPORT_EPOCH];
	else
		v[LH_REPORT_EPOCH] = (double)(r->epoch >= 0 ? r->epoch : r->n_reports);
	r->n_reports++;
	return NULL;
}

static int put_report(struct lh_reports *r, const struct report *p, int64_t t_ns,
		      struct lh_error *err)
{
	static const enum lh_report_key keys[] = {LH_REPORT_EPOCH, LH_REPORT_SAMPLES,
						  LH_REPORT_LOSS, LH_REPORT_CALC_S,
						  LH_REPORT_COMM_S};
	json_t *event = new_event(r, "progress", t_ns);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		double v = p->values[keys[i]];
		bool is_whole = keys[i] == LH_REPORT_EPOCH || keys[i] == LH_REPORT_SAMPLES;

		if (isfinite(v))
			json_object_set_new(event, lh_report_key_name(keys[i]),
					    is_whole ? json_integer((json_int_t)v) : json_real(v));
	}
	return put(r, event, err);
}

/* Takes a whole line. */
static int take_line(struct lh_reports *r, enum lh_report_stream stream, int64_t t_ns,
		     struct lh_error *err)
{
	const struct line *line = &r->lines[stream];
	lh_cleanup_json json_t *object = NULL;
	struct report report;
	json_error_t fault;
	const char *why;

	if (stream == LH_REPORT_FILE) {
		if (strspn(line->text, " \t") == line->n)
			return 0;
		object = json_loadb(line->text, line->n, JSON_REJECT_DUPLICATES, &fault);
		why = line->is_cut ? "it is longer than 64 KiB"
		      : object	   ? read_object(object, &report)
				   : fault.text;
		if (object && !json_is_object(object))
			why = "expected a JSON object";
	} else {
		if (!lh_pattern_find(r->pattern, line->text, line->n))
			return 0;
		why = read_match(r, &report);
	}
	if (!why)
		why = complete(r, &report);
	return why ? complain(r, t_ns, line->text, line->n, why, err)
		   : put_report(r, &report, t_ns, err);
}

static int keep(struct line *line, const char *text, size_t n, struct lh_error *err)
{
	if (!line->text && !(line->text = calloc(1, LINE_MAX_BYTES + 1)))
		return lh_fail(err, LH_ESYS, ENOMEM, "read reports");
	if (n > LINE_MAX_BYTES - line->n) {
		n = LINE_MAX_BYTES - line->n;
		line->is_cut = true;
	}
	memcpy(line->text + line->n, text, n);
	line->n += n;
	line->text[line->n] = '\0';
	return 0;
}

int lh_reports_take(struct lh_reports *r, enum lh_report_stream stream, const char *text, size_t n,
		    int64_t t_ns, struct lh_error *err)
{
	struct line *line = &r->lines[stream];

	if (stream != LH_REPORT_FILE && !r->pattern)
		return 0;
	while (n) {
		/* progress bars end their lines with a carriage return */
		size_t n_line = 0;
		int code;

		while (n_line < n && text[n_line] != '\n' && text[n_line] != '\r')
			n_line++;
		code = keep(line, text, n_line, err);
		if (code < 0 || n_line == n)
			return code;
		if (line->n)
			code = take_line(r, stream, t_ns, err);
		if (code < 0)
			return code;
		line->n = 0;
		line->is_cut = false;
		text += n_line + 1;
		n -= n_line + 1;
	}
	return 0;
}

int lh_reports_end(struct lh_reports *r, int64_t t_ns, struct lh_error *err)
{
	int code = 0;

	for (int i = 0; i < LH_N_REPORT_STREAMS && code == 0; i++)
		if (r->lines[i].n) {
			code = take_line(r, (enum lh_report_stream)i, t_ns, err);
			r->lines[i].n = 0;
		}
	return code < 0 ? code : put(r, new_event(r, "end", t_ns), err);
}

int lh_reports_break_off(struct lh_reports *r, int64_t t_ns, struct lh_error *err)
{
	for (int i = 0; i < LH_N_REPORT_STREAMS; i++)
		r->lines[i].n = 0;
	return put(r, new_event(r, "end", t_ns), err);
}

void lh_reports_free(struct lh_reports *r)
{
	if (!r)
		return;
	for (int i = 0; i < LH_N_REPORT_STREAMS; i++)
		free(r->lines[i].text);
	lh_pattern_free(r->pattern);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}
