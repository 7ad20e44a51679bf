/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes to a rank. See door.h. */
#include "trainer/elastic/door.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "trainer/clock.h"
#include "trainer/transport/comm.h"
#include "trainer/transport/tcp.h"

enum { VISITORS_MAX = 256, THREAD_STACK_BYTES = 256 << 10 };

static const int64_t GREETING_NS = 20 * LH_NS_PER_S;

struct visitor {
	int fd; /* -1: nobody */
	int64_t until_ns;
	size_t have;
	uint8_t bytes[LH_FRAME_BYTES];
};

struct lh_door {
	struct lh_door_config config;
	int listen_fd;
	int end_fd; /* readable: end */
	bool has_thread;
	pthread_t thread;
	struct visitor visitors[VISITORS_MAX];
	struct pollfd polls[VISITORS_MAX + 2];
};

static void send_away(struct visitor *v)
{
	close(v->fd);
	v->fd = -1;
}

static void hand_over(struct lh_door *door, struct visitor *v)
{
	const struct lh_job *job = door->config.job;
	struct lh_frame hello;

	if (lh_frame_parse(v->bytes, &hello, NULL) || hello.type != LH_FRAME_HELLO ||
	    hello.token != job->hash || hello.rank >= job->n_ranks ||
	    hello.part >= LH_DOOR_DATA + LH_COMM_STREAMS_MAX ||
	    lh_tcp_set_options(v->fd, 0, NULL) || lh_tcp_set_blocking(v->fd, true, NULL)) {
		send_away(v);
		return;
	}
	door->config.take(door->config.context, v->fd, &hello);
	v->fd = -1;
}

/* Reads what has come of the greeting, never beyond it. */
static void listen_to(struct lh_door *door, struct visitor *v)
{
	ssize_t n = recv(v->fd, v->bytes + v->have, LH_FRAME_BYTES - v->have, 0);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		send_away(v);
		return;
	}
	v->have += (size_t)n;
	if (v->have == LH_FRAME_BYTES)
		hand_over(door, v);
}

/* Lets one in; whoever comes while the house is full takes the place of the first. */
static void let_in(struct lh_door *door, int64_t now_ns)
{
	int fd = accept4(door->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct visitor *place = &door->visitors[0];

	if (fd < 0)
		return;
	for (size_t i = 0; i < VISITORS_MAX && place->fd >= 0; i++)
		if (door->visitors[i].fd < 0 || door->visitors[i].until_ns < place->until_ns)
			place = &door->visitors[i];
	if (place->fd >= 0)
		send_away(place);
	*place = (struct visitor){.fd = fd, .until_ns = now_ns + GREETING_NS};
}

static int64_t prepare_polls(struct lh_door *door)
{
	int64_t until_ns = INT64_MAX;

	for (size_t i = 0; i < VISITORS_MAX; i++) {
		const struct visitor *v = &door->visitors[i];

		door->polls[i] = (struct pollfd){.fd = v->fd, .events = POLLIN};
		if (v->fd >= 0 && v->until_ns < until_ns)
			until_ns = v->until_ns;
	}
	door->polls[VISITORS_MAX] = (struct pollfd){.fd = door->listen_fd, .events = POLLIN};
	door->polls[VISITORS_MAX + 1] = (struct pollfd){.fd = door->end_fd, .events = POLLIN};
	return until_ns;
}

static void *keep_door(void *arg)
{
	struct lh_door *door = arg;

	for (;;) {
		int64_t now_ns;

		lh_clock_poll_until(door->polls, VISITORS_MAX + 2, prepare_polls(door));
		now_ns = lh_clock_now_ns();
		if (door->polls[VISITORS_MAX + 1].revents)
			break;
		for (size_t i = 0; i < VISITORS_MAX; i++) {
			struct visitor *v = &door->visitors[i];

			if (v->fd >= 0 && door->polls[i].revents)
				listen_to(door, v);
			if (v->fd >= 0 && v->until_ns <= now_ns)
				send_away(v);
		}
		if (door->polls[VISITORS_MAX].revents)
			let_in(door, now_ns);
	}
	return NULL;
}

static int start_thread(struct lh_door *door)
{
	pthread_attr_t attr;
	int sys = pthread_attr_init(&attr);

	if (sys)
		return sys;
	pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
	sys = pthread_create(&door->thread, &attr, keep_door, door);
	door->has_thread = sys == 0;
	pthread_attr_destroy(&attr);
	return sys;
}

int lh_door_open(const struct lh_door_config *config, struct lh_door **ret_door,
		 struct lh_error *err)
{
	const struct lh_job_rank *me = &config->job->ranks[config->self];
	struct lh_door *door = calloc(1, sizeof(*door));
	int rc, sys;

	if (!door)
		return lh_fail(err, LH_ESYS, ENOMEM, "listen");
	door->config = *config;
	door->listen_fd = -1;
	for (size_t i = 0; i < VISITORS_MAX; i++)
		door->visitors[i].fd = -1;
	door->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = door->end_fd < 0
		     ? lh_fail(err, LH_ESYS, errno, "eventfd")
		     : lh_tcp_listen((const struct sockaddr *)&me->socket_address,
				     me->socket_address_size, VISITORS_MAX, &door->listen_fd, err);
	if (rc == 0 && (sys = start_thread(door)))
		rc = lh_fail(err, LH_ESYS, sys, "start a thread");
	if (rc) {
		lh_door_close(door);
		return rc;
	}
	*ret_door = door;
	return 0;
}

void lh_door_close(struct lh_door *door)
{
	uint64_t one = 1;

	if (!door)
		return;
	if (door->has_thread && write(door->end_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(door->thread, NULL);
	for (size_t i = 0; i < VISITORS_MAX; i++)
		if (door->visitors[i].fd >= 0)
			close(door->visitors[i].fd);
	if (door->listen_fd >= 0)
		close(door->listen_fd);
	if (door->end_fd >= 0)
		close(door->end_fd);
	free(door);
}

int lh_door_call(const struct lh_job *job, uint32_t self, uint32_t peer, int *ret_fd,
		 struct lh_error *err)
{
	const struct lh_job_rank *me = &job->ranks[self], *other = &job->ranks[peer];

	return lh_tcp_connect_start(&me->socket_address, &other->socket_address,
				    other->socket_address_size, ret_fd, err);
}

int lh_door_greet(const struct lh_job *job, uint32_t self, int fd, uint16_t part, uint32_t epoch,
		  uint64_t samples, struct lh_error *err)
{
	struct lh_frame hello = {.type = LH_FRAME_HELLO,
				 .rank = (uint16_t)self,
				 .part = part,
				 .epoch = epoch,
				 .samples = samples,
				 .token = job->hash};
	uint8_t bytes[LH_FRAME_BYTES];
	int sys = 0, rc;
	socklen_t size = sizeof(sys);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &size))
		return lh_fail(err, LH_ESYS, errno, "read a socket's state");
	if (sys)
		return lh_fail(err, LH_ESYS, sys, "connect");
	lh_frame_format(&hello, bytes);
	if ((rc = lh_tcp_set_options(fd, 0, err)) || (rc = lh_tcp_set_blocking(fd, true, err)))
		return rc;
	return lh_tcp_send(fd, bytes, sizeof(bytes), false, err);
}
