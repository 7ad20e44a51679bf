/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow of one plan. See flow.h.
 *
 * What is fixed: for every chunk its receives in the plan's order, and behind each of them the
 * phases that must not send before it ("waiters"). What moves: how many of a chunk's receives are
 * applied, and how many chunks each phase still waits for.
 */
#include "trainer/collective/flow.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX };

/* Runs of items, one for each key: run k is items [at[k], at[k + 1]). */
struct runs {
	uint32_t *at;
	uint32_t *items;
};

struct lh_collective_flow {
	const struct lh_collective_plan *plan;
	const struct lh_collective_flow_ops *ops;
	void *context;
	struct runs receives;	/* by chunk */
	struct runs waiters;	/* phases, by place in receives.items */
	uint32_t *next_send;	/* by send: the phase of the next one to that peer, or NONE */
	uint32_t *finish_after; /* by chunk: receives before it is finished, or NONE */
	uint32_t *n_awaited;	/* by phase: chunks and sends that come first */
	uint32_t n_to_apply;	/* chunks of receives */
	/* Of the round: */
	uint32_t *n_applied; /* by chunk */
	uint32_t *n_missing; /* by phase: of n_awaited */
	bool *has_arrived;   /* by receive */
	uint32_t *ready;     /* phases that may send, a heap with the first on top */
	uint32_t n_ready;
	uint32_t n_untaken; /* phases that have something to send */
	uint32_t n_unapplied;
};

static bool has_elements(const struct lh_collective_plan *plan, uint32_t chunk)
{
	return plan->at[chunk + 1] > plan->at[chunk];
}

static void runs_done(struct runs *runs)
{
	free(runs->at);
	free(runs->items);
}

/* at[k + 1] holds the length of run k: makes ends of them, and room for the items. */
static bool runs_lay_out(struct runs *runs, uint32_t n_keys)
{
	for (uint32_t k = 0; k < n_keys; k++)
		runs->at[k + 1] += runs->at[k];
	runs->items = malloc(((size_t)runs->at[n_keys] + 1) * sizeof(*runs->items));
	return runs->items != NULL;
}

void lh_collective_flow_close(struct lh_collective_flow *flow)
{
	if (!flow)
		return;
	runs_done(&flow->receives);
	runs_done(&flow->waiters);
	free(flow->next_send);
	free(flow->finish_after);
	free(flow->n_awaited);
	free(flow->n_applied);
	free(flow->n_missing);
	free(flow->has_arrived);
	free(flow->ready);
	free(flow);
}

static void count_receives(struct lh_collective_flow *flow, const struct lh_collective_move *move)
{
	for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++)
		flow->receives.at[c + 1] += has_elements(flow->plan, c);
}

/* Every chunk's receives, in the plan's order. */
static bool list_receives(struct lh_collective_flow *flow)
{
	const struct lh_collective_plan *plan = flow->plan;
	uint32_t *n_listed = flow->n_applied; /* free until a round begins */

	for (uint32_t r = 0; r < plan->n_receives; r++)
		count_receives(flow, &plan->receives[r]);
	if (!runs_lay_out(&flow->receives, plan->n_chunks))
		return false;
	for (uint32_t r = 0; r < plan->n_receives; r++) {
		const struct lh_collective_move *move = &plan->receives[r];

		for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++)
			if (has_elements(plan, c))
				flow->receives.items[flow->receives.at[c] + n_listed[c]++] = r;
	}
	flow->n_to_apply = flow->receives.at[plan->n_chunks];
	return true;
}

/* Walking through the plan: */
struct walk {
	uint32_t *n_before; /* by chunk: receives in the phases before */
	uint32_t *n_listed; /* by place: waiters; NULL: they are counted */
};

static void walk_send(struct lh_collective_flow *flow, struct walk *walk, uint32_t phase,
		      const struct lh_collective_move *move)
{
	for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++) {
		uint32_t place = flow->receives.at[c] + walk->n_before[c] - 1;

		if (walk->n_before[c] == 0 || !has_elements(flow->plan, c))
			continue;
		if (!walk->n_listed) {
			flow->waiters.at[place + 1]++;
			continue;
		}
		flow->waiters.items[flow->waiters.at[place] + walk->n_listed[place]++] = phase;
		flow->n_awaited[phase]++;
	}
}

