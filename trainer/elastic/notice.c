/* SPDX-License-Identifier: Apache-2.0 */
/* Notices to bytes and back. See notice.h. */
#include "trainer/elastic/notice.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* More micro-batches no rank computes; sums of counts never overflow. */
#define COUNT_MAX (UINT64_C(1) << 40)

/* FNV-1a of what stands behind the frame. */
static uint32_t checksum(const uint8_t *bytes, size_t size)
{
	uint32_t hash = 0x811c9dc5u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x01000193u;
	return hash;
}

static size_t tail_bytes(const struct lh_notice *notice)
{
	if (notice->kind == LH_NOTICE_REFUSE)
		return strnlen(notice->text, LH_NOTICE_TEXT_MAX - 1);
	return (size_t)notice->n_members * LH_NOTICE_MEMBER_BYTES;
}

size_t lh_notice_bytes(const struct lh_notice *notice)
{
	return LH_FRAME_BYTES + tail_bytes(notice);
}

static uint8_t *put32(uint8_t *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

static uint8_t *put64(uint8_t *at, uint64_t v)
{
	v = htole64(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

static const uint8_t *get32(const uint8_t *at, uint32_t *ret)
{
	memcpy(ret, at, sizeof(*ret));
	*ret = le32toh(*ret);
	return at + sizeof(*ret);
}

static const uint8_t *get64(const uint8_t *at, uint64_t *ret)
{
	memcpy(ret, at, sizeof(*ret));
	*ret = le64toh(*ret);
	return at + sizeof(*ret);
}

static void format_members(const struct lh_notice *notice, uint8_t *at)
{
	for (uint32_t i = 0; i < notice->n_members; i++) {
		const struct lh_notice_member *m = &notice->members[i];

		at = put32(at, m->rank);
		at = put32(at, m->session);
		at = put32(at, m->group);
		at = put32(at, m->flags);
		at = put64(at, m->from);
		at = put64(at, m->to);
	}
}

void lh_notice_format(const struct lh_notice *notice, uint8_t *ret_bytes)
{
	uint8_t *tail = ret_bytes + LH_FRAME_BYTES;
	size_t n = tail_bytes(notice);
	struct lh_frame frame = {
		.type = LH_FRAME_NOTICE,
		.rank = (uint16_t)notice->rank,
		.part = (uint16_t)notice->kind,
		.epoch = notice->epoch,
		.samples = notice->count,
		.time_ns = notice->time_ns,
		.step_ns = notice->serial,
		.length = n,
		.token = notice->number,
	};

	if (notice->kind == LH_NOTICE_REFUSE)
		memcpy(tail, notice->text, n);
	else
		format_members(notice, tail);
	frame.head_bytes = checksum(tail, n);
	lh_frame_format(&frame, ret_bytes);
}

static int measure(const struct lh_frame *frame, size_t *ret_size, struct lh_error *err)
{
	bool is_text = frame->part == LH_NOTICE_REFUSE;
	uint64_t most = is_text ? LH_NOTICE_TEXT_MAX - 1
				: (uint64_t)LH_JOB_RANKS_MAX * LH_NOTICE_MEMBER_BYTES;

	if (frame->type != LH_FRAME_NOTICE || !frame->part || frame->part >= LH_NOTICE_KIND_END)
		return lh_fail(err, LH_ERUN, 0, "a frame of type %d, part %u; expected a notice",
			       (int)frame->type, frame->part);
	if (frame->length > most || (!is_text && frame->length % LH_NOTICE_MEMBER_BYTES) ||
	    (frame->length && !is_text && frame->part != LH_NOTICE_BEGIN))
		return lh_fail(err, LH_ERUN, 0, "a notice with %" PRIu64 " bytes behind it",
			       frame->length);
	if (frame->samples > COUNT_MAX || frame->step_ns > UINT32_MAX)
		return lh_fail(err, LH_ERUN, 0, "a notice with an impossible count");
	*ret_size = LH_FRAME_BYTES + (size_t)frame->length;
	return 0;
}

int lh_notice_measure(const uint8_t *bytes, size_t *ret_size, struct lh_error *err)
{
	struct lh_frame frame;
	int rc = lh_frame_parse(bytes, &frame, err);

	return rc ? rc : measure(&frame, ret_size, err);
}

static int parse_members(const uint8_t *at, struct lh_notice *notice, struct lh_error *err)
{
	uint32_t last = 0;

	notice->members = calloc(notice->n_members, sizeof(*notice->members));
	if (!notice->members)
		return lh_fail(err, LH_ESYS, ENOMEM, "read a notice");
	for (uint32_t i = 0; i < notice->n_members; i++) {
		struct lh_notice_member *m = &notice->members[i];

		at = get32(at, &m->rank);
		at = get32(at, &m->session);
		at = get32(at, &m->group);
		at = get32(at, &m->flags);
		at = get64(at, &m->from);
		at = get64(at, &m->to);
		if (m->rank >= LH_JOB_RANKS_MAX || (i && m->rank <= last) || m->from > m->to ||
		    m->to > COUNT_MAX || m->group >= notice->n_members ||
		    m->flags & ~(uint32_t)LH_NOTICE_FLAGS_ALL)
			return lh_fail(err, LH_ERUN, 0,
				       "a notice whose member %" PRIu32 " cannot be", i);
		last = m->rank;
	}
	return 0;
}

/* Copies a text from outside; what does not print becomes a question mark. */
static void parse_text(const uint8_t *at, size_t n, char *ret_text)
{
	for (size_t i = 0; i < n; i++)
		ret_text[i] = at[i] >= ' ' && at[i] <= '~' ? (char)at[i] : '?';
	ret_text[n] = '\0';
}

int lh_notice_parse(const uint8_t *bytes, size_t size, struct lh_notice *ret_notice,
		    struct lh_error *err)
{
	const uint8_t *tail = bytes + LH_FRAME_BYTES;
	struct lh_frame frame;
	size_t expected;
	int rc = lh_frame_parse(bytes, &frame, err);

	if (rc || (rc = measure(&frame, &expected, err)))
		return rc;
	if (size != expected || frame.head_bytes != checksum(tail, (size_t)frame.length))
		return lh_fail(err, LH_ERUN, 0, "a notice with a wrong checksum");
	*ret_notice = (struct lh_notice){
		.kind = (enum lh_notice_kind)frame.part,
		.rank = frame.rank,
		.epoch = frame.epoch,
		.serial = (uint32_t)frame.step_ns,
		.count = frame.samples,
		.number = frame.token,
		.time_ns = frame.time_ns,
	};
	if (ret_notice->kind == LH_NOTICE_REFUSE) {
		parse_text(tail, (size_t)frame.length, ret_notice->text);
		return 0;
	}
	ret_notice->n_members = (uint32_t)(frame.length / LH_NOTICE_MEMBER_BYTES);
	rc = ret_notice->n_members ? parse_members(tail, ret_notice, err) : 0;
	if (rc)
		lh_notice_done(ret_notice);
	return rc;
}

void lh_notice_done(struct lh_notice *notice)
{
	free(notice->members);
	notice->members = NULL;
	notice->n_members = 0;
}
