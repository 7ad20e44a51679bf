/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for a member's main thread: notices of the coordinator, visitors from the door, and
 * the news that the coordinator is out of reach. Any thread puts in; the main thread takes out, and
 * polls one descriptor to know when.
 */
#ifndef LH_TRAINER_ELASTIC_MAILBOX_H
#define LH_TRAINER_ELASTIC_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/elastic/notice.h"

/* Those who come while so many wait are turned away. */
enum { LH_MAILBOX_VISITORS_MAX = 4 * LH_JOB_RANKS_MAX };

/* A connection that has greeted. */
struct lh_visitor {
	int fd;
	struct lh_frame hello;
};

struct lh_mailbox {
	int wake_fd; /* readable: something was put in */
	pthread_mutex_t mutex;
	/* first in, first out: */
	struct lh_notice *notices;
	size_t n_notices, notices_room;
	struct lh_visitor *visitors;
	size_t n_visitors, visitors_room;
	struct lh_error lost;	/* why the coordinator is out of reach; code 0: it is not */
	uint64_t n_left_rounds; /* rounds with a serial below are void */
};

/* LH_ESYS. */
int lh_mailbox_init(struct lh_mailbox *box, struct lh_error *err);

/* Closes visitors that nobody took. All zeros but wake_fd -1 is fine. */
void lh_mailbox_done(struct lh_mailbox *box);

/* Takes over what the notice holds; without memory for it the coordinator is lost. */
void lh_mailbox_put(struct lh_mailbox *box, struct lh_notice *notice);

/* Takes over the visitor's socket. */
void lh_mailbox_put_visitor(struct lh_mailbox *box, const struct lh_visitor *visitor);

/* The coordinator is out of reach, and the round of that serial and those before it void. */
void lh_mailbox_put_loss(struct lh_mailbox *box, const struct lh_error *why, uint32_t serial);

/* The round of that serial, and those before it, are void. */
void lh_mailbox_leave(struct lh_mailbox *box, uint32_t serial);

/* The next notice, for lh_notice_done; false: none. */
bool lh_mailbox_take(struct lh_mailbox *box, struct lh_notice *ret_notice);

/* The next visitor that asks for part, or (LH_DOOR_DATA) for that part and above. */
bool lh_mailbox_take_visitor(struct lh_mailbox *box, uint16_t part, struct lh_visitor *ret_visitor);

/* Whether the round is void. */
bool lh_mailbox_has_left(struct lh_mailbox *box, uint32_t serial);

/* Why the coordinator is out of reach, or 0. */
int lh_mailbox_check(struct lh_mailbox *box, struct lh_error *err);

/* Forgets notices and the loss: another connection begins. */
void lh_mailbox_clear(struct lh_mailbox *box);

/* To be called when wake_fd is readable, before what is in is taken out. */
void lh_mailbox_wake(struct lh_mailbox *box);

/* Waits until something is put in, at most until until_ns. */
void lh_mailbox_wait(struct lh_mailbox *box, int64_t until_ns);

#endif
