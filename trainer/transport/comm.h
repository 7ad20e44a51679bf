/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator: messages between this rank and its peers, asynchronous, as requests that are
 * posted and waited for (as MPI_Isend, MPI_Irecv and MPI_Wait are). A peer is reached over S
 * streams (TCP connections) that someone else opened; each has one sender and one receiver thread,
 * which block on it alone. Between a pair, messages arrive in the order in which they were posted.
 *
 * A message is a head of real numbers and filler up to its length; filler leaves by sendfile from a
 * file in memory and is dropped by the receiver's kernel, so neither side copies it. Long messages
 * are cut into as many pieces as there are streams.
 *
 * Peers are not trusted: a frame that is not what the posted receive expects fails that peer's
 * lane, and with it all its requests; nothing else, unless the communicator fails together.
 */
#ifndef LH_TRAINER_COMM_H
#define LH_TRAINER_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/traffic.h"

enum {
	LH_COMM_STREAMS_MAX = 64,
	/* A piece is at least this long, so short messages take one stream. */
	LH_COMM_PIECE_MIN_BYTES = 64 << 10,
};

struct lh_comm;

struct lh_comm_config {
	uint32_t self;
	uint32_t n_ranks;
	const char *const *names;   /* of ranks, for messages; the texts are borrowed */
	struct lh_traffic *traffic; /* borrowed */
	uint64_t seed;		    /* of the filler */
	/* Any lane's failure ends every wait: for groups that cannot go on without one. */
	bool fails_together;
	/* Messages of epochs before the one that a receive names are read and dropped; where one of
	 * a later epoch comes, the receive fails: its message will not come any more. */
	bool drops_stale;
};

/* What a message is, beside its bytes. */
struct lh_message {
	uint32_t epoch;
	uint16_t phase; /* or kind, as the strategy likes; must match */
	uint64_t samples;
	int64_t note;	     /* for the strategy */
	uint64_t length;     /* payload bytes, at least 1 */
	uint32_t head_bytes; /* of these, real ones; the rest is filler */
	/* A receive takes any length up to `length`, heads up to head_bytes; a send goes over one
	 * stream. Both sides must agree. */
	bool is_variable;
};

enum lh_request_state { LH_REQUEST_FREE, LH_REQUEST_PENDING, LH_REQUEST_DONE, LH_REQUEST_FAILED };

/* Belongs to the caller and stays where it is until it is no longer pending. */
struct lh_request {
	struct lh_message message; /* of a receive, once done: as it came */
	uint32_t peer;
	enum lh_request_state state;
	int64_t done_ns;
	uint64_t done_order; /* of all requests of the communicator */
	/* the communicator's own: */
	bool is_send;
	const uint8_t *from;
	uint8_t *into;
	uint32_t n_begun;
	uint32_t n_left; /* pieces */
};

/* *ret_comm is given to lh_comm_close. LH_ESYS. */
int lh_comm_open(const struct lh_comm_config *config, struct lh_comm **ret_comm,
		 struct lh_error *err);

/* Starts to talk with peer over n_streams connected, blocking sockets, which stay the caller's and
 * open until detach. No lane of that peer may be attached. LH_ESYS. */
int lh_comm_attach(struct lh_comm *comm, uint32_t peer, const int *fds, uint32_t n_streams,
		   struct lh_error *err);

bool lh_comm_is_attached(const struct lh_comm *comm, uint32_t peer);

/* Ends the lane: shuts its sockets down where anything is under way, fails its pending requests,
 * joins its threads. Nothing where there is none. */
void lh_comm_detach(struct lh_comm *comm, uint32_t peer);

/* Posts a message; head (message->head_bytes) stays until it is done. Where the lane has failed or
 * is not there the request fails at once. */
void lh_comm_send(struct lh_comm *comm, uint32_t peer, const struct lh_message *message,
		  const void *head, struct lh_request *request);

/* Expects a message of exactly that epoch, phase, length and head; ret_head has room for
 * message->head_bytes. */
void lh_comm_receive(struct lh_comm *comm, uint32_t peer, const struct lh_message *message,
		     void *ret_head, struct lh_request *request);

/* Waits until the request is no longer pending. Past deadline_ns (INT64_MAX: none) LH_ERUN with sys
 * ETIMEDOUT, and it is pending still; the lane's error where it failed, naming the peer. */
int lh_comm_wait(struct lh_comm *comm, struct lh_request *request, int64_t deadline_ns,
		 struct lh_error *err);

/* Waits until one of n requests is no longer pending, and tells the first that became so, also if
 * it failed (no error then). NULLs are skipped. Late as above; with fails_together a failure. */
int lh_comm_wait_any(struct lh_comm *comm, struct lh_request *const *requests, uint32_t n,
		     int64_t deadline_ns, uint32_t *ret_index, struct lh_error *err);

/* Nobody waits any more for messages of that epoch and those before it: such waits end with LH_ERUN
 * and sys ECANCELED, unless what they wait for is there. For any thread. */
void lh_comm_leave(struct lh_comm *comm, uint32_t epoch);

/* Takes back a pending request of which nothing has been sent or received; false where it is too
 * late for that. */
bool lh_comm_cancel(struct lh_comm *comm, struct lh_request *request);

/* The error of a failed lane, or 0. */
int lh_comm_lane_error(struct lh_comm *comm, uint32_t peer, struct lh_error *err);

/* The first failure of any lane so far, or 0; never blocks. */
int lh_comm_check(struct lh_comm *comm, struct lh_error *err);

/* Readable as soon as a lane has failed, for poll. */
int lh_comm_failure_fd(const struct lh_comm *comm);

/* Payload bytes moved since the last call. */
void lh_comm_take_bytes(struct lh_comm *comm, uint64_t *ret_sent, uint64_t *ret_received);

/* Detaches all, frees. NULL is fine. */
void lh_comm_close(struct lh_comm *comm);

#endif
