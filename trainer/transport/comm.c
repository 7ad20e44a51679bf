/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and lanes of a communicator. See comm.h. */
#include "trainer/transport/comm.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "trainer/clock.h"
#include "trainer/transport/comm_internal.h"

enum { THREAD_STACK_BYTES = 256 << 10, PIECES_FIRST_ROOM = 16 };

/* ---- queues of pieces --------------------------------------------------------------------- */

static int pieces_add(struct lh_pieces *p, struct lh_piece piece)
{
	if (p->end - p->begin == p->room) {
		size_t room = p->room ? 2 * p->room : PIECES_FIRST_ROOM;
		struct lh_piece *grown = calloc(room, sizeof(*grown));

		if (!grown)
			return -1;
		for (size_t i = p->begin; i < p->end; i++)
			grown[i % room] = p->items[i % p->room];
		free(p->items);
		p->items = grown;
		p->room = room;
	}
	p->items[p->end++ % p->room] = piece;
	return 0;
}

bool lh_pieces_is_empty(const struct lh_pieces *p)
{
	return p->begin == p->end;
}

struct lh_piece lh_pieces_take(struct lh_pieces *p)
{
	return p->items[p->begin++ % p->room];
}

struct lh_request *lh_pieces_first(const struct lh_pieces *p)
{
	return p->items[p->begin % p->room].request;
}

void lh_pieces_remove(struct lh_pieces *p, const struct lh_request *request)
{
	size_t kept = p->begin;

	for (size_t i = p->begin; i < p->end; i++)
		if (p->items[i % p->room].request != request)
			p->items[kept++ % p->room] = p->items[i % p->room];
	p->end = kept;
}

/* ---- ends of requests and lanes ----------------------------------------------------------- */

void lh_request_end(struct lh_comm *comm, struct lh_request *request, enum lh_request_state state)
{
	request->state = state;
	request->done_ns = lh_clock_now_ns();
	request->done_order = ++comm->n_done;
	pthread_cond_broadcast(&comm->changed);
}

static void fail_pieces(struct lh_comm *comm, struct lh_pieces *pieces)
{
	/* requests with pieces in a thread's hands end when those are back */
	while (!lh_pieces_is_empty(pieces)) {
		struct lh_piece piece = lh_pieces_take(pieces);

		if (piece.request->state == LH_REQUEST_PENDING && piece.request->n_begun == 0)
			lh_request_end(comm, piece.request, LH_REQUEST_FAILED);
	}
}

static void end_lane(struct lh_lane *lane)
{
	for (uint32_t i = 0; i < lane->n_streams; i++) {
		struct lh_stream *s = &lane->streams[i];

		if (lane->n_active || s->is_reading || lane->error.code)
			shutdown(s->fd, SHUT_RDWR);
		pthread_cond_signal(&s->posted);
		pthread_cond_signal(&s->expected);
		fail_pieces(lane->comm, &s->to_send);
		fail_pieces(lane->comm, &s->to_receive);
	}
}

void lh_lane_fail(struct lh_lane *lane, const struct lh_error *why)
{
	struct lh_comm *comm = lane->comm;
	uint64_t one = 1;

	if (lane->error.code)
		return;
	lane->error = *why;
	if (!comm->failure.code && !lane->is_ending) {
		comm->failure = *why;
		/* A full counter is as readable as a written one. */
		if (write(comm->failure_fd, &one, sizeof(one)) < 0)
			assert(errno == EAGAIN);
	}
	end_lane(lane);
	pthread_cond_broadcast(&comm->changed);
}

/* ---- opening ------------------------------------------------------------------------------ */

static int make_filler(uint64_t seed, int *ret_fd, struct lh_error *err)
{
	lh_cleanup_close int fd = memfd_create("filler", MFD_CLOEXEC);
	lh_cleanup_free uint64_t *words = malloc(LH_COMM_BLOCK_BYTES);
	struct lh_rng rng;

	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "memfd_create");
	if (!words)
		return lh_fail(err, LH_ESYS, ENOMEM, "make filler");
	lh_rng_init(&rng, seed, "filler");
	for (size_t i = 0; i < LH_COMM_BLOCK_BYTES / sizeof(*words); i++)
		words[i] = lh_rng_next(&rng);
	if (write(fd, words, LH_COMM_BLOCK_BYTES) != LH_COMM_BLOCK_BYTES)
		return lh_fail(err, LH_ESYS, errno, "write %d bytes to memory",
			       LH_COMM_BLOCK_BYTES);
	*ret_fd = fd;
	fd = -1;
	return 0;
}

