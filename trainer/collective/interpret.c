/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serial interpreter of collectives. See interpret.h.
 *
 * Building runs every member's flow with counts in place of numbers: how many members' numbers are
 * in a chunk at a member. What is given away cannot be added to, so sums are trees, and a chunk is
 * complete when its count is the number of members. Every reduction that takes place is noted.
 */
#include "trainer/collective/interpret.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/collective/interpret_internal.h"

/* from's chunk is added to to's. */
struct step {
	uint16_t from;
	uint16_t to;
};

struct lh_collective_program {
	uint32_t n_members;
	uint32_t n_chunks;
	uint32_t *owner;    /* by chunk; n_members: none */
	uint32_t *n_steps;  /* by chunk */
	struct step *steps; /* n_members - 1 by chunk */
};

void lh_collective_add(float *values, const float *more, size_t n)
{
	for (size_t i = 0; i < n; i++)
		values[i] += more[i];
}

void lh_collective_divide(float *values, size_t n, float divisor)
{
	for (size_t i = 0; i < n; i++)
		values[i] /= divisor;
}

void lh_collective_program_free(struct lh_collective_program *program)
{
	if (!program)
		return;
	free(program->owner);
	free(program->n_steps);
	free(program->steps);
	free(program);
}

uint32_t lh_collective_program_owner(const struct lh_collective_program *program, uint32_t chunk)
{
	return program->owner[chunk];
}

void lh_collective_program_run(const struct lh_collective_program *program, uint32_t chunk,
			       const struct lh_codec_ops *codec, float divisor, uint32_t n_elements,
			       float *values, float *scratch, void *ret_wire)
{
	const struct step *steps = program->steps + (size_t)chunk * (program->n_members - 1);
	float *owned = values + (size_t)program->owner[chunk] * n_elements;

	for (uint32_t i = 0; i < program->n_steps[chunk]; i++) {
		codec->encode(values + (size_t)steps[i].from * n_elements, n_elements, ret_wire);
		codec->decode(ret_wire, n_elements, scratch);
		lh_collective_add(values + (size_t)steps[i].to * n_elements, scratch, n_elements);
	}
	lh_collective_divide(owned, n_elements, divisor);
	codec->encode(owned, n_elements, ret_wire);
}

static void note_apply(void *context, uint32_t receive, uint32_t chunk)
{
	struct lh_side *side = context;
	struct lh_interpreter *b = side->interpreter;
	struct lh_collective_program *program = b->program;
	uint32_t from = side->from[receive];
	struct lh_chunk_at *at = &side->chunks[chunk];

	if (!side->plan->receives[receive].is_reduced) {
		if (at->state != LH_CHUNK_GIVEN)
			lh_breach(b, "rank %" PRIu32 ": chunk %" PRIu32 " comes back too early",
				  side->plan->self, chunk);
		at->state = LH_CHUNK_FINISHED;
		return;
	}
	if (at->state != LH_CHUNK_PARTIAL || program->n_steps[chunk] == program->n_members - 1) {
		lh_breach(b, "rank %" PRIu32 ": chunk %" PRIu32 " is added to once it is away",
			  side->plan->self, chunk);
		return;
	}
	at->count += b->sides[from].chunks[chunk].count;
	program->steps[(size_t)chunk * (program->n_members - 1) + program->n_steps[chunk]++] =
		(struct step){(uint16_t)from, (uint16_t)side->member};
}

static void note_finish(void *context, uint32_t chunk)
{
	struct lh_side *side = context;
	struct lh_interpreter *b = side->interpreter;
	struct lh_chunk_at *at = &side->chunks[chunk];

	if (at->state != LH_CHUNK_PARTIAL || at->count != b->n)
		lh_breach(b,
			  "rank %" PRIu32 ": chunk %" PRIu32
			  " is finished with the numbers of %" PRIu32 " of %" PRIu32 " members",
			  side->plan->self, chunk, at->count, b->n);
	if (b->program->owner[chunk] != b->n)
		lh_breach(b, "rank %" PRIu32 ": chunk %" PRIu32 " is finished twice",
			  side->plan->self, chunk);
	at->state = LH_CHUNK_FINISHED;
	b->program->owner[chunk] = side->member;
}

