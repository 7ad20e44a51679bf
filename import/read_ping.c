/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ping (iputils, busybox, BSD) and fping -C. Where single echoes are there, they are
 * taken; where only the summary is, its mean, smallest and deviation.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/import_internal.h"

/* One run of ping. */
struct run {
	bool is_open;
	struct lh_pos pos;
	char name[256], address[80];
	double *ms; /* owned */
	size_t n;
	double min_ms, mean_ms, sd_ms; /* of the summary; negative: none */
	int64_t n_sent;
};

static int add_sample(struct im_reader *r, struct run *run, double ms)
{
	if (run->n == LH_IMPORT_SAMPLES_MAX)
		return im_bad(r, run->pos, NULL, "more than %d echoes", LH_IMPORT_SAMPLES_MAX);
	if (!(run->n & (run->n - 1))) {
		double *bigger = realloc(run->ms, (run->n ? 2 * run->n : 1) * sizeof(*bigger));

		if (!bigger)
			return lh_fail(r->err, LH_ESYS, ENOMEM, "read %s", r->file->name);
		run->ms = bigger;
	}
	run->ms[run->n++] = ms;
	return 0;
}

static int end_run(struct im_reader *r, struct run *run)
{
	struct im_rtt rtt = {.kind = run->n ? IM_RTT_PING : IM_RTT_SUMMARY,
			     .ms = run->n ? run->ms : &run->mean_ms,
			     .n = run->n ? run->n : 1,
			     .min_ms = run->n ? -1 : run->min_ms,
			     .sd_ms = run->n ? -1 : run->sd_ms,
			     .n_sent = run->n_sent};
	char source[600];
	int s = 0;

	if (!run->is_open)
		return 0;
	run->is_open = false;
	if (!run->n && run->mean_ms < 0)
		s = im_bad(r, run->pos, NULL, "no echo of %.60s came back", run->name);
	if (s == 0)
		s = im_reader_host(r, run->pos, true, NULL, &rtt.from);
	if (s == 0)
		s = im_reader_host(r, run->pos, false,
				   im_is_known(r->im, run->name) || !*run->address ? run->name
										   : run->address,
				   &rtt.to);
	snprintf(source, sizeof(source), "%.500s: ping", r->file->name);
	rtt.source = source;
	s = s < 0 ? s : im_add_rtt(r, run->pos, &rtt);
	free(run->ms);
	run->ms = NULL;
	run->n = 0;
	return s;
}

/* "PING name (address) ..." or "--- name ping statistics ---" without it before. */
static int begin_run(struct im_reader *r, struct run *run, struct lh_pos pos, const char *name)
{
	int s = end_run(r, run);
	size_t n = strcspn(name, " ");
	const char *open = name + n;

	free(run->ms);
	*run = (struct run){.is_open = true, .pos = pos, .min_ms = -1, .mean_ms = -1, .sd_ms = -1};
	snprintf(run->name, sizeof(run->name), "%.*s", (int)(n < 255 ? n : 255), name);
	if (strncmp(open, " (", 2) == 0) {
		n = strcspn(open + 2, ")");
		snprintf(run->address, sizeof(run->address), "%.*s", (int)(n < 79 ? n : 79),
			 open + 2);
	}
	return s;
}

/* "rtt min/avg/max/mdev = 1/2/3/4 ms" */
static int take_summary(struct im_reader *r, const struct im_lines *l, struct run *run,
			const char *numbers)
{
	double value[4] = {-1, -1, -1, -1};
	const char *p = numbers;

	for (int i = 0; i < 4; i++) {
		if (im_number(p, &value[i], &p) < 0)
			return im_bad(r, im_lines_pos(l, r, p), NULL,
				      "not a summary of ping; expected min/avg/max/mdev");
		if (*p != '/')
			break;
		p++;
	}
	if (value[2] < 0 || strncmp(p, " ms", 3) != 0)
		return im_bad(r, im_lines_pos(l, r, p), NULL,
			      "not a summary of ping in ms; expected min/avg/max/mdev");
	run->min_ms = value[0];
	run->mean_ms = value[1];
	run->sd_ms = value[3];
	return 0;
}

static int take_echo(struct im_reader *r, const struct im_lines *l, struct run *run,
		     const char *value)
{
	double ms;
	const char *end;

	if (im_number(value, &ms, &end) < 0)
		return im_bad(r, im_lines_pos(l, r, value), NULL, "not a time");
	end += *end == ' ';
	if (strncmp(end, "ms", 2) != 0)
		return im_bad(r, im_lines_pos(l, r, end), NULL, "not a time in ms");
	return strstr(end, "DUP!") ? 0 : add_sample(r, run, ms);
}

static int take_line(struct im_reader *r, const struct im_lines *l, struct run *run)
{
	const char *p = l->line + strspn(l->line, " \t"), *q;
	double n;

	if (strncmp(p, "PING ", 5) == 0)
		return begin_run(r, run, im_lines_pos(l, r, p), p + 5);
	if (strncmp(p, "--- ", 4) == 0 && strstr(p, " ping statistics"))
		return run->is_open ? 0 : begin_run(r, run, im_lines_pos(l, r, p), p + 4);
	if (!run->is_open)
		return 0;
	if ((q = strstr(p, " packets transmitted")) && im_number(p, &n, &q) == 0 && n < 1e15)
		run->n_sent = (int64_t)n;
	else if ((q = strstr(p, "min/avg/max")) && (q = strstr(q, " = ")))
		return take_summary(r, l, run, q + 3);
	else if (strstr(p, "bytes from ") && (q = strstr(p, " time=")))
		return take_echo(r, l, run, q + 6);
	return 0;
}

int im_read_ping(struct im_reader *r)
{
	struct run run = {.is_open = false};
	struct im_lines l;
	int s = 0;

	im_lines_init(&l, r->text, r->size);
	while (s != LH_ESYS && r->diag->n_messages < LH_DIAG_MAX && im_lines_next(&l))
		s = take_line(r, &l, &run);
	if (s != LH_ESYS)
		s = end_run(r, &run);
	free(run.ms);
	return s;
}

/* "name : 103.1 103.2 - 103.4", of fping -C; a summary of fping -c. */
static int take_fping(struct im_reader *r, const struct im_lines *l, const char *colon)
{
	struct run run;
	const char *p = colon + 3;
	int s;

	memset(&run, 0, sizeof(run));
	s = begin_run(r, &run, im_lines_pos(l, r, l->line), l->line);
	if (strncmp(p, "xmt/", 4) == 0) {
		const char *q = strstr(p, "min/avg/max = ");

		s = q ? take_summary(r, l, &run, q + 14) : 0;
	} else {
		while (s == 0 && *(p += strspn(p, " "))) {
			double ms;

			run.n_sent++;
			if (*p == '-')
				p++;
			else if (im_number(p, &ms, &p) == 0 && (!*p || *p == ' '))
				s = add_sample(r, &run, ms);
			else
				s = im_bad(r, im_lines_pos(l, r, p), NULL, "not a time of fping");
		}
	}
	if (s == 0)
		s = end_run(r, &run);
	free(run.ms);
	return s;
}

int im_read_fping(struct im_reader *r)
{
	struct im_lines l;
	int s = 0;

	im_lines_init(&l, r->text, r->size);
	while (s != LH_ESYS && r->diag->n_messages < LH_DIAG_MAX && im_lines_next(&l)) {
		const char *colon = strstr(l.line, " : ");

		if (colon)
			s = take_fping(r, &l, colon);
	}
	return s;
}
