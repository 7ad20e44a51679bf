/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices: what members of an elastic training and its coordinator tell each other. A notice is a
 * frame (trainer/transport/frame.h) and, behind it, the members that it names or a text. Pure
 * functions; nothing that comes is trusted.
 */
#ifndef LH_TRAINER_ELASTIC_NOTICE_H
#define LH_TRAINER_ELASTIC_NOTICE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/job.h"
#include "trainer/transport/frame.h"

enum {
	LH_NOTICE_TEXT_MAX = 256, /* bytes, with the NUL */
	LH_NOTICE_MEMBER_BYTES = 32,
	LH_NOTICE_MAX_BYTES = LH_FRAME_BYTES + LH_JOB_RANKS_MAX * LH_NOTICE_MEMBER_BYTES,
};

enum lh_notice_kind {
	/* from members */
	LH_NOTICE_JOIN = 1, /* number: incarnation; epoch: of its state; count: micro-batches that
			     * it has done; serial: of these, what its state holds already */
	LH_NOTICE_PROGRESS, /* count: micro-batches done; time_ns: the last one's */
	LH_NOTICE_READY,    /* serial: FORM's; count: micro-batches done, none is begun */
	LH_NOTICE_RESULT,   /* serial: BEGIN's; number: 0, or 1 + the rank that it failed at */
	LH_NOTICE_LOADED,   /* epoch: of the state; count: done; number: 0, or 1: it failed */
	LH_NOTICE_BYE,
	/* from the coordinator */
	LH_NOTICE_WELCOME, /* number: session; epoch; count: own micro-batches that are committed */
	LH_NOTICE_COMPUTE, /* for epoch, until FORM or until count micro-batches are done in all */
	LH_NOTICE_LOAD,	   /* serial: the donor's rank; number: its session; epoch; count: own
			    * micro-batches that are committed, the others are given up */
	LH_NOTICE_FORM,	   /* serial; epoch; count: micro-batches that must be done in all; then no
			    * other is begun */
	LH_NOTICE_BEGIN,   /* a round: serial; epoch; number: round of the epoch; count: attempt;
			    * time_ns: how long matchmaking took; members */
	LH_NOTICE_ABORT,   /* serial: the round is void; what is left of it is dropped */
	LH_NOTICE_COMMIT,  /* serial: of the epoch's last round; epoch: it has ended; count: samples
			    * of all whose micro-batches count; number: flags of the receiver */
	LH_NOTICE_END,	   /* the training is over; epoch: how many there were; count: as WELCOME */
	LH_NOTICE_REFUSE,  /* text: why; nothing follows */
	/* from both */
	LH_NOTICE_HEARTBEAT,
	LH_NOTICE_KIND_END,
};

enum lh_notice_flags {
	/* What the member's group of the round before came to is void: it goes on with what it had
	 * before */
	LH_NOTICE_SPOILED = 1,
	LH_NOTICE_FLAGS_ALL = 1,
};

/* A member of a round. */
struct lh_notice_member {
	uint32_t rank;
	uint32_t session; /* how the coordinator numbers all who ever joined */
	uint32_t group;	  /* members with the same one average together */
	uint32_t flags;
	uint64_t from; /* its micro-batches of this epoch are [from, to) of its incarnation */
	uint64_t to;
};

struct lh_notice {
	enum lh_notice_kind kind;
	uint32_t rank; /* of the sender */
	uint32_t epoch;
	uint32_t serial;
	uint64_t count;
	uint64_t number;
	int64_t time_ns;
	uint32_t n_members;
	struct lh_notice_member *members; /* owned where it was parsed, else borrowed */
	char text[LH_NOTICE_TEXT_MAX];
};

/* Bytes of the notice on the wire, at most LH_NOTICE_MAX_BYTES. */
size_t lh_notice_bytes(const struct lh_notice *notice);

void lh_notice_format(const struct lh_notice *notice, uint8_t *ret_bytes);

/* How many bytes the notice has whose first LH_FRAME_BYTES are given, or LH_ERUN. */
int lh_notice_measure(const uint8_t *bytes, size_t *ret_size, struct lh_error *err);

/* The notice of that many bytes; lh_notice_done frees what it holds. LH_ERUN with what is wrong,
 * LH_ESYS. */
int lh_notice_parse(const uint8_t *bytes, size_t size, struct lh_notice *ret_notice,
		    struct lh_error *err);

void lh_notice_done(struct lh_notice *notice);

#endif