static const struct lh_collective_flow_ops noting = {.apply = note_apply, .finish = note_finish};

/* A member's message is on its way, and at once there. */
static void carry(struct lh_side *side, uint32_t send)
{
	struct lh_interpreter *b = side->interpreter;
	const struct lh_collective_move *move = &side->plan->sends[send];
	struct lh_side *peer = &b->sides[side->to[send]];
	bool is_reduced;

	is_reduced = peer->plan->receives[side->receive_of[send]].is_reduced;
	for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++) {
		struct lh_chunk_at *at = &side->chunks[c];

		if (!lh_chunk_has_elements(side->plan, c))
			continue;
		if (at->state != (is_reduced ? LH_CHUNK_PARTIAL : LH_CHUNK_FINISHED))
			lh_breach(b, "rank %" PRIu32 " sends chunk %" PRIu32 " %s",
				  side->plan->self, c,
				  at->state == LH_CHUNK_GIVEN
					  ? "once it is away"
					  : "as what it is not: a part or the whole");
		if (is_reduced)
			at->state = LH_CHUNK_GIVEN;
	}
	if (b->rc == 0)
		lh_collective_flow_arrive(peer->flow, side->receive_of[send]);
}

/* Sends all that may leave; whether there was anything. */
static bool advance(struct lh_side *side)
{
	uint32_t phase;
	bool has_any = false;

	while (side->interpreter->rc == 0 && lh_collective_flow_next(side->flow, &phase)) {
		const struct lh_collective_phase *p = &side->plan->phases[phase];

		has_any = true;
		for (uint32_t s = p->first_send; s < p->first_send + p->n_sends; s++)
			if (side->interpreter->rc == 0)
				carry(side, s);
	}
	return has_any;
}

static int side_open(struct lh_side *side, struct lh_error *err)
{
	const struct lh_collective_plan *plan = side->plan;
	bool is_gathering = plan->kind == LH_COLLECTIVE_ALL_GATHER;

	side->chunks = calloc(plan->n_chunks, sizeof(*side->chunks));
	side->to = calloc((size_t)plan->n_sends + 1, sizeof(*side->to));
	side->receive_of = calloc((size_t)plan->n_sends + 1, sizeof(*side->receive_of));
	side->from = calloc((size_t)plan->n_receives + 1, sizeof(*side->from));
	if (!side->chunks || !side->to || !side->receive_of || !side->from)
		return lh_fail(err, LH_ESYS, ENOMEM, "interpret a collective");
	for (uint32_t c = 0; c < plan->n_chunks; c++) {
		side->chunks[c].count = is_gathering ? plan->n_members : 1;
		if (is_gathering && c != side->member)
			side->chunks[c].state = LH_CHUNK_GIVEN;
	}
	return lh_collective_flow_open(plan, &noting, side, &side->flow, err);
}

static void side_close(struct lh_side *side)
{
	lh_collective_flow_close(side->flow);
	free(side->chunks);
	free(side->to);
	free(side->receive_of);
	free(side->from);
}

static int program_alloc(uint32_t n, uint32_t n_chunks, struct lh_collective_program **ret_program,
			 struct lh_error *err)
{
	struct lh_collective_program *program = calloc(1, sizeof(*program));

