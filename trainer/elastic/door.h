/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of a rank: a thread that listens at its address for as long as the rank runs, and hands
 * over who greets properly. A greeting is a HELLO frame with the job's hash; who sends anything
 * else, or nothing for a while, is turned away, which costs nobody anything.
 */
#ifndef LH_TRAINER_ELASTIC_DOOR_H
#define LH_TRAINER_ELASTIC_DOOR_H

#include "core/error.h"
#include "trainer/job.h"
#include "trainer/transport/frame.h"

/* What a visitor wants: the greeting's part. */
enum {
	LH_DOOR_COORDINATOR, /* a member's notices follow */
	LH_DOOR_STATE,	     /* the state of this rank's training; epoch: at least */
	/* and up: stream - LH_DOOR_DATA between members. epoch: the round's serial; samples: the
	 * sender's session */
	LH_DOOR_DATA,
};

struct lh_door_config {
	const struct lh_job *job; /* borrowed */
	uint32_t self;
	/* Takes over the socket of who has greeted; in the door's thread. */
	void (*take)(void *context, int fd, const struct lh_frame *hello);
	void *context;
};

struct lh_door;

/* *ret_door is given to lh_door_close. LH_ESYS. */
int lh_door_open(const struct lh_door_config *config, struct lh_door **ret_door,
		 struct lh_error *err);

void lh_door_close(struct lh_door *door); /* NULL is fine */

/* Connects to peer's door, non-blocking: *ret_fd is writable when it is up or has failed. LH_ESYS.
 */
int lh_door_call(const struct lh_job *job, uint32_t self, uint32_t peer, int *ret_fd,
		 struct lh_error *err);

/* After that: whether it is up; then greets and makes it blocking. LH_ESYS with the reason. */
int lh_door_greet(const struct lh_job *job, uint32_t self, int fd, uint16_t part, uint32_t epoch,
		  uint64_t samples, struct lh_error *err);

#endif
