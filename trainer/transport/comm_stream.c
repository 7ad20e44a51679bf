/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a stream, which move pieces. See comm.h. */
#include <errno.h>
#include <inttypes.h>
#include <sys/sendfile.h>

#include "trainer/clock.h"
#include "trainer/transport/comm_internal.h"
#include "trainer/transport/frame.h"
#include "trainer/transport/tcp.h"

/* Where a piece lies in its message. */
struct extent {
	uint64_t at;
	uint64_t length;
	uint32_t head_bytes;
};

static uint64_t cut(uint64_t length, uint32_t i, uint32_t n)
{
	__extension__ typedef unsigned __int128 wide;

	return (uint64_t)((wide)length * i / n);
}

static struct extent extent_of(const struct lh_message *m, uint32_t i, uint32_t n)
{
	struct extent e = {.at = cut(m->length, i, n)};
	uint64_t end = cut(m->length, i + 1, n);

	e.length = end - e.at;
	if (m->head_bytes > e.at)
		e.head_bytes = (uint32_t)((m->head_bytes < end ? m->head_bytes : end) - e.at);
	return e;
}

uint32_t lh_comm_n_pieces(const struct lh_message *message, uint32_t n_streams)
{
	uint64_t most = message->length / LH_COMM_PIECE_MIN_BYTES;

	if (message->is_variable || most < 2)
		return 1;
	return most < n_streams ? (uint32_t)most : n_streams;
}

static void count(struct lh_lane *lane, enum lh_traffic_kind kind, int64_t begin_ns, int64_t end_ns,
		  uint64_t bytes)
{
	struct lh_comm *comm = lane->comm;

	lh_traffic_add(comm->config.traffic, lane->peer, kind, begin_ns, end_ns, bytes);
}

static int send_head(struct lh_stream *s, const uint8_t *head, uint64_t size, bool is_more,
		     struct lh_error *err)
{
	int rc = 0;

	while (rc == 0 && size) {
		size_t part = size < LH_COMM_BLOCK_BYTES ? (size_t)size : LH_COMM_BLOCK_BYTES;
		int64_t begin_ns = lh_clock_now_ns();

		rc = lh_tcp_send(s->fd, head, part, is_more || part < size, err);
		if (rc == 0)
			count(s->lane, LH_TRAFFIC_PAYLOAD, begin_ns, lh_clock_now_ns(), part);
		head += part;
		size -= part;
	}
	return rc;
}

static int send_filler(struct lh_stream *s, uint64_t size, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();

	while (size) {
		off_t at = 0;
		size_t want = size < LH_COMM_BLOCK_BYTES ? (size_t)size : LH_COMM_BLOCK_BYTES;
		ssize_t n = sendfile(s->fd, s->lane->comm->filler_fd, &at, want);
		int64_t end_ns;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return lh_fail(err, LH_ESYS, n ? errno : EIO, "send");
		end_ns = lh_clock_now_ns();
		count(s->lane, LH_TRAFFIC_PAYLOAD, begin_ns, end_ns, (uint64_t)n);
		begin_ns = end_ns;
		size -= (uint64_t)n;
	}
	return 0;
}

static int send_piece(struct lh_stream *s, const struct lh_piece *piece, struct extent *ret_extent,
		      struct lh_error *err)
{
	const struct lh_message *m = &piece->request->message;
	struct extent e = extent_of(m, piece->index, lh_comm_n_pieces(m, s->lane->n_streams));
	struct lh_frame frame = {
		.type = LH_FRAME_DATA,
		.rank = (uint16_t)s->lane->comm->config.self,
		.part = m->phase,
		.epoch = m->epoch,
		.samples = m->samples,
		.time_ns = m->note,
		.step_ns = piece->index,
		.length = e.length,
		.token = m->length,
		.head_bytes = e.head_bytes,
	};
	uint8_t bytes[LH_FRAME_BYTES];
	int64_t now_ns = lh_clock_now_ns();
	int rc;

	*ret_extent = e;
	lh_frame_format(&frame, bytes);
	count(s->lane, LH_TRAFFIC_HEADER, now_ns, now_ns, sizeof(bytes));
	if ((rc = lh_tcp_send(s->fd, bytes, sizeof(bytes), e.length > 0, err)) ||
	    (rc = send_head(s, piece->request->from + e.at, e.head_bytes, e.length > e.head_bytes,
			    err)))
		return rc;
	return send_filler(s, e.length - e.head_bytes, err);
}

