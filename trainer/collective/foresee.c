/* SPDX-License-Identifier: Apache-2.0 */
/* How long collectives take. See foresee.h. */
#include "trainer/collective/foresee.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/collective/interpret_internal.h"
#include "trainer/collective/stream.h"

static const double NS_PER_S = 1e9;

/* A member and the times of what it has. */
struct timed {
	struct lh_side *side;
	struct lh_collective_flow *flow;
	double *chunk_ns;  /* when a chunk is as far as it is */
	double *arrive_ns; /* by receive */
	double begin_ns;
	double end_ns;
};

struct foreseen {
	struct lh_interpreter interpreter;
	const struct lh_codec_ops *codec;
	const struct lh_collective_network *network;
	struct timed *members;
	struct lh_stream_model *streams; /* from x n + to; those without memory are not used */
};

static void note_time(void *context, uint32_t receive, uint32_t chunk)
{
	struct timed *m = context;

	m->chunk_ns[chunk] = fmax(m->chunk_ns[chunk], m->arrive_ns[receive]);
	m->end_ns = fmax(m->end_ns, m->arrive_ns[receive]);
}

static void finish_at_once(void *context, uint32_t chunk)
{
	(void)context;
	(void)chunk;
}

static const struct lh_collective_flow_ops timing = {.apply = note_time, .finish = finish_at_once};

static uint64_t message_bytes(const struct foreseen *f, const struct lh_collective_plan *plan,
			      const struct lh_collective_move *move)
{
	uint64_t bytes = f->network->message_bytes;

	for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++)
		bytes += f->codec->wire_bytes(plan->at[c + 1] - plan->at[c]);
	return bytes;
}

/* A phase leaves when the last of what it carries is there. */
static void send_phase(struct foreseen *f, struct timed *m, uint32_t phase)
{
	const struct lh_collective_plan *plan = m->side->plan;
	const struct lh_collective_phase *p = &plan->phases[phase];
	double from_ns = m->begin_ns;

	for (uint32_t s = p->first_send; s < p->first_send + p->n_sends; s++) {
		const struct lh_collective_move *move = &plan->sends[s];

		for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++)
			from_ns = fmax(from_ns, m->chunk_ns[c]);
	}
	for (uint32_t s = p->first_send; s < p->first_send + p->n_sends; s++) {
		uint32_t to = m->side->to[s], receive = m->side->receive_of[s];
		struct timed *peer = &f->members[to];

		peer->arrive_ns[receive] = lh_stream_model_send(
			&f->streams[(size_t)m->side->member * f->interpreter.n + to], from_ns,
			message_bytes(f, plan, &plan->sends[s]), f->network->segment_bytes);
		lh_collective_flow_arrive(peer->flow, receive);
	}
}

static void run_round(struct foreseen *f, double gap_ns, int64_t *ret_end_ns)
{
	uint32_t n = f->interpreter.n, phase;
	double last_ns = 0;
	bool has_any = true;

	for (uint32_t i = 0; i < n; i++) {
		struct timed *m = &f->members[i];

		m->begin_ns = m->end_ns + gap_ns;
		m->end_ns = m->begin_ns;
		memset(m->chunk_ns, 0, m->side->plan->n_chunks * sizeof(*m->chunk_ns));
		lh_collective_flow_begin(m->flow);
	}
	while (has_any) {
		has_any = false;
		for (uint32_t i = 0; i < n; i++)
			while (lh_collective_flow_next(f->members[i].flow, &phase)) {
				send_phase(f, &f->members[i], phase);
				has_any = true;
			}
	}
	for (uint32_t i = 0; i < n; i++)
		last_ns = fmax(last_ns, f->members[i].end_ns);
	*ret_end_ns = (int64_t)last_ns;
}

static int open_member(struct foreseen *f, const struct lh_collective_plan *plan, uint32_t i,
		       struct lh_error *err)
{
	struct timed *m = &f->members[i];
	struct lh_side *side = &f->interpreter.sides[i];

