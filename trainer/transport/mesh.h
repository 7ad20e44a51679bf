/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of one rank to its peers: a control connection and streams for data, per peer.
 * Every rank listens at its own address; rank j connects to the ranks below it. Both ends
 * greet each other with the job's hash, and the greeting measures how far the clocks differ.
 */
#ifndef LH_TRAINER_MESH_H
#define LH_TRAINER_MESH_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/job.h"

/* Channels of a pair: one for control, then the streams for data. */
enum { LH_CHANNEL_CONTROL, LH_CHANNEL_DATA };

/* What a rank has with a peer, bit by bit. */
enum { LH_MESH_CONTROL = 1, LH_MESH_DATA = 2 };

struct lh_mesh {
	const struct lh_job *job; /* borrowed */
	uint32_t self;
	uint32_t n;
	uint32_t n_channels;	  /* 1 + streams per peer */
	int *fds;		  /* peer by peer; -1 where there is none; blocking */
	int64_t *clock_offset_ns; /* by peer: its clock minus this rank's; 0 without control */
};

/*
 * Connects rank self with its peers, at most within the job's start_timeout_ns. wanted says by peer
 * what there is to be (LH_MESH_ bits; NULL: all with all), which both ends must see alike. On
 * success *ret_mesh is given to lh_mesh_close; on failure nothing is left. LH_ESYS, LH_ERUN: a peer
 * is not there, speaks otherwise, or has another job.
 */
int lh_mesh_open(const struct lh_job *job, uint32_t self, uint32_t n_streams, const uint8_t *wanted,
		 struct lh_mesh *ret_mesh, struct lh_error *err);

/* The connection with peer: LH_CHANNEL_CONTROL, or LH_CHANNEL_DATA + stream; -1: none. */
static inline int lh_mesh_fd(const struct lh_mesh *mesh, uint32_t peer, uint32_t channel)
{
	return mesh->fds[peer * mesh->n_channels + channel];
}

/* Ends all connections in both directions, so that threads blocked on them return. */
void lh_mesh_shutdown(struct lh_mesh *mesh);

void lh_mesh_close(struct lh_mesh *mesh);

/* "control" or "data". */
const char *lh_channel_name(uint32_t channel);

#endif
