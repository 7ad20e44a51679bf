/* SPDX-License-Identifier: Apache-2.0 */
/* How long collectives take. See foresee.h. */
#include "trainer/collective/foresee.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/collective/interpret_internal.h"
#include "trainer/collective/stream.h"

static const double NS_PER_S = 1e9;

/* A member's rounds. */
struct timed {
	struct foreseen *foreseen;
	struct lh_side *side;
	struct lh_collective_flow *flow;
	bool *is_early; /* by receive: it has come before its round has begun here */
	uint32_t n_begun;
	bool is_running;
	double begin_ns; /* of the next round */
};

/* A message in a connection's queue, or on its way. */
struct queued {
	uint64_t left_bytes;   /* not sent yet */
	uint64_t last_segment; /* of the connection, once all is sent */
	uint32_t receive;
	uint32_t round;
};

/* From one member to another. */
struct connection {
	struct lh_stream_model stream;
	uint32_t from;
	uint32_t to;
	struct queued *queue; /* of `room`, in a ring: what one round and the next may hold */
	uint32_t room;
	uint64_t n_queued;
	uint64_t n_sent; /* messages */
	uint64_t n_arrived;
	double next_ns; /* of its next event; infinite: none */
};

struct foreseen {
	struct lh_interpreter interpreter;
	const struct lh_codec_ops *codec;
	const struct lh_collective_network *network;
	uint32_t n_rounds;
	double gap_ns;
	int64_t *end_ns; /* by round */
	struct timed *members;
	struct connection **connections; /* from x n + to; NULL where nothing is sent either way */
	struct connection *all;		 /* the same, one after the other */
	uint32_t n_connections;
	uint32_t *heap;	 /* connections, the one with the first event on top */
	uint32_t *place; /* by connection, in the heap */
	double now_ns;
};

static void leave_times(void *context, uint32_t receive, uint32_t chunk)
{
	(void)context;
	(void)receive;
	(void)chunk;
}

static void finish_at_once(void *context, uint32_t chunk)
{
	(void)context;
	(void)chunk;
}

static const struct lh_collective_flow_ops timing = {.apply = leave_times,
						     .finish = finish_at_once};

static uint64_t message_bytes(const struct foreseen *f, const struct lh_collective_plan *plan,
			      const struct lh_collective_move *move)
{
	uint64_t bytes = f->network->message_bytes;

	for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++)
		bytes += f->codec->wire_bytes(plan->at[c + 1] - plan->at[c]);
	return bytes;
}

/* ---- the order of events ------------------------------------------------------------------ */

static bool is_before(const struct foreseen *f, uint32_t a, uint32_t b)
{
	double x = f->all[a].next_ns, y = f->all[b].next_ns;

	return x < y || (x <= y && a < b);
}

static void put(struct foreseen *f, uint32_t place, uint32_t connection)
{
	f->heap[place] = connection;
	f->place[connection] = place;
}

/* A connection's next event has changed. */
static void reorder(struct foreseen *f, uint32_t connection)
{
	uint32_t place = f->place[connection];

	for (; place && is_before(f, connection, f->heap[(place - 1) / 2]); place = (place - 1) / 2)
		put(f, place, f->heap[(place - 1) / 2]);
	for (uint32_t child = 2 * place + 1; child < f->n_connections; child = 2 * place + 1) {
		if (child + 1 < f->n_connections &&
		    is_before(f, f->heap[child + 1], f->heap[child]))
			child++;
		if (is_before(f, connection, f->heap[child]))
			break;
		put(f, place, f->heap[child]);
		place = child;
	}
	put(f, place, connection);
}

static void look_ahead(struct foreseen *f, struct connection *c)
{
	const struct lh_stream_segment *coming = lh_stream_model_coming(&c->stream);
	const struct lh_stream_segment *arrived = lh_stream_model_arrived(&c->stream);

	c->next_ns =
		fmin(coming ? coming->arrive_ns : INFINITY, arrived ? arrived->acked_ns : INFINITY);
	reorder(f, (uint32_t)(c - f->all));
}

/* ---- what happens ------------------------------------------------------------------------- */

/* Sends what is queued as far as the window allows. */
static void push(struct foreseen *f, struct connection *c)
{
	while (c->n_sent < c->n_queued) {
		struct queued *m = &c->queue[c->n_sent % c->room];

		m->left_bytes -= lh_stream_model_send(&c->stream, f->now_ns, m->left_bytes,
						      f->network->segment_bytes);
		if (m->left_bytes)
			break;
		m->last_segment = c->stream.n_sent;
		c->n_sent++;
	}
	look_ahead(f, c);
}

