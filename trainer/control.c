/* SPDX-License-Identifier: Apache-2.0 */
/* The control connections. See control.h. */
#include "trainer/control.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "trainer/clock.h"
#include "trainer/transport/tcp.h"

enum { READ_FRAMES = 32 };

void lh_control_init(struct lh_control *control, struct lh_mesh *mesh, struct lh_traffic *traffic,
		     struct lh_progress *progress)
{
	memset(control, 0, sizeof(*control));
	control->mesh = mesh;
	control->traffic = traffic;
	control->progress = progress;
	control->failure_fd = -1;
	for (uint32_t peer = 0; peer < mesh->n; peer++)
		control->polls[peer] = (struct pollfd){
			.fd = lh_mesh_fd(mesh, peer, LH_CHANNEL_CONTROL), .events = POLLIN};
}

static int peer_error(const struct lh_control *control, uint32_t peer, struct lh_error *err)
{
	return lh_error_prefix(err, "rank %" PRIu32 " (%s), control connection", peer,
			       control->mesh->job->ranks[peer].node);
}

static int send_frame(struct lh_control *control, uint32_t peer, const struct lh_frame *frame,
		      bool is_urgent, int64_t now_ns, struct lh_error *err)
{
	int fd = lh_mesh_fd(control->mesh, peer, LH_CHANNEL_CONTROL);
	uint8_t bytes[LH_FRAME_BYTES];
	ssize_t n = 0;

	lh_frame_format(frame, bytes);
	if (!is_urgent) {
		n = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0) {
			lh_fail(err, LH_ESYS, errno, "send");
			return peer_error(control, peer, err);
		}
	}
	if (lh_tcp_send(fd, bytes + n, sizeof(bytes) - (size_t)n, false, err))
		return peer_error(control, peer, err);
	lh_traffic_add(control->traffic, peer, LH_TRAFFIC_CONTROL, now_ns, now_ns, sizeof(bytes));
	return 0;
}

static int send_all(struct lh_control *control, const struct lh_frame *frame, bool is_urgent,
		    int64_t now_ns, struct lh_error *err)
{
	int rc = 0;

	for (uint32_t peer = 0; rc == 0 && peer < control->mesh->n; peer++)
		if (peer != control->mesh->self)
			rc = send_frame(control, peer, frame, is_urgent, now_ns, err);
	return rc;
}

int lh_control_tell(struct lh_control *control, bool is_urgent, int64_t now_ns,
		    struct lh_error *err)
{
	const struct lh_progress *p = control->progress;
	const struct lh_progress_news *mine = &p->news[p->self];
	struct lh_frame frame = {
		.type = LH_FRAME_PROGRESS,
		.flags = (uint16_t)((mine->is_stopped ? LH_FRAME_STOPPED : 0) |
				    (mine->is_joined ? LH_FRAME_JOINED : 0)),
		.rank = (uint16_t)p->self,
		.epoch = p->epoch,
		.samples = mine->samples,
		.time_ns = mine->at_ns,
		.step_ns = p->step_ns[p->self],
	};

	return send_all(control, &frame, is_urgent, now_ns, err);
}

static int take_frame(struct lh_control *control, uint32_t peer, int64_t now_ns,
		      struct lh_error *err)
{
	struct lh_control_peer *from = &control->peers[peer];
	struct lh_progress_news news;
	struct lh_frame frame;
	int rc = lh_frame_parse(from->bytes, &frame, err);

	if (rc)
		return rc;
	if (frame.rank != peer || from->is_gone)
		return lh_fail(err, LH_ERUN, 0, "a frame out of place");
	if (frame.type == LH_FRAME_BYE) {
		if (control->progress->epoch + 1 < control->mesh->job->epochs)
			return lh_fail(err, LH_ERUN, 0, "a goodbye before the last epoch");
		from->is_gone = true;
		return 0;
	}
	if (frame.type != LH_FRAME_PROGRESS)
		return lh_fail(err, LH_ERUN, 0, "a frame of type %d; expected news", frame.type);
	news = (struct lh_progress_news){
		.samples = frame.samples,
		.at_ns = frame.time_ns - control->mesh->clock_offset_ns[peer],
		.is_stopped = frame.flags & LH_FRAME_STOPPED,
		.is_joined = frame.flags & LH_FRAME_JOINED,
	};
	return lh_progress_note(control->progress, peer, frame.epoch, &news, frame.step_ns, now_ns,
				err);
}

