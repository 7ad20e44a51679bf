/* SPDX-License-Identifier: Apache-2.0 */
/* Notices over a connection. See line.h. */
#include "trainer/elastic/line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trainer/clock.h"
#include "trainer/transport/tcp.h"

int lh_line_open(struct lh_line *line, int fd, struct lh_traffic *traffic, uint32_t peer,
		 struct lh_error *err)
{
	int rc = lh_tcp_set_blocking(fd, false, err);

	*line = (struct lh_line){.fd = fd, .traffic = traffic, .peer = peer};
	if (rc == 0 && !(line->in = malloc(LH_NOTICE_MAX_BYTES)))
		rc = lh_fail(err, LH_ESYS, ENOMEM, "open a line");
	if (rc)
		lh_line_close(line);
	return rc;
}

void lh_line_close(struct lh_line *line)
{
	if (line->fd >= 0)
		close(line->fd);
	free(line->in);
	free(line->out);
	*line = (struct lh_line){.fd = -1};
}

bool lh_line_has_out(const struct lh_line *line)
{
	return line->out_begin < line->out_end;
}

/* Sends as much as goes; how much in *ret_n. */
static int send_some(struct lh_line *line, const uint8_t *bytes, size_t size, size_t *ret_n,
		     struct lh_error *err)
{
	int64_t now_ns = lh_clock_now_ns();

	*ret_n = 0;
	while (*ret_n < size) {
		ssize_t n = send(line->fd, bytes + *ret_n, size - *ret_n, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return lh_fail(err, LH_ESYS, errno, "send");
		*ret_n += (size_t)n;
	}
	if (line->traffic && *ret_n)
		lh_traffic_add(line->traffic, line->peer, LH_TRAFFIC_CONTROL, now_ns, now_ns,
			       *ret_n);
	return 0;
}

int lh_line_flush(struct lh_line *line, struct lh_error *err)
{
	size_t n;
	int rc = send_some(line, line->out + line->out_begin, line->out_end - line->out_begin, &n,
			   err);

	line->out_begin += n;
	if (!lh_line_has_out(line))
		line->out_begin = line->out_end = 0;
	return rc;
}

static int keep(struct lh_line *line, const uint8_t *bytes, size_t size, struct lh_error *err)
{
	size_t used = line->out_end - line->out_begin;

	if (used + size > LH_LINE_OUT_MAX_BYTES)
		return lh_fail(err, LH_ERUN, 0, "the peer takes nothing any more");
	if (line->out_begin)
		memmove(line->out, line->out + line->out_begin, used);
	line->out_begin = 0;
	line->out_end = used;
	if (used + size > line->out_room) {
		size_t room = 2 * (used + size);
		uint8_t *grown = realloc(line->out, room);

		if (!grown)
			return lh_fail(err, LH_ESYS, ENOMEM, "keep a notice");
		line->out = grown;
		line->out_room = room;
	}
	memcpy(line->out + used, bytes, size);
	line->out_end += size;
	return 0;
}

int lh_line_send(struct lh_line *line, const struct lh_notice *notice, struct lh_error *err)
{
	uint8_t bytes[LH_NOTICE_MAX_BYTES];
	size_t size = lh_notice_bytes(notice), n = 0;
	int rc = 0;

	lh_notice_format(notice, bytes);
	if (!lh_line_has_out(line))
		rc = send_some(line, bytes, size, &n, err);
	return rc || n == size ? rc : keep(line, bytes + n, size - n, err);
}

/* How many bytes are needed before more is known: the frame, then all of it. */
static int wanted(const struct lh_line *line, size_t *ret_size, struct lh_error *err)
{
	*ret_size = LH_FRAME_BYTES;
	return line->have < LH_FRAME_BYTES ? 0 : lh_notice_measure(line->in, ret_size, err);
}

int lh_line_read(struct lh_line *line, struct lh_notice *ret_notice, struct lh_error *err)
{
	for (;;) {
		size_t size;
		ssize_t n;
		int rc = wanted(line, &size, err);

		if (rc)
			return rc;
		if (line->have == size) {
			line->have = 0;
			rc = lh_notice_parse(line->in, size, ret_notice, err);
			return rc ? rc : 1;
		}
		n = recv(line->fd, line->in + line->have, size - line->have, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return lh_fail(err, LH_ESYS, errno, "receive");
		if (n == 0)
			return lh_fail(err, LH_ERUN, 0, "the peer closed the connection");
		line->have += (size_t)n;
	}
}
