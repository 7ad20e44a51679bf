/* SPDX-License-Identifier: Apache-2.0 */
/* Frames to bytes and back. See frame.h. */
#include "trainer/transport/frame.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

/* Times beyond some 70 years cannot be: sums of those within never overflow. */
#define TIME_MAX_NS (INT64_C(1) << 61)

#define MAGIC UINT32_C(0x3154484c) /* "LHT1" */

enum offset {
	AT_MAGIC = 0,
	AT_VERSION = 4,
	AT_TYPE = 5,
	AT_FLAGS = 6,
	AT_RANK = 8,
	AT_PART = 10,
	AT_EPOCH = 12,
	AT_SAMPLES = 16,
	AT_TIME = 24,
	AT_STEP = 32,
	AT_LENGTH = 40,
	AT_TOKEN = 48,
	AT_HEAD = 56,
	AT_CHECKSUM = 60,
};

static void put16(uint8_t *at, uint16_t v)
{
	v = htole16(v);
	memcpy(at, &v, sizeof(v));
}

static void put32(uint8_t *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
}

static void put64(uint8_t *at, uint64_t v)
{
	v = htole64(v);
	memcpy(at, &v, sizeof(v));
}

static uint16_t get16(const uint8_t *at)
{
	uint16_t v;

	memcpy(&v, at, sizeof(v));
	return le16toh(v);
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return le64toh(v);
}

static uint32_t checksum(const uint8_t *bytes)
{
	uint32_t hash = 0x811c9dc5u;

	for (int i = 0; i < AT_CHECKSUM; i++)
		hash = (hash ^ bytes[i]) * 0x01000193u;
	return hash;
}

void lh_frame_format(const struct lh_frame *frame, uint8_t ret_bytes[static LH_FRAME_BYTES])
{
	put32(ret_bytes + AT_MAGIC, MAGIC);
	ret_bytes[AT_VERSION] = LH_FRAME_VERSION;
	ret_bytes[AT_TYPE] = (uint8_t)frame->type;
	put16(ret_bytes + AT_FLAGS, frame->flags);
	put16(ret_bytes + AT_RANK, frame->rank);
	put16(ret_bytes + AT_PART, frame->part);
	put32(ret_bytes + AT_EPOCH, frame->epoch);
	put64(ret_bytes + AT_SAMPLES, frame->samples);
	put64(ret_bytes + AT_TIME, (uint64_t)frame->time_ns);
	put64(ret_bytes + AT_STEP, (uint64_t)frame->step_ns);
	put64(ret_bytes + AT_LENGTH, frame->length);
	put64(ret_bytes + AT_TOKEN, frame->token);
	put32(ret_bytes + AT_HEAD, frame->head_bytes);
	put32(ret_bytes + AT_CHECKSUM, checksum(ret_bytes));
}

int lh_frame_parse(const uint8_t bytes[static LH_FRAME_BYTES], struct lh_frame *ret_frame,
		   struct lh_error *err)
{
	uint8_t version = bytes[AT_VERSION], type = bytes[AT_TYPE];
	uint16_t flags = get16(bytes + AT_FLAGS);
	int64_t time_ns = (int64_t)get64(bytes + AT_TIME);
	int64_t step_ns = (int64_t)get64(bytes + AT_STEP);

	if (get32(bytes + AT_MAGIC) != MAGIC)
		return lh_fail(err, LH_ERUN, 0, "not a longhaul frame: it begins with 0x%08" PRIx32,
			       get32(bytes + AT_MAGIC));
	if (version != LH_FRAME_VERSION)
		return lh_fail(err, LH_ERUN, 0, "frame of version %u; this program speaks %d",
			       version, LH_FRAME_VERSION);
	if (get32(bytes + AT_CHECKSUM) != checksum(bytes))
		return lh_fail(err, LH_ERUN, 0, "frame with a wrong checksum");
	if (type < LH_FRAME_HELLO || type >= LH_FRAME_TYPE_END)
		return lh_fail(err, LH_ERUN, 0, "frame of unknown type %u", type);
	if (flags & ~(unsigned)LH_FRAME_FLAGS_ALL)
		return lh_fail(err, LH_ERUN, 0, "frame with unknown flags 0x%04x", flags);
	if (time_ns > TIME_MAX_NS || time_ns < -TIME_MAX_NS || step_ns > TIME_MAX_NS || step_ns < 0)
		return lh_fail(err, LH_ERUN, 0, "frame with an impossible time");
	*ret_frame = (struct lh_frame){
		.type = (enum lh_frame_type)type,
		.flags = flags,
		.rank = get16(bytes + AT_RANK),
		.part = get16(bytes + AT_PART),
		.epoch = get32(bytes + AT_EPOCH),
		.samples = get64(bytes + AT_SAMPLES),
		.time_ns = time_ns,
		.step_ns = step_ns,
		.length = get64(bytes + AT_LENGTH),
		.token = get64(bytes + AT_TOKEN),
		.head_bytes = get32(bytes + AT_HEAD),
	};
	return 0;
}
