/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads iperf3 -J: one JSON document a test, several may follow one another. The throughput
 * is the receiver's mean. Where no ping is known, TCP's smallest round trip stands in.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "import/import_internal.h"

enum { IPV6_MORE_BYTES = 20, MTU_MIN_BYTES = 576, MTU_MAX_BYTES = 65535 };

/* A test, as it was begun. */
struct test {
	struct lh_pos pos;
	json_t *start, *end;
	const char *local, *remote;
	bool is_reverse;
	double omit_s;
	struct im_rate rate;
};

/* The value of a key that must be there with that type; complains with its path. */
static json_t *need(struct im_reader *r, struct lh_pos pos, json_t *object, const char *path,
		    const char *key, json_type type)
{
	json_t *value = json_object_get(object, key);
	char where[128];

	if (value && (json_typeof(value) == type || (type == JSON_REAL && json_is_number(value))))
		return value;
	snprintf(where, sizeof(where), "%s%s%s", path, *path ? "." : "", key);
	im_bad(r, pos, where, value ? "has another type than iperf3's" : "is missing");
	return NULL;
}

/* Numbers that are optional: 0 where they are not there. */
static double number(json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static int read_start(struct im_reader *r, struct test *t)
{
	json_t *connected = need(r, t->pos, t->start, "start", "connected", JSON_ARRAY);
	json_t *test = need(r, t->pos, t->start, "start", "test_start", JSON_OBJECT);
	json_t *first = json_array_get(connected, 0);
	const char *protocol = json_string_value(json_object_get(test, "protocol"));

	if (!connected || !test)
		return LH_EINPUT;
	if (!protocol || strcmp(protocol, "TCP") != 0)
		return im_bad(r, t->pos, "start.test_start.protocol",
			      "a test of %.20s; windows and links show with TCP only",
			      protocol ? protocol : "nothing");
	if (number(test, "bidir") > 0)
		return im_bad(r, t->pos, "start.test_start.bidir",
			      "both directions at once share the link; measure one after the other "
			      "(-R)");
	t->local = json_string_value(json_object_get(first, "local_host"));
	t->remote = json_string_value(json_object_get(first, "remote_host"));
	if (!t->local || !t->remote)
		return im_bad(r, t->pos, "start.connected", "has no local_host and remote_host");
	t->is_reverse = number(test, "reverse") > 0;
	t->omit_s = number(test, "omit");
	t->rate.streams = (int64_t)json_array_size(connected);
	return 0;
}

/* The MTU from the segment size; the smallest of all tests counts. */
static void take_mtu(struct im_reader *r, const struct test *t)
{
	double mss = number(t->start, "tcp_mss_default") + number(t->start, "tcp_mss");
	bool is_ipv6 = strchr(t->local, ':') != NULL;
	double mtu = mss + TCP_IP_BYTES + (is_ipv6 ? IPV6_MORE_BYTES : 0);
	struct lh_import *im = r->im;

	if (!(mss > 0 && mtu >= MTU_MIN_BYTES && mtu <= MTU_MAX_BYTES))
		return;
	im->mtu_differs |= im->mtu_bytes && im->mtu_bytes != (int64_t)mtu;
	if (!im->mtu_bytes || (int64_t)mtu < im->mtu_bytes)
		im->mtu_bytes = (int64_t)mtu;
}

/* TCP's smallest round trip over all streams, as one sample. */
static int take_tcp_rtt(struct im_reader *r, const struct test *t, const char *source)
{
	struct im_rtt rtt = {.from = t->rate.from,
			     .to = t->rate.to,
			     .kind = IM_RTT_TCP,
			     .n = 1,
			     .min_ms = -1,
			     .sd_ms = -1};
	double smallest = INFINITY;
	char text[600];
	json_t *stream;
	size_t i;

	json_array_foreach (json_object_get(t->end, "streams"), i, stream) {
		double us = number(json_object_get(stream, "sender"), "min_rtt");

		if (us > 0)
			smallest = fmin(smallest, us / 1000);
	}
	if (isinf(smallest))
		return 0;
	snprintf(text, sizeof(text), "%.500s: smallest RTT of TCP", source);
	rtt.ms = &smallest;
	rtt.source = text;
	return im_add_rtt(r, t->pos, &rtt);
}

static int read_end(struct im_reader *r, struct test *t)
{
	json_t *sum = need(r, t->pos, t->end, "end", "sum_received", JSON_OBJECT);
	json_t *bps, *seconds;

	if (!sum)
		return LH_EINPUT;
	bps = need(r, t->pos, sum, "end.sum_received", "bits_per_second", JSON_REAL);
	seconds = need(r, t->pos, sum, "end.sum_received", "seconds", JSON_REAL);
	if (!bps || !seconds)
		return LH_EINPUT;
	if (!(json_number_value(seconds) > 0 && json_number_value(seconds) <= 3600))
		return im_bad(r, t->pos, "end.sum_received.seconds", "is not between 0 and 3600");
	t->rate.bps = json_number_value(bps);
	t->rate.duration_ns = llround(json_number_value(seconds) * 1e9);
	t->rate.steady = t->omit_s > 0;
	t->rate.sd_bps = -1;
	return 0;
}

static int read_test(struct im_reader *r, json_t *doc, struct lh_pos pos)
{
	struct test t = {.pos = pos};
	const char *said = json_string_value(json_object_get(doc, "error"));
	const char *when;
	char source[600];
	int s;

	if (said)
		return im_bad(r, pos, "error", "iperf3 failed: %.200s", said);
	t.start = need(r, pos, doc, "", "start", JSON_OBJECT);
	t.end = need(r, pos, doc, "", "end", JSON_OBJECT);
	if (!t.start || !t.end || (s = read_start(r, &t)) < 0 || (s = read_end(r, &t)) < 0)
		return LH_EINPUT;
	s = im_reader_host(r, pos, true, t.local, t.is_reverse ? &t.rate.to : &t.rate.from);
	if (s == 0)
		s = im_reader_host(r, pos, false, t.remote,
				   t.is_reverse ? &t.rate.from : &t.rate.to);
	if (s < 0)
		return s;
	when = json_string_value(json_object_get(json_object_get(t.start, "timestamp"), "time"));
	snprintf(source, sizeof(source), "%.300s: iperf3%s%.60s", r->file->name, when ? ", " : "",
		 when ? when : "");
	t.rate.source = source;
	take_mtu(r, &t);
	s = im_add_rate(r, pos, &t.rate);
	return s < 0 ? s : take_tcp_rtt(r, &t, source);
}

/* Moves pos over the n bytes at text. */
static void advance(struct lh_pos *pos, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		pos->col++;
		if (text[i] == '\n') {
			pos->line++;
			pos->col = 1;
		}
	}
}

int im_read_iperf3(struct im_reader *r)
{
	struct lh_pos pos = {r->file->name, 1, 1};
	size_t at = 0;

	for (;;) {
		lh_cleanup_json json_t *doc = NULL;
		size_t blank = 0;
		json_error_t e;
		int s;

		while (at + blank < r->size && strchr(" \t\r\n", r->text[at + blank]))
			blank++;
		advance(&pos, r->text + at, blank);
		at += blank;
		if (at == r->size || r->diag->n_messages == LH_DIAG_MAX)
			return 0;
		doc = json_loadb(r->text + at, r->size - at, JSON_DISABLE_EOF_CHECK, &e);
		if (!doc) {
			struct lh_pos bad = pos;

			if (e.position > 0 && (size_t)e.position <= r->size - at)
				advance(&bad, r->text + at, (size_t)e.position - 1);
			return im_bad(r, bad, NULL, "not JSON: %.160s", e.text);
		}
		s = read_test(r, doc, pos);
		if (s == LH_ESYS)
			return s;
		advance(&pos, r->text + at, (size_t)e.position);
		at += (size_t)e.position;
	}
}
