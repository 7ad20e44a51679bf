/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting the mesh: one thread, one poll over all connections that are coming up.
 *
 * The connector sends HELLO, the acceptor answers HELLO with its clock, the connector sends
 * CLOCK with the difference (its clock's reading is taken in the middle of the round trip).
 * See mesh.h.
 */
#include "trainer/transport/mesh.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/transport/frame.h"
#include "trainer/transport/tcp.h"

enum {
	/* Connections that came in and have not greeted yet, beyond the expected ones. */
	N_STRANGERS_MAX = 16,
};

static const int64_t RETRY_FIRST_NS = 10 * LH_NS_PER_MS;
static const int64_t RETRY_MAX_NS = LH_NS_PER_S;

enum link_state {
	LINK_FREE,
	LINK_WAITS, /* until retry_ns, to connect (again) */
	LINK_CONNECTS,
	LINK_AWAITS_HELLO,
	LINK_AWAITS_CLOCK,
	LINK_UP,
};

struct link {
	enum link_state state;
	int fd;
	bool is_connector;
	bool is_known; /* peer and channel hold */
	uint32_t peer;
	uint32_t channel;
	int64_t retry_ns;
	int64_t pause_ns;
	int64_t hello_ns; /* when HELLO was sent */
	int sys;	  /* why the last attempt failed */
	size_t have;	  /* bytes of the frame so far */
	uint8_t bytes[LH_FRAME_BYTES];
};

struct joiner {
	struct lh_mesh *mesh;
	int listen_fd;
	int64_t deadline_ns;
	size_t n_links;
	struct link *links;
	struct pollfd *polls; /* n_links + 1 */
	size_t n_up;
	const uint8_t *wanted; /* by peer; NULL: all */
	struct lh_error *err;
};

static bool is_wanted(const struct joiner *j, uint32_t peer, uint32_t channel)
{
	uint8_t bit = channel == LH_CHANNEL_CONTROL ? LH_MESH_CONTROL : LH_MESH_DATA;

	return peer != j->mesh->self && channel < j->mesh->n_channels &&
	       (!j->wanted || j->wanted[peer] & bit);
}

/* Connections between this rank and the ranks from first to end. */
static size_t count_wanted(const struct joiner *j, uint32_t first, uint32_t end)
{
	size_t n = 0;

	for (uint32_t peer = first; peer < end; peer++)
		for (uint32_t channel = 0; channel < j->mesh->n_channels; channel++)
			n += is_wanted(j, peer, channel);
	return n;
}

const char *lh_channel_name(uint32_t channel)
{
	return channel == LH_CHANNEL_CONTROL ? "control" : "data";
}

static int link_fail(const struct joiner *j, const struct link *link, const char *what)
{
	if (!link->is_known)
		return lh_fail(j->err, LH_ERUN, 0, "connection from outside: %s", what);
	return lh_fail(j->err, LH_ERUN, 0, "rank %" PRIu32 " (%s), %s connection: %s", link->peer,
		       j->mesh->job->ranks[link->peer].node, lh_channel_name(link->channel), what);
}

static void link_retry(struct link *link, int sys)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	link->sys = sys;
	link->state = LINK_WAITS;
	link->retry_ns = lh_clock_now_ns() + link->pause_ns;
	link->pause_ns = link->pause_ns * 2 < RETRY_MAX_NS ? link->pause_ns * 2 : RETRY_MAX_NS;
}

static int link_send(const struct joiner *j, struct link *link, enum lh_frame_type type,
		     int64_t time_ns)
{
	struct lh_frame frame = {.type = type,
				 .rank = (uint16_t)j->mesh->self,
				 .part = (uint16_t)link->channel,
				 .time_ns = time_ns,
				 .token = j->mesh->job->hash};
	uint8_t bytes[LH_FRAME_BYTES];

	lh_frame_format(&frame, bytes);
	return lh_tcp_send(link->fd, bytes, sizeof(bytes), false, j->err);
}