static void send_phases(struct foreseen *f, struct timed *m)
{
	const struct lh_collective_plan *plan = m->side->plan;
	uint32_t phase;

	while (lh_collective_flow_next(m->flow, &phase)) {
		const struct lh_collective_phase *p = &plan->phases[phase];

		for (uint32_t s = p->first_send; s < p->first_send + p->n_sends; s++) {
			struct connection *c =
				f->connections[(size_t)m->side->member * f->interpreter.n +
					       m->side->to[s]];

			c->queue[c->n_queued++ % c->room] = (struct queued){
				.left_bytes = message_bytes(f, plan, &plan->sends[s]),
				.receive = m->side->receive_of[s],
				.round = m->n_begun,
			};
			push(f, c);
		}
	}
}

/* Whether a member's round is over; then the next one has its time. */
static void end_round(struct foreseen *f, struct timed *m)
{
	if (!m->is_running || !lh_collective_flow_is_done(m->flow))
		return;
	m->is_running = false;
	if ((double)f->end_ns[m->n_begun - 1] < f->now_ns)
		f->end_ns[m->n_begun - 1] = (int64_t)f->now_ns;
	m->begin_ns = m->n_begun < f->n_rounds ? f->now_ns + f->gap_ns : INFINITY;
}

static void begin_round(struct foreseen *f, struct timed *m)
{
	m->n_begun++;
	m->is_running = true;
	m->begin_ns = INFINITY;
	lh_collective_flow_begin(m->flow);
	for (uint32_t r = 0; r < m->side->plan->n_receives; r++)
		if (m->is_early[r]) {
			m->is_early[r] = false;
			lh_collective_flow_arrive(m->flow, r);
		}
	send_phases(f, m);
	end_round(f, m);
}

/* A segment is there, and with it perhaps a message. */
static void arrive(struct foreseen *f, struct connection *c)
{
	struct connection *back = f->connections[(size_t)c->to * f->interpreter.n + c->from];
	struct timed *peer = &f->members[c->to];

	lh_stream_model_arrive(&c->stream, &back->stream, f->now_ns);
	look_ahead(f, c);
	if (c->n_arrived < c->n_sent &&
	    c->queue[c->n_arrived % c->room].last_segment == c->stream.n_arrived) {
		struct queued *m = &c->queue[c->n_arrived++ % c->room];

		if (m->round > peer->n_begun) {
			peer->is_early[m->receive] = true;
			return;
		}
		lh_collective_flow_arrive(peer->flow, m->receive);
		send_phases(f, peer);
		end_round(f, peer);
	}
}

/* The first event of a connection. */
static void step(struct foreseen *f, struct connection *c)
{
	const struct lh_stream_segment *arrived = lh_stream_model_arrived(&c->stream);

	f->now_ns = c->next_ns;
	if (arrived && arrived->acked_ns <= f->now_ns) {
		lh_stream_model_ack(&c->stream);
		push(f, c);
	} else {
		arrive(f, c);
	}
}

/* Until nothing happens any more. */
static void run_all(struct foreseen *f)
{
	for (;;) {
		double next_ns = f->n_connections ? f->all[f->heap[0]].next_ns : INFINITY;
		struct timed *first = &f->members[0];

		for (uint32_t i = 1; i < f->interpreter.n; i++)
			if (f->members[i].begin_ns < first->begin_ns)
				first = &f->members[i];
		if (isinf(next_ns) && isinf(first->begin_ns))
			return;
		if (first->begin_ns <= next_ns) {
			f->now_ns = first->begin_ns;
			begin_round(f, first);
		} else {
			step(f, &f->all[f->heap[0]]);
		}
	}
}

/* ---- opening ------------------------------------------------------------------------------ */

static int open_member(struct foreseen *f, const struct lh_collective_plan *plan, uint32_t i,
		       struct lh_error *err)
{
	struct timed *m = &f->members[i];
	struct lh_side *side = &f->interpreter.sides[i];

	*side = (struct lh_side){.interpreter = &f->interpreter, .plan = plan, .member = i};
	side->to = calloc((size_t)plan->n_sends + 1, sizeof(*side->to));
	side->receive_of = calloc((size_t)plan->n_sends + 1, sizeof(*side->receive_of));
	side->from = calloc((size_t)plan->n_receives + 1, sizeof(*side->from));
	m->foreseen = f;
	m->side = side;
	m->is_early = calloc((size_t)plan->n_receives + 1, sizeof(*m->is_early));
	if (!side->to || !side->receive_of || !side->from || !m->is_early)
		return lh_fail(err, LH_ESYS, ENOMEM, "foresee a collective");
	return lh_collective_flow_open(plan, &timing, m, &m->flow, err);
}