	*side = (struct lh_side){.interpreter = &f->interpreter, .plan = plan, .member = i};
	side->to = calloc((size_t)plan->n_sends + 1, sizeof(*side->to));
	side->receive_of = calloc((size_t)plan->n_sends + 1, sizeof(*side->receive_of));
	side->from = calloc((size_t)plan->n_receives + 1, sizeof(*side->from));
	m->side = side;
	m->chunk_ns = calloc(plan->n_chunks, sizeof(*m->chunk_ns));
	m->arrive_ns = calloc((size_t)plan->n_receives + 1, sizeof(*m->arrive_ns));
	if (!side->to || !side->receive_of || !side->from || !m->chunk_ns || !m->arrive_ns)
		return lh_fail(err, LH_ESYS, ENOMEM, "foresee a collective");
	return lh_collective_flow_open(plan, &timing, m, &m->flow, err);
}

static int open_streams(struct foreseen *f, struct lh_error *err)
{
	const struct lh_collective_network *w = f->network;
	uint32_t n = f->interpreter.n;

	for (uint32_t i = 0; i < n; i++) {
		const struct lh_side *side = &f->interpreter.sides[i];

		for (uint32_t s = 0; s < side->plan->n_sends; s++) {
			size_t there = (size_t)i * n + side->to[s];
			size_t back = (size_t)side->to[s] * n + i;
			const struct lh_collective_link *link = &w->links[there];
			double delay_ns = (double)link->delay_ns;

			if (f->streams[there].flying)
				continue;
			if (!lh_stream_model_init(&f->streams[there], delay_ns,
						  delay_ns + (double)w->links[back].delay_ns,
						  8.0 * w->frame_bytes * NS_PER_S /
							  (double)link->bandwidth_bps,
						  (double)w->initial_window_segments * w->n_streams,
						  (double)link->window_segments * w->n_streams))
				return lh_fail(err, LH_ESYS, ENOMEM, "foresee a collective");
		}
	}
	return 0;
}

static int open_all(struct foreseen *f, const struct lh_collective_plan *plans,
		    struct lh_error *err)
{
	uint32_t n = f->interpreter.n;
	int rc = 0;

	f->interpreter.sides = calloc(n, sizeof(*f->interpreter.sides));
	f->members = calloc(n, sizeof(*f->members));
	f->streams = calloc((size_t)n * n, sizeof(*f->streams));
	if (!f->interpreter.sides || !f->members || !f->streams)
		return lh_fail(err, LH_ESYS, ENOMEM, "foresee a collective");
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = open_member(f, &plans[i], i, err);
	if (rc == 0)
		rc = lh_collective_pair(&f->interpreter);
	return rc ? rc : open_streams(f, err);
}

static void close_all(struct foreseen *f)
{
	uint32_t n = f->interpreter.n;

	for (uint32_t i = 0; f->members && i < n; i++) {
		lh_collective_flow_close(f->members[i].flow);
		free(f->members[i].chunk_ns);
		free(f->members[i].arrive_ns);
	}
	for (uint32_t i = 0; f->interpreter.sides && i < n; i++) {
		free(f->interpreter.sides[i].to);
		free(f->interpreter.sides[i].receive_of);
		free(f->interpreter.sides[i].from);
	}
	for (size_t i = 0; f->streams && i < (size_t)n * n; i++)
		lh_stream_model_done(&f->streams[i]);
	free(f->interpreter.sides);
	free(f->members);
	free(f->streams);
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
	};
	struct lh_collective_program *program;
	int rc = lh_collective_program_build(plans, n, &program, err);

	if (rc)
		return rc;
	lh_collective_program_free(program);
	rc = open_all(&f, plans, err);
	for (uint32_t i = 0; rc == 0 && begin_ns && i < n; i++)
		f.members[i].end_ns = (double)begin_ns[i];
	for (uint32_t round = 0; rc == 0 && round < n_rounds; round++)
		run_round(&f, round ? (double)gap_ns : 0, &ret_end_ns[round]);
	close_all(&f);
	return rc;
}
