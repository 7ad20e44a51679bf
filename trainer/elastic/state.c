/* SPDX-License-Identifier: Apache-2.0 */
/* A training's state between ranks. See state.h. */
#include "trainer/elastic/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/elastic/door.h"
#include "trainer/transport/tcp.h"

enum {
	BLOCK_BYTES = 1 << 18, /* that a system call moves */
	THREAD_STACK_BYTES = 256 << 10,
};

/* FNV-1a, by words of eight bytes and then by bytes. */
static uint64_t checksum(const uint8_t *bytes, uint64_t size)
{
	uint64_t hash = 0xcbf29ce484222325u, word, i = 0;

	for (; i + sizeof(word) <= size; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3u;
	}
	for (; i < size; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

/* ---- the donor ---------------------------------------------------------------------------- */

struct lh_state_sender {
	struct lh_rank *rank;
	uint32_t peer;
	int fd;
	struct lh_frame head;
	uint8_t *real;	/* head.samples bytes */
	uint8_t *block; /* BLOCK_BYTES of filler */
	pthread_t thread;
	bool is_done; /* atomic */
};

static int send_counted(struct lh_state_sender *s, const uint8_t *bytes, size_t size,
			enum lh_traffic_kind kind)
{
	int64_t begin_ns = lh_clock_now_ns();

	if (lh_tcp_send(s->fd, bytes, size, false, NULL))
		return -1;
	lh_traffic_add(s->rank->traffic, s->peer, kind, begin_ns, lh_clock_now_ns(), size);
	return 0;
}

static size_t block_of(uint64_t left)
{
	return left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
}

static void *send_state(void *arg)
{
	struct lh_state_sender *s = arg;
	uint8_t head[LH_FRAME_BYTES];
	int failed;

	lh_frame_format(&s->head, head);
	failed = send_counted(s, head, sizeof(head), LH_TRAFFIC_HEADER);
	for (uint64_t at = 0; !failed && at < s->head.length;) {
		bool is_real = at < s->head.samples;
		size_t n = block_of((is_real ? s->head.samples : s->head.length) - at);

		failed = send_counted(s, is_real ? s->real + at : s->block, n, LH_TRAFFIC_PAYLOAD);
		at += n;
	}
	shutdown(s->fd, SHUT_WR);
	__atomic_store_n(&s->is_done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void free_sender(struct lh_state_sender *s)
{
	close(s->fd);
	free(s->real);
	free(s->block);
	free(s);
}

void lh_state_reap(struct lh_state_senders *senders, bool is_final)
{
	for (size_t i = 0; i < LH_STATE_SENDERS_MAX; i++) {
		struct lh_state_sender *s = senders->senders[i];

		if (!s || (!is_final && !__atomic_load_n(&s->is_done, __ATOMIC_ACQUIRE)))
			continue;
		if (is_final)
			shutdown(s->fd, SHUT_RDWR);
		pthread_join(s->thread, NULL);
		free_sender(s);
		senders->senders[i] = NULL;
	}
}

/* Copies the state. */
static int prepare(struct lh_state_sender *s, uint32_t epoch, struct lh_error *err)
{
	const struct lh_compute_ops *compute = s->rank->compute;
	uint64_t n_real, n = compute->state_bytes(s->rank->computing, &n_real);
	int rc = 0;

	s->real = malloc(n_real ? n_real : 1);
	s->block = calloc(1, BLOCK_BYTES);
	if (!s->real || !s->block)
		return lh_fail(err, LH_ESYS, ENOMEM, "give a state of %" PRIu64 " bytes", n_real);
	if (n_real)
		rc = compute->read_state(s->rank->computing, s->real, err);
	s->head = (struct lh_frame){
		.type = LH_FRAME_DATA,
		.rank = (uint16_t)s->rank->self,
		.epoch = epoch,
		.samples = n_real,
		.length = n,
		.token = checksum(s->real, n_real),
	};
	return rc;
}

static int start_thread(struct lh_state_sender *s)
{
	pthread_attr_t attr;
	int sys = pthread_attr_init(&attr);

	if (sys)
		return sys;
	pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	sys = pthread_create(&s->thread, &attr, send_state, s);
	pthread_attr_destroy(&attr);
	return sys;
}

int lh_state_give(struct lh_state_senders *senders, const struct lh_visitor *visitor,
		  uint32_t epoch, struct lh_error *err)
{
	struct lh_state_sender *s;
	size_t place = 0;
	int rc, sys;

	lh_state_reap(senders, false);
	while (place < LH_STATE_SENDERS_MAX && senders->senders[place])
		place++;
	if (place == LH_STATE_SENDERS_MAX) {
		close(visitor->fd);
		return 0;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		close(visitor->fd);
		return lh_fail(err, LH_ESYS, ENOMEM, "give a state");
	}
	s->rank = senders->rank;
	s->peer = visitor->hello.rank;
	s->fd = visitor->fd;
	rc = prepare(s, epoch, err);
	if (rc == 0 && (sys = start_thread(s)))
		rc = lh_fail(err, LH_ESYS, sys, "start a thread");
	if (rc)
		free_sender(s);
	else
		senders->senders[place] = s;
	return rc;
}

/* ---- who joins ---------------------------------------------------------------------------- */

struct loading {
	struct lh_rank *rank;
	struct lh_mailbox *mailbox;
	uint32_t donor;
	uint32_t epoch; /* at least */
	int64_t deadline_ns;
	int fd;
	struct lh_frame head;
	uint8_t *real;
	struct lh_error *err;
};

static int bad(const struct loading *l, int sys, const char *what)
{
	return lh_fail(l->err, LH_ERUN, sys, "loading the state of rank %" PRIu32 " (%s): %s",
		       l->donor, l->rank->job->ranks[l->donor].node, what);
}

/* Whether something has come that matters more than this. */
static bool is_interrupted(const struct loading *l)
{
	bool has_notices;

	pthread_mutex_lock(&l->mailbox->mutex);
	has_notices = l->mailbox->n_notices || l->mailbox->lost.code;
	pthread_mutex_unlock(&l->mailbox->mutex);
	return has_notices;
}

/* Waits until the socket is ready. */
static int wait_for(const struct loading *l, short events)
{
	struct pollfd polls[2] = {{.fd = l->fd, .events = events},
				  {.fd = l->mailbox->wake_fd, .events = POLLIN}};

	for (;;) {
		lh_clock_poll_until(polls, 2, l->deadline_ns);
		if (polls[1].revents)
			lh_mailbox_wake(l->mailbox);
		if (is_interrupted(l))
			return bad(l, ECANCELED, "given up");
		if (polls[0].revents)
			return 0;
		if (lh_clock_now_ns() >= l->deadline_ns)
			return bad(l, ETIMEDOUT, "took too long");
	}
}

/* Receives exactly size bytes, or drops them where bytes is NULL. */
static int receive(const struct loading *l, uint8_t *bytes, uint64_t size)
{
	while (size) {
		ssize_t n = recv(l->fd, bytes, (size_t)size,
				 bytes ? MSG_DONTWAIT : MSG_DONTWAIT | MSG_TRUNC);
		int rc;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return bad(l, errno, "receive");
		if (n == 0)
			return bad(l, 0, "it closed the connection");
		if (n < 0 && (rc = wait_for(l, POLLIN)))
			return rc;
		if (n > 0) {
			size -= (uint64_t)n;
			bytes = bytes ? bytes + n : NULL;
		}
	}
	return 0;
}

static int receive_head(struct loading *l)
{
	const struct lh_compute_ops *compute = l->rank->compute;
	uint64_t n_real, n = compute->state_bytes(l->rank->computing, &n_real);
	uint8_t bytes[LH_FRAME_BYTES];
	int rc = receive(l, bytes, sizeof(bytes));

	if (rc || (rc = lh_frame_parse(bytes, &l->head, l->err)))
		return rc;
	if (l->head.type != LH_FRAME_DATA || l->head.rank != l->donor || l->head.epoch < l->epoch ||
	    l->head.length != n || l->head.samples != n_real)
		return bad(l, 0, "it sends something else");
	l->real = malloc(n_real ? n_real : 1);
	return l->real ? 0 : lh_fail(l->err, LH_ESYS, ENOMEM, "load a state");
}

static int load(struct loading *l)
{
	const struct lh_rank *rank = l->rank;
	int rc = wait_for(l, POLLOUT);

	if (rc == 0 &&
	    lh_door_greet(rank->job, rank->self, l->fd, LH_DOOR_STATE, l->epoch, 0, l->err))
		rc = bad(l, l->err->sys, "cannot be reached");
	if (rc == 0)
		rc = receive_head(l);
	if (rc == 0)
		rc = receive(l, l->real, l->head.samples);
	if (rc == 0)
		rc = receive(l, NULL, l->head.length - l->head.samples);
	if (rc == 0 && checksum(l->real, l->head.samples) != l->head.token)
		rc = bad(l, 0, "a wrong checksum");
	if (rc == 0 && l->head.samples)
		rc = rank->compute->write_state(rank->computing, l->real, l->err);
	return rc;
}

int lh_state_load(struct lh_rank *rank, struct lh_mailbox *mailbox, uint32_t donor, uint32_t epoch,
		  int64_t deadline_ns, struct lh_state_loaded *ret_loaded, struct lh_error *err)
{
	struct loading l = {.rank = rank,
			    .mailbox = mailbox,
			    .donor = donor,
			    .epoch = epoch,
			    .deadline_ns = deadline_ns,
			    .err = err};
	int rc = lh_door_call(rank->job, rank->self, donor, &l.fd, err);

	if (rc)
		return rc;
	rc = load(&l);
	close(l.fd);
	free(l.real);
	if (rc == 0)
		*ret_loaded =
			(struct lh_state_loaded){l.head.epoch, LH_FRAME_BYTES + l.head.length};
	return rc;
}