static void walk_plan(struct lh_collective_flow *flow, struct walk *walk)
{
	const struct lh_collective_plan *plan = flow->plan;

	memset(walk->n_before, 0, plan->n_chunks * sizeof(*walk->n_before));
	for (uint32_t p = 0; p < plan->n_phases; p++) {
		const struct lh_collective_phase *phase = &plan->phases[p];

		for (uint32_t s = 0; s < phase->n_sends; s++)
			walk_send(flow, walk, p, &plan->sends[phase->first_send + s]);
		for (uint32_t r = 0; r < phase->n_receives; r++) {
			const struct lh_collective_move *move =
				&plan->receives[phase->first_receive + r];

			for (uint32_t i = 0; i < move->n_chunks; i++)
				walk->n_before[move->first_chunk + i]++;
		}
		for (uint32_t i = 0; i < phase->n_finished; i++)
			flow->finish_after[phase->first_finished + i] =
				walk->n_before[phase->first_finished + i];
	}
}

/* The phases that wait for each chunk's receives. */
static bool list_waiters(struct lh_collective_flow *flow)
{
	uint32_t n_places = flow->n_to_apply;
	uint32_t *n_listed = calloc((size_t)n_places + 1, sizeof(*n_listed));
	struct walk walk = {.n_before = flow->n_applied}; /* free until a round begins */
	bool has_room = false;

	flow->waiters.at = calloc((size_t)n_places + 1, sizeof(*flow->waiters.at));
	if (n_listed && flow->waiters.at) {
		walk_plan(flow, &walk);
		has_room = runs_lay_out(&flow->waiters, n_places);
	}
	if (has_room) {
		walk.n_listed = n_listed;
		walk_plan(flow, &walk);
	}
	free(n_listed);
	return has_room;
}

/* Messages to one peer keep their order. */
static bool link_sends(struct lh_collective_flow *flow)
{
	const struct lh_collective_plan *plan = flow->plan;
	uint32_t n_peers = 1;
	uint32_t *next; /* by peer */

	for (uint32_t s = 0; s < plan->n_sends; s++)
		if (plan->sends[s].peer >= n_peers)
			n_peers = plan->sends[s].peer + 1;
	next = malloc(n_peers * sizeof(*next));
	if (!next)
		return false;
	memset(next, 0xff, n_peers * sizeof(*next));
	for (uint32_t p = plan->n_phases; p-- > 0;) {
		const struct lh_collective_phase *phase = &plan->phases[p];

		for (uint32_t s = phase->first_send; s < phase->first_send + phase->n_sends; s++) {
			uint32_t peer = plan->sends[s].peer;

			flow->next_send[s] = next[peer] == p ? NONE : next[peer];
			if (flow->next_send[s] != NONE)
				flow->n_awaited[flow->next_send[s]]++;
			next[peer] = p;
		}
	}
	free(next);
	return true;
}

static bool alloc(struct lh_collective_flow *flow)
{
	const struct lh_collective_plan *plan = flow->plan;
	size_t n_chunks = plan->n_chunks, n_phases = plan->n_phases;

	flow->receives.at = calloc(n_chunks + 1, sizeof(*flow->receives.at));
	flow->next_send = calloc((size_t)plan->n_sends + 1, sizeof(*flow->next_send));
	flow->finish_after = malloc(n_chunks * sizeof(*flow->finish_after));
	flow->n_awaited = calloc(n_phases, sizeof(*flow->n_awaited));
	flow->n_applied = calloc(n_chunks, sizeof(*flow->n_applied));
	flow->n_missing = calloc(n_phases, sizeof(*flow->n_missing));
	flow->has_arrived = calloc((size_t)plan->n_receives + 1, sizeof(*flow->has_arrived));
	flow->ready = calloc(n_phases, sizeof(*flow->ready));
	if (!flow->receives.at || !flow->next_send || !flow->finish_after || !flow->n_awaited ||
	    !flow->n_applied || !flow->n_missing || !flow->has_arrived || !flow->ready)
		return false;
	memset(flow->finish_after, 0xff, n_chunks * sizeof(*flow->finish_after));
	return true;
}

int lh_collective_flow_open(const struct lh_collective_plan *plan,
			    const struct lh_collective_flow_ops *ops, void *context,
			    struct lh_collective_flow **ret_flow, struct lh_error *err)
{
	struct lh_collective_flow *flow = calloc(1, sizeof(*flow));

