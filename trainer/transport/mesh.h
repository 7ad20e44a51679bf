/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of one rank to all others: a control and a data connection per peer.
 * Every rank listens at its own address; rank j connects to every rank below it. Both ends
 * greet each other with the job's hash, and the greeting measures how far the clocks differ.
 */
#ifndef LH_TRAINER_MESH_H
#define LH_TRAINER_MESH_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/job.h"

enum lh_channel { LH_CHANNEL_CONTROL, LH_CHANNEL_DATA, LH_N_CHANNELS };

struct lh_mesh {
	const struct lh_job *job; /* borrowed */
	uint32_t self;
	uint32_t n;
	int fd[LH_JOB_RANKS_MAX][LH_N_CHANNELS];   /* -1 for self; blocking */
	int64_t clock_offset_ns[LH_JOB_RANKS_MAX]; /* the peer's clock minus this rank's */
};

/*
 * Connects rank self with all peers, at most within the job's start_timeout_ns. On success
 * *ret_mesh is given to lh_mesh_close; on failure nothing is left. LH_ESYS, LH_ERUN: a peer
 * is not there, speaks otherwise, or has another job.
 */
int lh_mesh_open(const struct lh_job *job, uint32_t self, struct lh_mesh *ret_mesh,
		 struct lh_error *err);

/* Ends all connections in both directions, so that threads blocked on them return. */
void lh_mesh_shutdown(struct lh_mesh *mesh);

void lh_mesh_close(struct lh_mesh *mesh);

/* "control" or "data". */
const char *lh_channel_name(enum lh_channel channel);

#endif
