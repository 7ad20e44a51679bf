/* SPDX-License-Identifier: Apache-2.0 */
/* What comm.c and comm_stream.c share. */
#ifndef LH_TRAINER_COMM_INTERNAL_H
#define LH_TRAINER_COMM_INTERNAL_H

#include <pthread.h>
#include <stddef.h>

#include "trainer/transport/comm.h"

/* A piece of a request, for one stream. */
struct lh_piece {
	struct lh_request *request;
	uint32_t index;
};

/* First in, first out; grows as needed. */
struct lh_pieces {
	struct lh_piece *items;
	size_t room;  /* a power of two, or 0 */
	size_t begin; /* counts up for ever; its place is begin % room */
	size_t end;
};

struct lh_lane;

struct lh_stream {
	struct lh_lane *lane;
	int fd;
	bool has_sender;
	bool has_receiver;
	bool is_reading; /* blocked on a frame, or on what nobody wants */
	pthread_t sender;
	pthread_t receiver;
	pthread_cond_t posted;	 /* something to send, or the end */
	pthread_cond_t expected; /* something to receive, or the end */
	struct lh_pieces to_send;
	struct lh_pieces to_receive;
};

/* One peer. */
struct lh_lane {
	struct lh_comm *comm;
	uint32_t peer;
	bool is_ending;
	uint32_t n_active;     /* pieces in the threads' hands */
	struct lh_error error; /* why it is of no use any more */
	uint32_t n_streams;
	struct lh_stream streams[];
};

struct lh_comm {
	struct lh_comm_config config;
	const char **names; /* by rank */
	int filler_fd;
	int failure_fd;
	pthread_mutex_t mutex;	/* guards all below, the lanes and the requests */
	pthread_cond_t changed; /* a request is no longer pending, or a lane failed */
	uint64_t n_done;
	uint64_t sent_bytes;
	uint64_t received_bytes;
	struct lh_error failure; /* the first */
	uint64_t n_left_epochs;	 /* messages of epochs below are not waited for */
	struct lh_lane **lanes;	 /* by peer */
};

/* Bytes of the filler's file: one sendfile call moves as much. Few system calls, and the time of a
 * block on the slowest paths is still fractions of a second. */
enum { LH_COMM_BLOCK_BYTES = 4 << 20 };

/* A message is cut into n pieces; piece i is bytes [at, at + length), of which head_bytes are
 * real. */
uint32_t lh_comm_n_pieces(const struct lh_message *message, uint32_t n_streams);

/* The threads' main functions; arg: a struct lh_stream. */
void *lh_comm_sender(void *arg);
void *lh_comm_receiver(void *arg);

/* With the mutex held: the lane is of no use from here on; fails what is pending. */
void lh_lane_fail(struct lh_lane *lane, const struct lh_error *why);

/* With the mutex held: queues of pieces; take and first need one that is not empty. */
bool lh_pieces_is_empty(const struct lh_pieces *pieces);
struct lh_piece lh_pieces_take(struct lh_pieces *pieces);
struct lh_request *lh_pieces_first(const struct lh_pieces *pieces);
void lh_pieces_remove(struct lh_pieces *pieces, const struct lh_request *request);

/* With the mutex held: the request is done or has failed. */
void lh_request_end(struct lh_comm *comm, struct lh_request *request, enum lh_request_state state);

#endif
