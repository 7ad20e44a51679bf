/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One member's numbers during a collective. See numbers.h.
 *
 * A chunk's bytes have a place for the part that is given away, and one for the whole: what comes
 * back must not overwrite what may still be on its way.
 */
#include "trainer/collective/numbers.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/collective/flow.h"
#include "trainer/collective/interpret.h"

struct lh_collective_numbers {
	const struct lh_collective_plan *plan;
	const struct lh_collective_slices *slices;
	const struct lh_codec_ops *codec;
	float divisor;
	struct lh_collective_flow *flow;
	float *values;	       /* the caller's */
	float *scratch;	       /* slices->longest */
	unsigned char *parts;  /* that are given away, on the wire, in the slices' order */
	unsigned char *wholes; /* likewise what is finished */
	bool *is_given;	       /* by chunk */
	bool *is_finished;     /* by chunk */
	unsigned char *inbox;  /* of what is to be added */
	size_t *inbox_at;      /* by receive */
};

int lh_collective_slices_init(struct lh_collective_slices *slices,
			      const struct lh_collective_plan *plan,
			      const struct lh_codec_ops *codec, uint64_t most, struct lh_error *err)
{
	*slices = (struct lh_collective_slices){
		.n_chunks = plan->n_chunks,
		.at = calloc((size_t)plan->n_chunks + 1, sizeof(*slices->at)),
		.wire_at = calloc((size_t)plan->n_chunks + 1, sizeof(*slices->wire_at)),
	};
	if (!slices->at || !slices->wire_at) {
		lh_collective_slices_done(slices);
		return lh_fail(err, LH_ESYS, ENOMEM, "lay out slices");
	}
	for (uint32_t c = 0; c < plan->n_chunks; c++) {
		uint64_t elements = plan->at[c + 1] - plan->at[c];
		uint64_t real = elements < most ? elements : most;

		if (real > UINT32_MAX) {
			lh_collective_slices_done(slices);
			return lh_fail(err, LH_EINPUT, 0,
				       "a chunk of %" PRIu64 " elements; expected below 2^32",
				       real);
		}
		slices->at[c + 1] = slices->at[c] + real;
		slices->wire_at[c + 1] = slices->wire_at[c] + codec->wire_bytes(real);
		if (real > slices->longest)
			slices->longest = real;
	}
	return 0;
}

void lh_collective_slices_done(struct lh_collective_slices *slices)
{
	free(slices->at);
	free(slices->wire_at);
	*slices = (struct lh_collective_slices){0};
}

static size_t wire_bytes_of(const struct lh_collective_numbers *m,
			    const struct lh_collective_move *move)
{
	return m->slices->wire_at[move->first_chunk + move->n_chunks] -
	       m->slices->wire_at[move->first_chunk];
}

static unsigned char *wire_of(const struct lh_collective_numbers *m, unsigned char *wires,
			      const struct lh_collective_move *move)
{
	return wires + m->slices->wire_at[move->first_chunk];
}

static void encode(const struct lh_collective_numbers *m, uint32_t chunk, unsigned char *wires)
{
	m->codec->encode(m->values + m->slices->at[chunk],
			 lh_collective_slice_elements(m->slices, chunk),
			 wires + m->slices->wire_at[chunk]);
}

static void apply(void *context, uint32_t receive, uint32_t chunk)
{
	struct lh_collective_numbers *m = context;
	const struct lh_collective_move *move = &m->plan->receives[receive];
	uint32_t n = lh_collective_slice_elements(m->slices, chunk);

	if (!move->is_reduced) {
		m->is_finished[chunk] = true; /* it came to its place */
		return;
	}
	assert(!m->is_given[chunk] && !m->is_finished[chunk]);
	m->codec->decode(m->inbox + m->inbox_at[receive] + m->slices->wire_at[chunk] -
				 m->slices->wire_at[move->first_chunk],
			 n, m->scratch);
	lh_collective_add(m->values + m->slices->at[chunk], m->scratch, n);
}

static void finish(void *context, uint32_t chunk)
{
	struct lh_collective_numbers *m = context;

	if (m->plan->kind != LH_COLLECTIVE_ALL_GATHER)
		lh_collective_divide(m->values + m->slices->at[chunk],
				     lh_collective_slice_elements(m->slices, chunk), m->divisor);
	encode(m, chunk, m->wholes);
	m->is_finished[chunk] = true;
}

static const struct lh_collective_flow_ops flow_ops = {.apply = apply, .finish = finish};

void lh_collective_numbers_close(struct lh_collective_numbers *numbers)
{
	if (!numbers)
		return;
	lh_collective_flow_close(numbers->flow);
	free(numbers->scratch);
	free(numbers->parts);
	free(numbers->wholes);
	free(numbers->is_given);
	free(numbers->is_finished);
	free(numbers->inbox);
	free(numbers->inbox_at);
	free(numbers);
}