	if (flow) {
		flow->plan = plan;
		flow->ops = ops;
		flow->context = context;
	}
	if (!flow || !alloc(flow) || !list_receives(flow) || !list_waiters(flow) ||
	    !link_sends(flow)) {
		lh_collective_flow_close(flow);
		return lh_fail(err, LH_ESYS, ENOMEM, "open the flow of a collective");
	}
	*ret_flow = flow;
	return 0;
}

static void make_ready(struct lh_collective_flow *flow, uint32_t phase)
{
	uint32_t at = flow->n_ready++;

	for (; at && flow->ready[(at - 1) / 2] > phase; at = (at - 1) / 2)
		flow->ready[at] = flow->ready[(at - 1) / 2];
	flow->ready[at] = phase;
}

static uint32_t take_ready(struct lh_collective_flow *flow)
{
	uint32_t first = flow->ready[0], last = flow->ready[--flow->n_ready], at = 0;

	for (uint32_t child = 1; child < flow->n_ready; child = 2 * at + 1) {
		if (child + 1 < flow->n_ready && flow->ready[child + 1] < flow->ready[child])
			child++;
		if (last <= flow->ready[child])
			break;
		flow->ready[at] = flow->ready[child];
		at = child;
	}
	flow->ready[at] = last;
	return first;
}

void lh_collective_flow_begin(struct lh_collective_flow *flow)
{
	const struct lh_collective_plan *plan = flow->plan;

	memset(flow->n_applied, 0, plan->n_chunks * sizeof(*flow->n_applied));
	memset(flow->has_arrived, 0, plan->n_receives * sizeof(*flow->has_arrived));
	memcpy(flow->n_missing, flow->n_awaited, plan->n_phases * sizeof(*flow->n_missing));
	flow->n_ready = 0;
	flow->n_untaken = 0;
	flow->n_unapplied = flow->n_to_apply;
	for (uint32_t p = 0; p < plan->n_phases; p++) {
		flow->n_untaken += plan->phases[p].n_sends > 0;
		if (plan->phases[p].n_sends && flow->n_missing[p] == 0)
			make_ready(flow, p);
	}
	for (uint32_t chunk = 0; chunk < plan->n_chunks; chunk++)
		if (flow->finish_after[chunk] == 0 && has_elements(plan, chunk))
			flow->ops->finish(flow->context, chunk);
}

/* One of what the phase waits for is there. */
static void settle(struct lh_collective_flow *flow, uint32_t phase)
{
	if (--flow->n_missing[phase] == 0)
		make_ready(flow, phase);
}

bool lh_collective_flow_next(struct lh_collective_flow *flow, uint32_t *ret_phase)
{
	const struct lh_collective_phase *phase;

	if (flow->n_ready == 0)
		return false;
	*ret_phase = take_ready(flow);
	phase = &flow->plan->phases[*ret_phase];
	flow->n_untaken--;
	for (uint32_t s = phase->first_send; s < phase->first_send + phase->n_sends; s++)
		if (flow->next_send[s] != NONE)
			settle(flow, flow->next_send[s]);
	return true;
}

/* Applies what has come for the chunk, as far as its order allows. */
static void apply_chunk(struct lh_collective_flow *flow, uint32_t chunk)
{
	uint32_t begin = flow->receives.at[chunk], end = flow->receives.at[chunk + 1];

	for (uint32_t place = begin + flow->n_applied[chunk];
	     place < end && flow->has_arrived[flow->receives.items[place]]; place++) {
		flow->ops->apply(flow->context, flow->receives.items[place], chunk);
		flow->n_unapplied--;
		if (++flow->n_applied[chunk] == flow->finish_after[chunk])
			flow->ops->finish(flow->context, chunk);
		for (uint32_t w = flow->waiters.at[place]; w < flow->waiters.at[place + 1]; w++)
			settle(flow, flow->waiters.items[w]);
	}
}

void lh_collective_flow_arrive(struct lh_collective_flow *flow, uint32_t receive)
{
	const struct lh_collective_move *move = &flow->plan->receives[receive];

	assert(!flow->has_arrived[receive]);
	flow->has_arrived[receive] = true;
	for (uint32_t c = move->first_chunk; c < move->first_chunk + move->n_chunks; c++)
		if (has_elements(flow->plan, c))
			apply_chunk(flow, c);
}

bool lh_collective_flow_is_done(const struct lh_collective_flow *flow)
{
	return flow->n_untaken == 0 && flow->n_unapplied == 0;
}