	if (!program)
		return lh_fail(err, LH_ESYS, ENOMEM, "interpret a collective");
	program->n_members = n;
	program->n_chunks = n_chunks;
	program->owner = calloc(n_chunks, sizeof(*program->owner));
	program->n_steps = calloc(n_chunks, sizeof(*program->n_steps));
	program->steps = calloc((size_t)n_chunks * (n - 1) + 1, sizeof(*program->steps));
	if (!program->owner || !program->n_steps || !program->steps) {
		lh_collective_program_free(program);
		return lh_fail(err, LH_ESYS, ENOMEM, "interpret a collective");
	}
	for (uint32_t c = 0; c < n_chunks; c++)
		program->owner[c] = n;
	*ret_program = program;
	return 0;
}

/* All has come, and everything is where it must be. */
static void check_end(struct lh_interpreter *b)
{
	for (uint32_t i = 0; b->rc == 0 && i < b->n; i++) {
		const struct lh_side *side = &b->sides[i];

		if (!lh_collective_flow_is_done(side->flow))
			lh_breach(b, "rank %" PRIu32 " waits for ever", side->plan->self);
		for (uint32_t c = 0; c < side->plan->n_chunks; c++) {
			bool must_have = side->plan->kind != LH_COLLECTIVE_REDUCE_SCATTER ||
					 b->program->owner[c] == i;

			if (!lh_chunk_has_elements(side->plan, c))
				continue;
			if (b->program->owner[c] == b->n)
				lh_breach(b, "chunk %" PRIu32 " is never finished", c);
			if (must_have && side->chunks[c].state != LH_CHUNK_FINISHED)
				lh_breach(b, "rank %" PRIu32 " never gets chunk %" PRIu32,
					  side->plan->self, c);
		}
	}
}

static void simulate(struct lh_interpreter *b, bool *is_closed)
{
	bool has_any = true;

	for (uint32_t i = 0; i < b->n; i++)
		lh_collective_check_order(&b->sides[i], is_closed);
	for (uint32_t i = 0; b->rc == 0 && i < b->n; i++)
		lh_collective_flow_begin(b->sides[i].flow);
	while (b->rc == 0 && has_any) {
		has_any = false;
		for (uint32_t i = 0; i < b->n; i++)
			has_any |= advance(&b->sides[i]);
	}
	check_end(b);
}

static int build(struct lh_interpreter *b, const struct lh_collective_plan *plans)
{
	lh_cleanup_free bool *is_closed = calloc(plans[0].n_chunks, sizeof(*is_closed));

	if (!is_closed)
		return lh_fail(b->err, LH_ESYS, ENOMEM, "interpret a collective");
	for (uint32_t i = 0; b->rc == 0 && i < b->n; i++) {
		lh_collective_check_equal(b, &plans[0], &plans[i]);
		if (b->rc == 0)
			lh_collective_check_bounds(b, &plans[i]);
	}
	for (uint32_t i = 0; b->rc == 0 && i < b->n; i++) {
		b->sides[i] = (struct lh_side){.interpreter = b, .plan = &plans[i], .member = i};
		b->rc = side_open(&b->sides[i], b->err);
	}
	if (b->rc == 0)
		b->rc = lh_collective_pair(b);
	if (b->rc == 0)
		simulate(b, is_closed);
	return b->rc;
}

int lh_collective_program_build(const struct lh_collective_plan *plans, uint32_t n,
				struct lh_collective_program **ret_program, struct lh_error *err)
{
	struct lh_interpreter b = {.n = n, .err = err};
	int rc;

	if (n < 1 || n > LH_COLLECTIVE_MEMBERS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " members; expected 1 to %d", n,
			       LH_COLLECTIVE_MEMBERS_MAX);
	rc = program_alloc(n, plans[0].n_chunks, &b.program, err);
	if (rc)
		return rc;
	b.sides = calloc(n, sizeof(*b.sides));
	rc = b.sides ? build(&b, plans) : lh_fail(err, LH_ESYS, ENOMEM, "interpret a collective");
	for (uint32_t i = 0; b.sides && i < n; i++)
		side_close(&b.sides[i]);
	free(b.sides);
	if (rc) {
		lh_collective_program_free(b.program);
		return rc;
	}
	*ret_program = b.program;
	return 0;
}
