/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the 64-byte messages that ranks exchange. On a data connection one frame comes
 * before each payload; on a control connection there is nothing else. Pure functions.
 *
 * Layout, little endian: magic u32 "LHT1", version u8, type u8, flags u16 | rank u16,
 * part u16, epoch u32 | samples u64 | time_ns i64 | step_ns i64 | length u64 | token u64 |
 * head_bytes u32, checksum u32 (FNV-1a of the 60 bytes before it).
 */
#ifndef LH_TRAINER_FRAME_H
#define LH_TRAINER_FRAME_H

#include <stdint.h>

#include "core/error.h"

enum {
	LH_FRAME_BYTES = 64,
	LH_FRAME_VERSION = 1,
};

enum lh_frame_type {
	LH_FRAME_HELLO = 1, /* part: channel; token: the job's hash; time_ns: the sender's clock */
	LH_FRAME_CLOCK,	    /* ends a greeting; time_ns: acceptor's clock minus connector's */
	LH_FRAME_PROGRESS,  /* epoch, samples so far, flags; time_ns: when that was; step_ns */
	LH_FRAME_BYE,	    /* all epochs are done; nothing follows */
	/* part: phase; samples: behind it; length: payload bytes that follow, a piece of a message
	 * of token bytes; step_ns: the piece's index; time_ns: what strategies note */
	LH_FRAME_DATA,
	/* of elastic trainings: part: kind; the rest as trainer/elastic/notice.h has it */
	LH_FRAME_NOTICE,
	LH_FRAME_TYPE_END,
};

enum lh_frame_flags {
	LH_FRAME_STOPPED = 1, /* the sender has begun no further micro-batch */
	LH_FRAME_JOINED = 2,  /* the sender forms this epoch's group */
	LH_FRAME_FLAGS_ALL = 3,
};

struct lh_frame {
	enum lh_frame_type type;
	uint16_t flags;
	uint16_t rank; /* of the sender */
	uint16_t part;
	uint32_t epoch;
	uint64_t samples;
	int64_t time_ns;
	int64_t step_ns; /* mean time of the sender's micro-batches */
	uint64_t length;
	uint64_t token;
	uint32_t head_bytes; /* of the payload, that are real numbers and not filler */
};

void lh_frame_format(const struct lh_frame *frame, uint8_t ret_bytes[static LH_FRAME_BYTES]);

/* LH_ERUN with the reason where the bytes are no frame. Any bytes may be given. */
int lh_frame_parse(const uint8_t bytes[static LH_FRAME_BYTES], struct lh_frame *ret_frame,
		   struct lh_error *err);

#endif
