/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk transfers: one sender and one receiver thread per peer, so that all transfers of a
 * phase run at the same time and each blocks on its own. A transfer is a frame, a head of
 * real numbers, and filler up to the length; filler leaves by sendfile from a file in memory
 * and is dropped by the receiver's kernel, so neither side copies it.
 *
 * A strategy's epoch has a fixed number of phases; in each, a peer sends this rank one transfer
 * or none, the same in every epoch. Receivers take what comes at any time, also before this
 * rank is as far.
 */
#ifndef LH_TRAINER_BULK_H
#define LH_TRAINER_BULK_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/traffic.h"
#include "trainer/transport/frame.h"
#include "trainer/transport/mesh.h"

struct lh_bulk;

/* A transfer that is to come. length 0: none comes. */
struct lh_bulk_expected {
	uint64_t length; /* payload bytes */
	uint32_t head_bytes;
};

struct lh_bulk_config {
	struct lh_mesh *mesh;	    /* borrowed */
	struct lh_traffic *traffic; /* borrowed */
	uint32_t n_phases;
	uint32_t n_epochs;
	/* What peer's transfer in that phase to this rank must be: [phase x ranks + peer]; copied.
	 */
	const struct lh_bulk_expected *expected;
};

/* What a peer sent in one phase. */
struct lh_bulk_received {
	struct lh_frame frame;
	const void *head; /* frame.head_bytes; valid until the phase is released */
};

/* Starts the threads. *ret_bulk is given to lh_bulk_close. LH_ESYS. */
int lh_bulk_open(const struct lh_bulk_config *config, struct lh_bulk **ret_bulk,
		 struct lh_error *err);

/* Hands a transfer to peer's sender thread and returns at once. head (head_bytes of it)
 * must stay until lh_bulk_wait_sent. At most one per phase and peer between two waits. */
void lh_bulk_post(struct lh_bulk *bulk, uint32_t peer, const struct lh_frame *frame,
		  const void *head);

/* Waits until every transfer that is expected in the phase has come. LH_ERUN or LH_ESYS where a
 * connection failed; the message names the peer. */
int lh_bulk_wait_received(struct lh_bulk *bulk, uint32_t phase, struct lh_error *err);

/* The transfer that peer sent in that phase; only after lh_bulk_wait_received. */
struct lh_bulk_received lh_bulk_received(const struct lh_bulk *bulk, uint32_t phase, uint32_t peer);

/* Lets the phase's slots take the next epoch's transfers. */
void lh_bulk_release(struct lh_bulk *bulk, uint32_t phase);

/* Waits until the kernel has taken all that was posted. Errors as above. */
int lh_bulk_wait_sent(struct lh_bulk *bulk, struct lh_error *err);

/* Payload bytes moved since the last call; only with nothing under way. */
void lh_bulk_take_bytes(struct lh_bulk *bulk, uint64_t *ret_sent, uint64_t *ret_received);

/* The failure of any thread so far, or 0; never blocks. */
int lh_bulk_check(struct lh_bulk *bulk, struct lh_error *err);

/* Readable as soon as a thread has failed, for poll. */
int lh_bulk_failure_fd(const struct lh_bulk *bulk);

/* Ends the mesh's connections if threads still use them, joins the threads, frees. NULL is
 * fine. After a normal end of all epochs the connections stay open. */
void lh_bulk_close(struct lh_bulk *bulk);

#endif
