/* SPDX-License-Identifier: Apache-2.0 */
/* Whether plans fit together, as far as it shows without running them. See interpret_internal.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/collective/interpret_internal.h"

static bool is_range(const struct lh_collective_plan *plan, uint32_t first, uint32_t n)
{
	return first <= plan->n_chunks && n <= plan->n_chunks - first;
}

void lh_collective_check_bounds(struct lh_interpreter *b, const struct lh_collective_plan *plan)
{
	bool is_fine = plan->self < LH_COLLECTIVE_RANKS_MAX && plan->at[0] == 0;

	for (uint32_t c = 0; c < plan->n_chunks; c++)
		is_fine = is_fine && plan->at[c] <= plan->at[c + 1];
	for (uint32_t p = 0; p < plan->n_phases; p++) {
		const struct lh_collective_phase *phase = &plan->phases[p];

		is_fine = is_fine &&
			  (uint64_t)phase->first_send + phase->n_sends <= plan->n_sends &&
			  (uint64_t)phase->first_receive + phase->n_receives <= plan->n_receives &&
			  is_range(plan, phase->first_finished, phase->n_finished);
	}
	for (uint32_t i = 0; i < plan->n_sends; i++)
		is_fine = is_fine &&
			  is_range(plan, plan->sends[i].first_chunk, plan->sends[i].n_chunks);
	for (uint32_t i = 0; i < plan->n_receives; i++)
		is_fine = is_fine &&
			  is_range(plan, plan->receives[i].first_chunk, plan->receives[i].n_chunks);
	if (!is_fine)
		lh_breach(b, "rank %" PRIu32 ": a plan beyond its bounds", plan->self);
}

void lh_collective_check_equal(struct lh_interpreter *b, const struct lh_collective_plan *first,
			       const struct lh_collective_plan *plan)
{
	if (plan->kind != first->kind || plan->n_members != b->n ||
	    plan->n_chunks != first->n_chunks ||
	    memcmp(plan->at, first->at, ((size_t)plan->n_chunks + 1) * sizeof(*plan->at)) != 0)
		lh_breach(b, "rank %" PRIu32 " and rank %" PRIu32 " plan different collectives",
			  first->self, plan->self);
}

void lh_collective_check_order(struct lh_side *side, bool *is_closed)
{
	const struct lh_collective_plan *plan = side->plan;

	memset(is_closed, 0, plan->n_chunks * sizeof(*is_closed));
	for (uint32_t p = 0; p < plan->n_phases; p++) {
		const struct lh_collective_phase *phase = &plan->phases[p];

		for (uint32_t s = 0; s < phase->n_sends; s++) {
			const struct lh_collective_move *move = &plan->sends[phase->first_send + s];

			memset(is_closed + move->first_chunk, 1, move->n_chunks);
		}
		for (uint32_t r = 0; r < phase->n_receives; r++) {
			const struct lh_collective_move *move =
				&plan->receives[phase->first_receive + r];

			for (uint32_t i = 0; move->is_reduced && i < move->n_chunks; i++)
				if (is_closed[move->first_chunk + i])
					lh_breach(side->interpreter,
						  "rank %" PRIu32 ": chunk %" PRIu32
						  " is added to once it may be away",
						  plan->self, move->first_chunk + i);
		}
		if (phase->n_finished)
			memset(is_closed + phase->first_finished, 1, phase->n_finished);
	}
}

/* Where the members' receives are looked up. */
struct index {
	uint32_t *member_of; /* by rank; LH_NONE: no member */
	uint32_t *head;	     /* by receiver x n + sender: the first receive not yet paired */
	uint32_t **next;     /* by receiver: by receive: the next from that sender */
};

static void index_done(struct index *index, uint32_t n)
{
	for (uint32_t i = 0; index->next && i < n; i++)
		free(index->next[i]);
	free(index->next);
	free(index->head);
	free(index->member_of);
}