static void init_locks(struct lh_comm *comm)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&comm->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&comm->changed, &attr);
	pthread_condattr_destroy(&attr);
}

int lh_comm_open(const struct lh_comm_config *config, struct lh_comm **ret_comm,
		 struct lh_error *err)
{
	struct lh_comm *comm = calloc(1, sizeof(*comm));
	int rc = 0;

	if (!comm)
		return lh_fail(err, LH_ESYS, ENOMEM, "open a communicator");
	comm->config = *config;
	comm->config.names = NULL;
	comm->filler_fd = -1;
	init_locks(comm);
	comm->failure_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	comm->lanes = calloc(config->n_ranks, sizeof(struct lh_lane *));
	comm->names = calloc(config->n_ranks, sizeof(*comm->names));
	if (comm->failure_fd < 0)
		rc = lh_fail(err, LH_ESYS, errno, "eventfd");
	else if (!comm->lanes || !comm->names)
		rc = lh_fail(err, LH_ESYS, ENOMEM, "open a communicator");
	else
		memcpy(comm->names, config->names, config->n_ranks * sizeof(*comm->names));
	if (rc == 0)
		rc = make_filler(config->seed, &comm->filler_fd, err);
	if (rc) {
		lh_comm_close(comm);
		return rc;
	}
	*ret_comm = comm;
	return 0;
}

static int start_threads(struct lh_stream *s, const pthread_attr_t *attr)
{
	int sys = pthread_create(&s->receiver, attr, lh_comm_receiver, s);

	s->has_receiver = sys == 0;
	if (sys == 0) {
		sys = pthread_create(&s->sender, attr, lh_comm_sender, s);
		s->has_sender = sys == 0;
	}
	return sys;
}

int lh_comm_attach(struct lh_comm *comm, uint32_t peer, const int *fds, uint32_t n_streams,
		   struct lh_error *err)
{
	struct lh_lane *lane = calloc(1, sizeof(*lane) + n_streams * sizeof(lane->streams[0]));
	pthread_attr_t attr;
	int sys;

	assert(peer < comm->config.n_ranks && !comm->lanes[peer] && n_streams >= 1);
	if (!lane)
		return lh_fail(err, LH_ESYS, ENOMEM, "attach a peer");
	lane->comm = comm;
	lane->peer = peer;
	lane->n_streams = n_streams;
	for (uint32_t i = 0; i < n_streams; i++) {
		lane->streams[i].lane = lane;
		lane->streams[i].fd = fds[i];
		pthread_cond_init(&lane->streams[i].posted, NULL);
		pthread_cond_init(&lane->streams[i].expected, NULL);
	}
	pthread_mutex_lock(&comm->mutex);
	comm->lanes[peer] = lane;
	pthread_mutex_unlock(&comm->mutex);
	sys = pthread_attr_init(&attr);
	if (sys == 0) {
		pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
		for (uint32_t i = 0; sys == 0 && i < n_streams; i++)
			sys = start_threads(&lane->streams[i], &attr);
		pthread_attr_destroy(&attr);
	}
	if (sys) {
		lh_comm_detach(comm, peer);
		return lh_fail(err, LH_ESYS, sys, "start a thread");
	}
	return 0;
}

bool lh_comm_is_attached(const struct lh_comm *comm, uint32_t peer)
{
	return comm->lanes[peer];
}

void lh_comm_detach(struct lh_comm *comm, uint32_t peer)
{
	struct lh_lane *lane = comm->lanes[peer];

	if (!lane)
		return;
	pthread_mutex_lock(&comm->mutex);
	lane->is_ending = true;
	end_lane(lane);
	pthread_mutex_unlock(&comm->mutex);
	for (uint32_t i = 0; i < lane->n_streams; i++) {
		struct lh_stream *s = &lane->streams[i];

		if (s->has_sender)
			pthread_join(s->sender, NULL);
		if (s->has_receiver)
			pthread_join(s->receiver, NULL);
		pthread_cond_destroy(&s->posted);
		pthread_cond_destroy(&s->expected);
		free(s->to_send.items);
		free(s->to_receive.items);
	}
	pthread_mutex_lock(&comm->mutex);
	comm->lanes[peer] = NULL;
	pthread_mutex_unlock(&comm->mutex);
	free(lane);
}