static int check_frame(const struct lh_stream *s, const struct lh_piece *piece,
		       const struct lh_frame *frame, struct lh_error *err)
{
	const struct lh_message *m = &piece->request->message;
	struct extent e = extent_of(m, piece->index, lh_comm_n_pieces(m, s->lane->n_streams));

	if (frame->type != LH_FRAME_DATA || frame->rank != s->lane->peer)
		return lh_fail(err, LH_ERUN, 0, "expected a data frame from there");
	if (frame->epoch != m->epoch || frame->part != m->phase ||
	    frame->step_ns != (int64_t)piece->index)
		return lh_fail(err, LH_ERUN, 0,
			       "a transfer of epoch %" PRIu32 ", phase %u, piece %" PRId64
			       "; expected epoch %" PRIu32 ", phase %u, piece %" PRIu32,
			       frame->epoch, frame->part, frame->step_ns, m->epoch, m->phase,
			       piece->index);
	if (m->is_variable
		    ? frame->length > m->length || frame->head_bytes > m->head_bytes ||
			      frame->head_bytes > frame->length || frame->token != frame->length
		    : frame->length != e.length || frame->head_bytes != e.head_bytes ||
			      frame->token != m->length)
		return lh_fail(err, LH_ERUN, 0,
			       "a transfer of %" PRIu64 " bytes, %" PRIu32
			       " of them numbers; expected %s%" PRIu64 " and %" PRIu32,
			       frame->length, frame->head_bytes, m->is_variable ? "at most " : "",
			       e.length, e.head_bytes);
	return 0;
}

static int receive_payload(struct lh_stream *s, const struct lh_piece *piece,
			   const struct lh_frame *frame, struct lh_error *err)
{
	const struct lh_message *m = &piece->request->message;
	struct extent e = extent_of(m, piece->index, lh_comm_n_pieces(m, s->lane->n_streams));
	int rc = check_frame(s, piece, frame, err);

	if (rc == 0)
		rc = lh_tcp_receive(s->fd, piece->request->into + e.at, frame->head_bytes, err);
	if (rc == 0)
		rc = lh_tcp_discard(s->fd, frame->length - frame->head_bytes, err);
	return rc;
}

/* With the mutex held: a piece has left a thread's hands. */
static void end_piece(struct lh_stream *s, struct lh_request *request, int rc, struct lh_error *why,
		      const char *verb)
{
	struct lh_lane *lane = s->lane;
	struct lh_comm *comm = lane->comm;

	lane->n_active--;
	request->n_begun--;
	if (rc && !lane->error.code) {
		lh_error_prefix(why, "%s rank %" PRIu32 " (%s)", verb, lane->peer,
				comm->names[lane->peer]);
		lh_lane_fail(lane, why);
	}
	if (rc == 0 && --request->n_left == 0)
		lh_request_end(comm, request, LH_REQUEST_DONE);
	else if (lane->error.code && request->n_begun == 0 && request->state == LH_REQUEST_PENDING)
		lh_request_end(comm, request, LH_REQUEST_FAILED);
}

static bool is_alive(const struct lh_lane *lane)
{
	return !lane->is_ending && !lane->error.code;
}

/* With the mutex held: waits for a piece to move; false when there will be none. */
static bool wait_for_piece(struct lh_stream *s, const struct lh_pieces *pieces,
			   pthread_cond_t *cond)
{
	while (is_alive(s->lane) && lh_pieces_is_empty(pieces))
		pthread_cond_wait(cond, &s->lane->comm->mutex);
	return is_alive(s->lane);
}

/* With the mutex held. */
static struct lh_piece begin_piece(struct lh_stream *s, struct lh_pieces *pieces)
{
	struct lh_piece piece = lh_pieces_take(pieces);

	piece.request->n_begun++;
	s->lane->n_active++;
	return piece;
}

void *lh_comm_sender(void *arg)
{
	struct lh_stream *s = arg;
	struct lh_comm *comm = s->lane->comm;

	pthread_mutex_lock(&comm->mutex);
	while (wait_for_piece(s, &s->to_send, &s->posted)) {
		struct lh_piece piece = begin_piece(s, &s->to_send);
		struct lh_error why = {0};
		struct extent e;
		int rc;

		pthread_mutex_unlock(&comm->mutex);
		rc = send_piece(s, &piece, &e, &why);
		pthread_mutex_lock(&comm->mutex);
		if (rc == 0)
			comm->sent_bytes += e.length;
		end_piece(s, piece.request, rc, &why, "sending to");
	}
	pthread_mutex_unlock(&comm->mutex);
	return NULL;
}