static int link_connect(const struct joiner *j, struct link *link)
{
	const struct lh_job_rank *me = &j->mesh->job->ranks[j->mesh->self];
	const struct lh_job_rank *peer = &j->mesh->job->ranks[link->peer];
	struct lh_error why = {0};

	if (lh_tcp_connect_start(&me->socket_address, &peer->socket_address,
				 peer->socket_address_size, &link->fd, &why)) {
		link_retry(link, why.sys);
		return 0;
	}
	link->state = LINK_CONNECTS;
	return 0;
}

static int link_connected(const struct joiner *j, struct link *link)
{
	int sys = 0;
	socklen_t size = sizeof(sys);
	int rc;

	if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &sys, &size))
		return lh_fail(j->err, LH_ESYS, errno, "read a socket's state");
	if (sys) {
		link_retry(link, sys);
		return 0;
	}
	rc = lh_tcp_set_options(link->fd, j->mesh->job->start_timeout_ns, j->err);
	link->hello_ns = lh_clock_now_ns();
	link->state = LINK_AWAITS_HELLO;
	return rc ? rc : link_send(j, link, LH_FRAME_HELLO, link->hello_ns);
}

static int link_up(struct joiner *j, struct link *link, int64_t clock_offset_ns)
{
	int rc = lh_tcp_set_blocking(link->fd, true, j->err);

	if (rc)
		return rc;
	j->mesh->fds[link->peer * j->mesh->n_channels + link->channel] = link->fd;
	if (link->channel == LH_CHANNEL_CONTROL)
		j->mesh->clock_offset_ns[link->peer] = clock_offset_ns;
	link->fd = -1;
	link->state = LINK_UP;
	j->n_up++;
	return 0;
}

/* The acceptor learns who it is that greets. */
static int link_identify(const struct joiner *j, struct link *link, const struct lh_frame *hello)
{
	if (hello->rank <= j->mesh->self || hello->rank >= j->mesh->n ||
	    !is_wanted(j, hello->rank, hello->part))
		return link_fail(j, link, "a greeting from an impossible rank or channel");
	link->peer = hello->rank;
	link->channel = hello->part;
	link->is_known = true;
	for (size_t i = 0; i < j->n_links; i++) {
		const struct link *other = &j->links[i];

		if (other != link && other->is_known && other->state != LINK_FREE &&
		    other->peer == link->peer && other->channel == link->channel)
			return link_fail(j, link, "greeted twice");
	}
	return 0;
}

static int link_hello(struct joiner *j, struct link *link, const struct lh_frame *hello)
{
	int64_t now_ns = lh_clock_now_ns();
	int64_t offset_ns;
	int rc;

	if (hello->type != LH_FRAME_HELLO)
		return link_fail(j, link, "expected a greeting");
	if (hello->token != j->mesh->job->hash)
		return link_fail(j, link, "its job file is not this one");
	if (!link->is_connector) {
		if ((rc = link_identify(j, link, hello)))
			return rc;
		link->state = LINK_AWAITS_CLOCK;
		return link_send(j, link, LH_FRAME_HELLO, now_ns);
	}
	if (hello->rank != link->peer || hello->part != link->channel)
		return link_fail(j, link, "another rank or channel answers there");
	offset_ns = hello->time_ns - (link->hello_ns + (now_ns - link->hello_ns) / 2);
	rc = link_send(j, link, LH_FRAME_CLOCK, offset_ns);
	return rc ? rc : link_up(j, link, offset_ns);
}

static int link_frame(struct joiner *j, struct link *link)
{
	struct lh_error why = {0};
	struct lh_frame frame;

	if (lh_frame_parse(link->bytes, &frame, &why))
		return link_fail(j, link, why.message);
	if (link->state == LINK_AWAITS_HELLO)
		return link_hello(j, link, &frame);
	if (frame.type != LH_FRAME_CLOCK || frame.rank != link->peer)
		return link_fail(j, link, "expected the end of a greeting");
	return link_up(j, link, -frame.time_ns);
}

/* Reads what has come of the frame, never beyond it: the next bytes belong to others. */
static int link_read(struct joiner *j, struct link *link)
{
	ssize_t n = recv(link->fd, link->bytes + link->have, LH_FRAME_BYTES - link->have, 0);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0 && !link->is_known) {
		/* A stranger that says nothing and goes does no harm. */
		close(link->fd);
		link->fd = -1;
		link->state = LINK_FREE;
		link->have = 0;
		return 0;
	}
	if (n < 0)
		return link_fail(j, link, strerror(errno));
	if (n == 0)
		return link_fail(j, link, "closed during the greeting; see that rank's error");
	link->have += (size_t)n;
	if (link->have < LH_FRAME_BYTES)
		return 0;
	link->have = 0;
	return link_frame(j, link);
}