static int take_bytes(struct lh_control *control, uint32_t peer, const uint8_t *bytes, size_t size,
		      int64_t now_ns, struct lh_error *err)
{
	struct lh_control_peer *from = &control->peers[peer];

	while (size) {
		size_t missing = LH_FRAME_BYTES - from->have;
		size_t part = missing < size ? missing : size;
		int rc;

		memcpy(from->bytes + from->have, bytes, part);
		from->have += part;
		bytes += part;
		size -= part;
		if (from->have < LH_FRAME_BYTES)
			return 0;
		from->have = 0;
		if ((rc = take_frame(control, peer, now_ns, err)))
			return rc;
	}
	return 0;
}

static int read_peer(struct lh_control *control, uint32_t peer, int64_t now_ns,
		     struct lh_error *err)
{
	uint8_t bytes[LH_FRAME_BYTES * READ_FRAMES];
	ssize_t n;

	do {
		n = recv(control->polls[peer].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			lh_fail(err, LH_ESYS, errno, "receive");
		else if (n == 0)
			lh_fail(err, LH_ERUN, 0, "the peer closed the connection");
		if (n <= 0 || take_bytes(control, peer, bytes, (size_t)n, now_ns, err))
			return peer_error(control, peer, err);
	} while ((size_t)n == sizeof(bytes));
	return 0;
}

/* Polls for at most wait (NULL: no end) and takes in what has come, in rank order. */
static int poll_and_take(struct lh_control *control, const struct timespec *wait,
			 struct lh_error *err)
{
	uint32_t n = control->mesh->n;
	int64_t now_ns;
	int n_ready;

	for (uint32_t peer = 0; peer < n; peer++)
		if (control->peers[peer].is_gone)
			control->polls[peer].fd = -1;
	control->polls[n] = (struct pollfd){.fd = control->failure_fd, .events = POLLIN};
	n_ready = ppoll(control->polls, n + 1, wait, NULL);
	if (n_ready < 0 && errno != EINTR)
		return lh_fail(err, LH_ESYS, errno, "poll");
	if (n_ready <= 0)
		return 0;
	now_ns = lh_clock_now_ns();
	for (uint32_t peer = 0; peer < n; peer++) {
		int rc = control->polls[peer].revents ? read_peer(control, peer, now_ns, err) : 0;

		if (rc)
			return rc;
	}
	return 0;
}

int lh_control_read(struct lh_control *control, struct lh_error *err)
{
	static const struct timespec at_once = {0};

	return poll_and_take(control, &at_once, err);
}

int lh_control_wait(struct lh_control *control, int64_t until_ns, struct lh_error *err)
{
	int64_t wait_ns = until_ns == INT64_MAX ? 0 : until_ns - lh_clock_now_ns();
	struct timespec wait = {0};

	if (wait_ns > 0)
		wait = (struct timespec){.tv_sec = wait_ns / LH_NS_PER_S,
					 .tv_nsec = wait_ns % LH_NS_PER_S};
	return poll_and_take(control, until_ns == INT64_MAX ? NULL : &wait, err);
}

int lh_control_part(struct lh_control *control, struct lh_error *err)
{
	struct lh_frame frame = {.type = LH_FRAME_BYE,
				 .rank = (uint16_t)control->mesh->self,
				 .time_ns = lh_clock_now_ns()};
	int rc = send_all(control, &frame, true, frame.time_ns, err);

	for (uint32_t peer = 0; rc == 0 && peer < control->mesh->n;) {
		if (peer == control->mesh->self || control->peers[peer].is_gone)
			peer++;
		else
			rc = lh_control_wait(control, INT64_MAX, err);
	}
	return rc;
}