/* With the mutex held, which is let go meanwhile: reads a frame. A request is taken only when its
 * message comes, so that it can be cancelled until then. */
static int read_frame(struct lh_stream *s, struct lh_frame *ret_frame, struct lh_error *err)
{
	pthread_mutex_t *mutex = &s->lane->comm->mutex;
	uint8_t bytes[LH_FRAME_BYTES];
	int rc;

	s->is_reading = true;
	pthread_mutex_unlock(mutex);
	rc = lh_tcp_receive(s->fd, bytes, sizeof(bytes), err);
	if (rc == 0)
		rc = lh_frame_parse(bytes, ret_frame, err);
	pthread_mutex_lock(mutex);
	s->is_reading = false;
	if (rc) {
		lh_error_prefix(err, "receiving from rank %" PRIu32 " (%s)", s->lane->peer,
				s->lane->comm->names[s->lane->peer]);
		lh_lane_fail(s->lane, err);
	}
	return rc;
}

/* With the mutex held, which is let go meanwhile: drops the payload of a stale frame. */
static void drop_payload(struct lh_stream *s, const struct lh_frame *frame)
{
	struct lh_error why = {0};
	int rc;

	s->is_reading = true;
	pthread_mutex_unlock(&s->lane->comm->mutex);
	rc = lh_tcp_discard(s->fd, frame->length, &why);
	pthread_mutex_lock(&s->lane->comm->mutex);
	s->is_reading = false;
	if (rc)
		lh_lane_fail(s->lane, &why);
}

/* With the mutex held, which is let go meanwhile: moves the piece that the frame announces. */
static void take_piece(struct lh_stream *s, const struct lh_frame *frame)
{
	struct lh_comm *comm = s->lane->comm;
	struct lh_piece piece = begin_piece(s, &s->to_receive);
	struct lh_message *m = &piece.request->message;
	struct lh_error why = {0};
	int rc;

	pthread_mutex_unlock(&comm->mutex);
	rc = receive_payload(s, &piece, frame, &why);
	pthread_mutex_lock(&comm->mutex);
	if (rc == 0) {
		comm->received_bytes += frame->length;
		m->samples = frame->samples;
		m->note = frame->time_ns;
		if (m->is_variable) {
			m->length = frame->length;
			m->head_bytes = frame->head_bytes;
		}
	}
	end_piece(s, piece.request, rc, &why, "receiving from");
}

/* With the mutex held: the peer has gone on, and what this request waits for will not come. */
static void supersede(struct lh_stream *s)
{
	struct lh_lane *lane = s->lane;
	struct lh_request *request = lh_pieces_first(&s->to_receive);
	struct lh_error why = {0};

	if (request->n_begun ||
	    request->n_left != lh_comm_n_pieces(&request->message, lane->n_streams)) {
		lh_fail(&why, LH_ERUN, 0, "rank %" PRIu32 " (%s) sent a part of a message",
			lane->peer, lane->comm->names[lane->peer]);
		lh_lane_fail(lane, &why);
		return;
	}
	for (uint32_t i = 0; i < lane->n_streams; i++)
		lh_pieces_remove(&lane->streams[i].to_receive, request);
	lh_request_end(lane->comm, request, LH_REQUEST_FAILED);
}

void *lh_comm_receiver(void *arg)
{
	struct lh_stream *s = arg;
	struct lh_comm *comm = s->lane->comm;
	bool drops_stale = comm->config.drops_stale;

	pthread_mutex_lock(&comm->mutex);
	while (wait_for_piece(s, &s->to_receive, &s->expected)) {
		struct lh_error why = {0};
		struct lh_frame frame;
		uint32_t epoch = 0;

		if (read_frame(s, &frame, &why))
			break;
		for (;;) {
			if (!wait_for_piece(s, &s->to_receive, &s->expected))
				break;
			epoch = lh_pieces_first(&s->to_receive)->message.epoch;
			if (!drops_stale || frame.type != LH_FRAME_DATA || frame.epoch <= epoch)
				break;
			supersede(s);
		}
		if (!is_alive(s->lane))
			break;
		if (drops_stale && frame.type == LH_FRAME_DATA && frame.epoch < epoch)
			drop_payload(s, &frame);
		else
			take_piece(s, &frame);
	}
	pthread_mutex_unlock(&comm->mutex);
	return NULL;
}