static bool open_connection(struct foreseen *f, uint32_t from, uint32_t to, uint32_t n_messages)
{
	const struct lh_collective_network *w = f->network;
	uint32_t n = f->interpreter.n;
	const struct lh_collective_link *link = &w->links[(size_t)from * n + to];
	double byte_ns = 8 * NS_PER_S / (double)link->bandwidth_bps;
	double delay_ns = (double)link->delay_ns;
	struct connection *c = &f->all[f->n_connections];

	*c = (struct connection){
		.from = from, .to = to, .room = 2 * n_messages + 1, .next_ns = INFINITY};
	f->heap[f->n_connections] = f->n_connections;
	f->place[f->n_connections] = f->n_connections;
	f->n_connections++;
	f->connections[(size_t)from * n + to] = c;
	c->queue = calloc(c->room, sizeof(*c->queue));
	return c->queue &&
	       lh_stream_model_init(&c->stream, delay_ns,
				    delay_ns + (double)w->links[(size_t)to * n + from].delay_ns,
				    byte_ns * w->frame_bytes, byte_ns * link->ack_bytes,
				    (double)w->initial_window_segments * w->n_streams,
				    (double)link->window_segments * w->n_streams);
}

/* Both directions of every pair in which something is sent. */
static int open_connections(struct foreseen *f, struct lh_error *err)
{
	uint32_t n = f->interpreter.n;
	lh_cleanup_free uint32_t *n_messages = calloc((size_t)n * n, sizeof(*n_messages));
	size_t n_pairs = 0;

	if (!n_messages)
		return lh_fail(err, LH_ESYS, ENOMEM, "foresee a collective");
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t s = 0; s < f->interpreter.sides[i].plan->n_sends; s++)
			n_messages[(size_t)i * n + f->interpreter.sides[i].to[s]]++;
	for (size_t i = 0; i < (size_t)n * n; i++)
		n_pairs += n_messages[i] || n_messages[i % n * n + i / n];
	f->all = calloc(n_pairs + 1, sizeof(*f->all));
	f->heap = calloc(n_pairs + 1, sizeof(*f->heap));
	f->place = calloc(n_pairs + 1, sizeof(*f->place));
	if (!f->all || !f->heap || !f->place)
		return lh_fail(err, LH_ESYS, ENOMEM, "foresee a collective");
	for (size_t i = 0; i < (size_t)n * n; i++)
		if ((n_messages[i] || n_messages[i % n * n + i / n]) &&
		    !open_connection(f, (uint32_t)(i / n), (uint32_t)(i % n), n_messages[i]))
			return lh_fail(err, LH_ESYS, ENOMEM, "foresee a collective");
	return 0;
}

static int open_all(struct foreseen *f, const struct lh_collective_plan *plans,
		    struct lh_error *err)
{
	uint32_t n = f->interpreter.n;
	int rc = 0;

	f->interpreter.sides = calloc(n, sizeof(*f->interpreter.sides));
	f->members = calloc(n, sizeof(*f->members));
	f->connections = calloc((size_t)n * n, sizeof(struct connection *));
	if (!f->interpreter.sides || !f->members || !f->connections)
		return lh_fail(err, LH_ESYS, ENOMEM, "foresee a collective");
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = open_member(f, &plans[i], i, err);
	if (rc == 0)
		rc = lh_collective_pair(&f->interpreter);
	return rc ? rc : open_connections(f, err);
}

static void close_all(struct foreseen *f)
{
	uint32_t n = f->interpreter.n;

	for (uint32_t i = 0; f->members && i < n; i++) {
		lh_collective_flow_close(f->members[i].flow);
		free(f->members[i].is_early);
	}
	for (uint32_t i = 0; f->interpreter.sides && i < n; i++) {
		free(f->interpreter.sides[i].to);
		free(f->interpreter.sides[i].receive_of);
		free(f->interpreter.sides[i].from);
	}
	for (uint32_t i = 0; i < f->n_connections; i++) {
		lh_stream_model_done(&f->all[i].stream);
		free(f->all[i].queue);
	}
	free(f->interpreter.sides);
	free(f->members);
	free(f->connections);
	free(f->all);
	free(f->heap);
	free(f->place);
}

int lh_collective_foresee(const struct lh_collective_plan *plans, uint32_t n,
			  const struct lh_codec_ops *codec,
			  const struct lh_collective_network *network, const int64_t *begin_ns,
			  int64_t gap_ns, uint32_t n_rounds, int64_t *ret_end_ns,
			  struct lh_error *err)
{
	struct foreseen f = {
		.interpreter = {.n = n, .err = err},
		.codec = codec,
		.network = network,
		.n_rounds = n_rounds,
		.gap_ns = (double)gap_ns,
		.end_ns = ret_end_ns,
	};
	struct lh_collective_program *program;
	int rc = lh_collective_program_build(plans, n, &program, err);

	if (rc)
		return rc;
	lh_collective_program_free(program);
	rc = open_all(&f, plans, err);
	memset(ret_end_ns, 0, n_rounds * sizeof(*ret_end_ns));
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		f.members[i].begin_ns = begin_ns ? (double)begin_ns[i] : 0;
	if (rc == 0)
		run_all(&f);
	close_all(&f);
	return rc;
}
