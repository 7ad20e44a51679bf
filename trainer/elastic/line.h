/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line: notices over a connection that never blocks. What does not fit into the socket waits in a
 * buffer of bounded size; what has come stays until a notice is whole. For one thread.
 */
#ifndef LH_TRAINER_ELASTIC_LINE_H
#define LH_TRAINER_ELASTIC_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/elastic/notice.h"
#include "trainer/traffic.h"

/* A peer that has not taken so many bytes is taken for dead. */
enum { LH_LINE_OUT_MAX_BYTES = 1 << 20 };

struct lh_line {
	int fd; /* -1: closed */
	uint8_t *in;
	size_t have;
	uint8_t *out;
	size_t out_begin, out_end, out_room;
	struct lh_traffic *traffic; /* borrowed; NULL: not counted */
	uint32_t peer;		    /* as traffic is counted */
};

/* Takes over a connected socket, which becomes non-blocking. LH_ESYS; the socket is closed then. */
int lh_line_open(struct lh_line *line, int fd, struct lh_traffic *traffic, uint32_t peer,
		 struct lh_error *err);

/* All zeros but fd -1 is fine. */
void lh_line_close(struct lh_line *line);

/* Sends, or keeps for later. LH_ERUN: the peer takes nothing any more; LH_ESYS. */
int lh_line_send(struct lh_line *line, const struct lh_notice *notice, struct lh_error *err);

/* Sends what is kept, as far as it goes. Errors as above. */
int lh_line_flush(struct lh_line *line, struct lh_error *err);

/* Whether something is kept: then wait for POLLOUT, too. */
bool lh_line_has_out(const struct lh_line *line);

/* 1 and the next whole notice, for lh_notice_done; 0: nothing more for now. LH_ERUN: the peer has
 * closed, or what came is no notice; LH_ESYS. */
int lh_line_read(struct lh_line *line, struct lh_notice *ret_notice, struct lh_error *err);

#endif