static bool alloc(struct lh_collective_numbers *m)
{
	uint32_t n_chunks = m->plan->n_chunks;
	size_t inbox_bytes = 0;

	m->inbox_at = calloc((size_t)m->plan->n_receives + 1, sizeof(*m->inbox_at));
	if (!m->inbox_at)
		return false;
	for (uint32_t r = 0; r < m->plan->n_receives; r++) {
		m->inbox_at[r] = inbox_bytes;
		if (m->plan->receives[r].is_reduced)
			inbox_bytes += wire_bytes_of(m, &m->plan->receives[r]);
	}
	m->inbox = malloc(inbox_bytes + 1);
	m->parts = malloc(m->slices->wire_at[n_chunks] + 1);
	m->wholes = malloc(m->slices->wire_at[n_chunks] + 1);
	m->scratch = malloc((m->slices->longest + 1) * sizeof(*m->scratch));
	m->is_given = calloc(n_chunks, sizeof(*m->is_given));
	m->is_finished = calloc(n_chunks, sizeof(*m->is_finished));
	return m->inbox && m->parts && m->wholes && m->scratch && m->is_given && m->is_finished;
}

int lh_collective_numbers_open(const struct lh_collective_plan *plan,
			       const struct lh_collective_slices *slices,
			       const struct lh_codec_ops *codec, float divisor,
			       struct lh_collective_numbers **ret_numbers, struct lh_error *err)
{
	struct lh_collective_numbers *m = calloc(1, sizeof(*m));
	int rc;

	if (m) {
		m->plan = plan;
		m->slices = slices;
		m->codec = codec;
		m->divisor = divisor;
	}
	if (!m || !alloc(m)) {
		lh_collective_numbers_close(m);
		return lh_fail(err, LH_ESYS, ENOMEM, "open a collective");
	}
	rc = lh_collective_flow_open(plan, &flow_ops, m, &m->flow, err);
	if (rc) {
		lh_collective_numbers_close(m);
		return rc;
	}
	*ret_numbers = m;
	return 0;
}

void lh_collective_numbers_begin(struct lh_collective_numbers *numbers, float *values)
{
	uint32_t n_chunks = numbers->plan->n_chunks;

	numbers->values = values;
	memset(numbers->is_given, 0, n_chunks * sizeof(*numbers->is_given));
	memset(numbers->is_finished, 0, n_chunks * sizeof(*numbers->is_finished));
	lh_collective_flow_begin(numbers->flow);
}

bool lh_collective_numbers_next(struct lh_collective_numbers *numbers, uint32_t *ret_phase)
{
	return lh_collective_flow_next(numbers->flow, ret_phase);
}

const void *lh_collective_numbers_message(struct lh_collective_numbers *numbers, uint32_t send,
					  size_t *ret_n_bytes)
{
	const struct lh_collective_move *move = &numbers->plan->sends[send];

	*ret_n_bytes = wire_bytes_of(numbers, move);
	for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++) {
		if (numbers->is_finished[c])
			return wire_of(numbers, numbers->wholes, move);
		if (lh_collective_slice_elements(numbers->slices, c) == 0)
			continue;
		encode(numbers, c, numbers->parts);
		numbers->is_given[c] = true;
	}
	return wire_of(numbers, numbers->parts, move);
}

void *lh_collective_numbers_room(struct lh_collective_numbers *numbers, uint32_t receive,
				 size_t *ret_n_bytes)
{
	const struct lh_collective_move *move = &numbers->plan->receives[receive];

	*ret_n_bytes = wire_bytes_of(numbers, move);
	return move->is_reduced ? numbers->inbox + numbers->inbox_at[receive]
				: wire_of(numbers, numbers->wholes, move);
}

void lh_collective_numbers_arrive(struct lh_collective_numbers *numbers, uint32_t receive)
{
	lh_collective_flow_arrive(numbers->flow, receive);
}

bool lh_collective_numbers_is_done(const struct lh_collective_numbers *numbers)
{
	return lh_collective_flow_is_done(numbers->flow);
}

const void *lh_collective_numbers_wire(const struct lh_collective_numbers *numbers, uint32_t chunk)
{
	return numbers->wholes + numbers->slices->wire_at[chunk];
}

const void *lh_collective_numbers_part(const struct lh_collective_numbers *numbers, uint32_t chunk)
{
	return numbers->parts + numbers->slices->wire_at[chunk];
}

void lh_collective_numbers_decode(struct lh_collective_numbers *numbers)
{
	for (uint32_t c = 0; c < numbers->plan->n_chunks; c++)
		if (numbers->is_finished[c])
			numbers->codec->decode(lh_collective_numbers_wire(numbers, c),
					       lh_collective_slice_elements(numbers->slices, c),
					       numbers->values + numbers->slices->at[c]);
}