void lh_comm_close(struct lh_comm *comm)
{
	if (!comm)
		return;
	for (uint32_t peer = 0; comm->lanes && peer < comm->config.n_ranks; peer++)
		lh_comm_detach(comm, peer);
	pthread_cond_destroy(&comm->changed);
	pthread_mutex_destroy(&comm->mutex);
	if (comm->filler_fd >= 0)
		close(comm->filler_fd);
	if (comm->failure_fd >= 0)
		close(comm->failure_fd);
	free(comm->lanes);
	free(comm->names);
	free(comm);
}

/* ---- posting ------------------------------------------------------------------------------ */

/* With the mutex held. */
static int enqueue(struct lh_lane *lane, struct lh_request *request)
{
	for (uint32_t i = 0; i < request->n_left; i++) {
		struct lh_stream *s = &lane->streams[i];
		struct lh_pieces *pieces = request->is_send ? &s->to_send : &s->to_receive;

		if (pieces_add(pieces, (struct lh_piece){request, i}))
			return -1;
		pthread_cond_signal(request->is_send ? &s->posted : &s->expected);
	}
	return 0;
}

static void post(struct lh_comm *comm, struct lh_request *request)
{
	struct lh_lane *lane;

	assert(request->message.length >= 1 &&
	       request->message.head_bytes <= request->message.length);
	pthread_mutex_lock(&comm->mutex);
	lane = comm->lanes[request->peer];
	request->state = LH_REQUEST_PENDING;
	if (lane && !lane->error.code && !lane->is_ending) {
		request->n_left = lh_comm_n_pieces(&request->message, lane->n_streams);
		if (enqueue(lane, request)) {
			struct lh_error why = {0};

			lh_fail(&why, LH_ESYS, ENOMEM, "post a message");
			lh_lane_fail(lane, &why);
		}
	} else {
		lh_request_end(comm, request, LH_REQUEST_FAILED);
	}
	pthread_mutex_unlock(&comm->mutex);
}

void lh_comm_send(struct lh_comm *comm, uint32_t peer, const struct lh_message *message,
		  const void *head, struct lh_request *request)
{
	*request = (struct lh_request){
		.message = *message, .peer = peer, .is_send = true, .from = head};
	post(comm, request);
}

void lh_comm_receive(struct lh_comm *comm, uint32_t peer, const struct lh_message *message,
		     void *ret_head, struct lh_request *request)
{
	*request = (struct lh_request){.message = *message, .peer = peer, .into = ret_head};
	post(comm, request);
}

bool lh_comm_cancel(struct lh_comm *comm, struct lh_request *request)
{
	struct lh_lane *lane;
	bool is_untouched;

	pthread_mutex_lock(&comm->mutex);
	lane = comm->lanes[request->peer];
	is_untouched = request->state == LH_REQUEST_PENDING && request->n_begun == 0 && lane &&
		       request->n_left == lh_comm_n_pieces(&request->message, lane->n_streams);
	for (uint32_t i = 0; is_untouched && i < lane->n_streams; i++)
		lh_pieces_remove(request->is_send ? &lane->streams[i].to_send
						  : &lane->streams[i].to_receive,
				 request);
	if (is_untouched)
		request->state = LH_REQUEST_FREE;
	pthread_mutex_unlock(&comm->mutex);
	return is_untouched;
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* With the mutex held. */
static int lane_error(const struct lh_comm *comm, uint32_t peer, struct lh_error *err)
{
	const struct lh_lane *lane = comm->lanes[peer];

	if (!lane)
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " (%s) is not connected", peer,
			       comm->names[peer]);
	if (lane->error.code && err)
		*err = lane->error;
	return lane->error.code;
}

/* With the mutex held: why a request failed. */
static int request_error(const struct lh_comm *comm, const struct lh_request *request,
			 struct lh_error *err)
{
	int rc = lane_error(comm, request->peer, err);

	return rc ? rc
		  : lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " (%s) has left epoch %" PRIu32,
			    request->peer, comm->names[request->peer], request->message.epoch);
}

/* With the mutex held: waits for a change; false past the deadline. */
static bool wait_for_change(struct lh_comm *comm, int64_t deadline_ns)
{
	struct timespec until = {.tv_sec = deadline_ns / LH_NS_PER_S,
				 .tv_nsec = deadline_ns % LH_NS_PER_S};

	if (deadline_ns == INT64_MAX)
		return pthread_cond_wait(&comm->changed, &comm->mutex) == 0;
	return pthread_cond_timedwait(&comm->changed, &comm->mutex, &until) != ETIMEDOUT;
}

/* With the mutex held. */
static bool is_left(const struct lh_comm *comm, const struct lh_request *request)
{
	return request->message.epoch < comm->n_left_epochs;
}