static bool index_alloc(struct index *index, const struct lh_interpreter *b)
{
	size_t n = b->n;

	index->member_of = malloc(LH_COLLECTIVE_RANKS_MAX * sizeof(*index->member_of));
	index->head = malloc(n * n * sizeof(*index->head));
	index->next = calloc(n, sizeof(*index->next));
	if (!index->member_of || !index->head || !index->next)
		return false;
	memset(index->member_of, 0xff, LH_COLLECTIVE_RANKS_MAX * sizeof(*index->member_of));
	memset(index->head, 0xff, n * n * sizeof(*index->head));
	for (uint32_t i = 0; i < n; i++) {
		index->next[i] = malloc((b->sides[i].plan->n_receives + 1) * sizeof(**index->next));
		if (!index->next[i])
			return false;
	}
	return true;
}

/* The member with that rank; a breach where there is none, or it is the asking one. */
static uint32_t find_peer(struct lh_interpreter *b, const struct index *index,
			  const struct lh_side *side, uint32_t rank)
{
	uint32_t peer = rank < LH_COLLECTIVE_RANKS_MAX ? index->member_of[rank] : LH_NONE;

	if (peer == LH_NONE || peer == side->member)
		lh_breach(b,
			  "rank %" PRIu32 " has rank %" PRIu32
			  " as a peer; expected another member",
			  side->plan->self, rank);
	return peer;
}

static void index_receives(struct lh_interpreter *b, struct index *index)
{
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t rank = b->sides[i].plan->self;

		if (index->member_of[rank] != LH_NONE)
			lh_breach(b, "rank %" PRIu32 " has two plans", rank);
		index->member_of[rank] = i;
	}
	for (uint32_t i = 0; b->rc == 0 && i < b->n; i++) {
		struct lh_side *side = &b->sides[i];

		for (uint32_t r = side->plan->n_receives; b->rc == 0 && r-- > 0;) {
			uint32_t from = find_peer(b, index, side, side->plan->receives[r].peer);

			if (b->rc)
				return;
			side->from[r] = from;
			index->next[i][r] = index->head[(size_t)i * b->n + from];
			index->head[(size_t)i * b->n + from] = r;
		}
	}
}

static void pair_send(struct lh_interpreter *b, struct index *index, struct lh_side *side,
		      uint32_t send)
{
	const struct lh_collective_move *move = &side->plan->sends[send], *other;
	uint32_t to = find_peer(b, index, side, move->peer);
	uint32_t *head;

	if (b->rc)
		return;
	head = &index->head[(size_t)to * b->n + side->member];
	if (*head == LH_NONE) {
		lh_breach(b, "rank %" PRIu32 " sends more to rank %" PRIu32 " than that expects",
			  side->plan->self, move->peer);
		return;
	}
	other = &b->sides[to].plan->receives[*head];
	if (other->first_chunk != move->first_chunk || other->n_chunks != move->n_chunks)
		lh_breach(b,
			  "rank %" PRIu32 " sends %" PRIu32 " chunks from %" PRIu32
			  " to rank %" PRIu32 ", which expects %" PRIu32 " from %" PRIu32,
			  side->plan->self, move->n_chunks, move->first_chunk, move->peer,
			  other->n_chunks, other->first_chunk);
	side->to[send] = to;
	side->receive_of[send] = *head;
	*head = index->next[to][*head];
}

int lh_collective_pair(struct lh_interpreter *b)
{
	struct index index = {0};

	if (!index_alloc(&index, b)) {
		index_done(&index, b->n);
		return lh_fail(b->err, LH_ESYS, ENOMEM, "pair messages");
	}
	index_receives(b, &index);
	for (uint32_t i = 0; b->rc == 0 && i < b->n; i++)
		for (uint32_t s = 0; b->rc == 0 && s < b->sides[i].plan->n_sends; s++)
			pair_send(b, &index, &b->sides[i], s);
	for (size_t i = 0; b->rc == 0 && i < (size_t)b->n * b->n; i++)
		if (index.head[i] != LH_NONE)
			lh_breach(b,
				  "rank %" PRIu32 " expects more from rank %" PRIu32
				  " than that sends",
				  b->sides[i / b->n].plan->self, b->sides[i % b->n].plan->self);
	index_done(&index, b->n);
	return b->rc;
}