static int accept_all(struct joiner *j)
{
	for (size_t i = 0; i < j->n_links; i++) {
		struct link *link = &j->links[i];
		int rc;

		if (link->state != LINK_FREE)
			continue;
		link->fd = accept4(j->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (link->fd < 0)
			return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR
				       ? 0
				       : lh_fail(j->err, LH_ESYS, errno, "accept");
		link->state = LINK_AWAITS_HELLO;
		link->is_known = false;
		if ((rc = lh_tcp_set_options(link->fd, j->mesh->job->start_timeout_ns, j->err)))
			return rc;
	}
	return 0;
}

/* Sets up what to poll for; returns until when. */
static int64_t prepare_polls(struct joiner *j)
{
	int64_t until_ns = j->deadline_ns;
	bool has_room = false;

	for (size_t i = 0; i < j->n_links; i++) {
		const struct link *link = &j->links[i];

		j->polls[i] = (struct pollfd){.fd = link->fd, .events = POLLIN};
		if (link->state == LINK_CONNECTS)
			j->polls[i].events = POLLOUT;
		if (link->state == LINK_WAITS && link->retry_ns < until_ns)
			until_ns = link->retry_ns;
		has_room = has_room || link->state == LINK_FREE;
	}
	j->polls[j->n_links] =
		(struct pollfd){.fd = has_room ? j->listen_fd : -1, .events = POLLIN};
	return until_ns;
}

static bool is_missing(const struct joiner *j, uint32_t peer)
{
	for (uint32_t channel = 0; channel < j->mesh->n_channels; channel++)
		if (is_wanted(j, peer, channel) && lh_mesh_fd(j->mesh, peer, channel) < 0)
			return true;
	return false;
}

static int late(const struct joiner *j)
{
	const struct lh_job *job = j->mesh->job;

	for (uint32_t peer = 0; peer < j->mesh->n; peer++) {
		int sys = 0;

		if (!is_missing(j, peer))
			continue;
		for (size_t i = 0; i < j->n_links; i++)
			if (j->links[i].is_connector && j->links[i].peer == peer)
				sys = j->links[i].sys;
		return lh_fail(j->err, LH_ERUN, sys,
			       "no connection with rank %" PRIu32 " (%s, %s port %u) within %.3f s",
			       peer, job->ranks[peer].node, job->ranks[peer].address,
			       job->ranks[peer].port,
			       (double)job->start_timeout_ns / (double)LH_NS_PER_S);
	}
	return lh_fail(j->err, LH_ERUN, 0, "the peers did not connect in time");
}

static int link_turn(struct joiner *j, struct link *link, short revents, int64_t now_ns)
{
	if (link->state == LINK_WAITS && now_ns >= link->retry_ns)
		return link_connect(j, link);
	if (!revents)
		return 0;
	if (link->state == LINK_CONNECTS)
		return link_connected(j, link);
	if (link->state == LINK_AWAITS_HELLO || link->state == LINK_AWAITS_CLOCK)
		return link_read(j, link);
	return 0;
}

static int join_all(struct joiner *j)
{
	size_t n_wanted = count_wanted(j, 0, j->mesh->n);
	int rc = 0;

	while (rc == 0 && j->n_up < n_wanted) {
		int64_t until_ns = prepare_polls(j), now_ns = lh_clock_now_ns();
		int64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
		struct timespec wait = {.tv_sec = wait_ns / LH_NS_PER_S,
					.tv_nsec = wait_ns % LH_NS_PER_S};

		if (now_ns >= j->deadline_ns)
			return late(j);
		if (ppoll(j->polls, j->n_links + 1, &wait, NULL) < 0 && errno != EINTR)
			return lh_fail(j->err, LH_ESYS, errno, "poll");
		now_ns = lh_clock_now_ns();
		for (size_t i = 0; rc == 0 && i < j->n_links; i++)
			rc = link_turn(j, &j->links[i], j->polls[i].revents, now_ns);
		if (rc == 0 && j->polls[j->n_links].revents)
			rc = accept_all(j);
	}
	return rc;
}

static void prepare_links(struct joiner *j)
{
	size_t i = 0;

	for (uint32_t peer = 0; peer < j->mesh->self; peer++)
		for (uint32_t channel = 0; channel < j->mesh->n_channels; channel++)
			if (is_wanted(j, peer, channel))
				j->links[i++] = (struct link){.state = LINK_WAITS,
							      .fd = -1,
							      .peer = peer,
							      .channel = channel,
							      .is_connector = true,
							      .is_known = true,
							      .pause_ns = RETRY_FIRST_NS};
	for (; i < j->n_links; i++)
		j->links[i] = (struct link){.state = LINK_FREE, .fd = -1};
}

static int alloc_mesh(const struct lh_job *job, uint32_t self, uint32_t n_streams,
		      struct lh_mesh *ret_mesh, struct lh_error *err)
{
	size_t n_fds = (size_t)job->n_ranks * (1 + n_streams);

	*ret_mesh = (struct lh_mesh){
		.job = job, .self = self, .n = job->n_ranks, .n_channels = 1 + n_streams};
	ret_mesh->fds = malloc(n_fds * sizeof(*ret_mesh->fds));
	ret_mesh->clock_offset_ns = calloc(job->n_ranks, sizeof(*ret_mesh->clock_offset_ns));
	if (!ret_mesh->fds || !ret_mesh->clock_offset_ns) {
		free(ret_mesh->fds);
		free(ret_mesh->clock_offset_ns);
		*ret_mesh = (struct lh_mesh){0};
		return lh_fail(err, LH_ESYS, ENOMEM, "connect");
	}
	memset(ret_mesh->fds, -1, n_fds * sizeof(*ret_mesh->fds));
	return 0;
}

int lh_mesh_open(const struct lh_job *job, uint32_t self, uint32_t n_streams, const uint8_t *wanted,
		 struct lh_mesh *ret_mesh, struct lh_error *err)
{
	const struct lh_job_rank *me = &job->ranks[self];
	struct joiner j = {.mesh = ret_mesh,
			   .listen_fd = -1,
			   .wanted = wanted,
			   .err = err,
			   .deadline_ns = lh_clock_now_ns() + job->start_timeout_ns};
	int rc;

	assert(self < job->n_ranks);
	if ((rc = alloc_mesh(job, self, n_streams, ret_mesh, err)))
		return rc;
	if (count_wanted(&j, 0, job->n_ranks) == 0)
		return 0;
	j.n_links = count_wanted(&j, 0, job->n_ranks) + N_STRANGERS_MAX;
	j.links = calloc(j.n_links, sizeof(*j.links));
	j.polls = calloc(j.n_links + 1, sizeof(*j.polls));
	if (!j.links || !j.polls) {
		rc = lh_fail(err, LH_ESYS, ENOMEM, "connect");
		goto out;
	}
	prepare_links(&j);
	rc = lh_tcp_listen((const struct sockaddr *)&me->socket_address, me->socket_address_size,
			   (int)j.n_links, &j.listen_fd, err);
	if (rc == 0)
		rc = join_all(&j);
	for (size_t i = 0; i < j.n_links; i++)
		if (j.links[i].fd >= 0)
			close(j.links[i].fd);
	if (j.listen_fd >= 0)
		close(j.listen_fd);
out:
	free(j.links);
	free(j.polls);
	if (rc)
		lh_mesh_close(ret_mesh);
	return rc;
}

void lh_mesh_shutdown(struct lh_mesh *mesh)
{
	for (uint32_t i = 0; i < mesh->n * mesh->n_channels; i++)
		if (mesh->fds[i] >= 0)
			shutdown(mesh->fds[i], SHUT_RDWR);
}

void lh_mesh_close(struct lh_mesh *mesh)
{
	for (uint32_t i = 0; i < mesh->n * mesh->n_channels; i++)
		if (mesh->fds[i] >= 0)
			close(mesh->fds[i]);
	free(mesh->fds);
	free(mesh->clock_offset_ns);
	*mesh = (struct lh_mesh){0};
}