static int left_error(const struct lh_request *request, struct lh_error *err)
{
	return lh_fail(err, LH_ERUN, ECANCELED, "epoch %" PRIu32 " is given up",
		       request->message.epoch);
}

int lh_comm_wait(struct lh_comm *comm, struct lh_request *request, int64_t deadline_ns,
		 struct lh_error *err)
{
	bool is_late = false;
	int rc = 0;

	pthread_mutex_lock(&comm->mutex);
	while (request->state == LH_REQUEST_PENDING && !is_late && !is_left(comm, request) &&
	       !(comm->config.fails_together && comm->failure.code))
		is_late = !wait_for_change(comm, deadline_ns);
	if (comm->config.fails_together && comm->failure.code) {
		rc = comm->failure.code;
		if (err)
			*err = comm->failure;
	} else if (request->state == LH_REQUEST_FAILED) {
		rc = request_error(comm, request, err);
	} else if (request->state == LH_REQUEST_PENDING && is_left(comm, request)) {
		rc = left_error(request, err);
	} else if (request->state == LH_REQUEST_PENDING) {
		rc = lh_fail(err, LH_ERUN, ETIMEDOUT, "%s rank %" PRIu32 " (%s)",
			     request->is_send ? "sending to" : "receiving from", request->peer,
			     comm->names[request->peer]);
	}
	pthread_mutex_unlock(&comm->mutex);
	return rc;
}

/* With the mutex held: the first of them that ended, or n. */
static uint32_t first_ended(struct lh_request *const *requests, uint32_t n)
{
	uint32_t first = n;

	for (uint32_t i = 0; i < n; i++)
		if (requests[i] && requests[i]->state >= LH_REQUEST_DONE &&
		    (first == n || requests[i]->done_order < requests[first]->done_order))
			first = i;
	return first;
}

/* With the mutex held: one that is not waited for any more, or NULL. */
static const struct lh_request *first_left(const struct lh_comm *comm,
					   struct lh_request *const *requests, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (requests[i] && is_left(comm, requests[i]))
			return requests[i];
	return NULL;
}

int lh_comm_wait_any(struct lh_comm *comm, struct lh_request *const *requests, uint32_t n,
		     int64_t deadline_ns, uint32_t *ret_index, struct lh_error *err)
{
	const struct lh_request *left = NULL;
	bool is_late = false;
	uint32_t first;
	int rc = 0;

	pthread_mutex_lock(&comm->mutex);
	while ((first = first_ended(requests, n)) == n && !is_late &&
	       !(left = first_left(comm, requests, n)) &&
	       !(comm->config.fails_together && comm->failure.code))
		is_late = !wait_for_change(comm, deadline_ns);
	if (comm->config.fails_together && comm->failure.code) {
		rc = comm->failure.code;
		if (err)
			*err = comm->failure;
	} else if (first == n && left) {
		rc = left_error(left, err);
	} else if (first == n) {
		rc = lh_fail(err, LH_ERUN, ETIMEDOUT, "waiting for messages");
	} else {
		*ret_index = first;
	}
	pthread_mutex_unlock(&comm->mutex);
	return rc;
}

void lh_comm_leave(struct lh_comm *comm, uint32_t epoch)
{
	pthread_mutex_lock(&comm->mutex);
	if (comm->n_left_epochs <= epoch)
		comm->n_left_epochs = (uint64_t)epoch + 1;
	pthread_cond_broadcast(&comm->changed);
	pthread_mutex_unlock(&comm->mutex);
}

int lh_comm_lane_error(struct lh_comm *comm, uint32_t peer, struct lh_error *err)
{
	int rc;

	pthread_mutex_lock(&comm->mutex);
	rc = lane_error(comm, peer, err);
	pthread_mutex_unlock(&comm->mutex);
	return rc;
}

int lh_comm_check(struct lh_comm *comm, struct lh_error *err)
{
	int rc;

	pthread_mutex_lock(&comm->mutex);
	rc = comm->failure.code;
	if (rc && err)
		*err = comm->failure;
	pthread_mutex_unlock(&comm->mutex);
	return rc;
}

int lh_comm_failure_fd(const struct lh_comm *comm)
{
	return comm->failure_fd;
}

void lh_comm_take_bytes(struct lh_comm *comm, uint64_t *ret_sent, uint64_t *ret_received)
{
	pthread_mutex_lock(&comm->mutex);
	*ret_sent = comm->sent_bytes;
	*ret_received = comm->received_bytes;
	comm->sent_bytes = 0;
	comm->received_bytes = 0;
	pthread_mutex_unlock(&comm->mutex);
}
