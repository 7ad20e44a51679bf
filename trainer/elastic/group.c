/* SPDX-License-Identifier: Apache-2.0 */
/* Averaging in a group that changes. See group.h. */
#include "trainer/elastic/group.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/collective/plan.h"
#include "trainer/strategy/sample.h"

/* The phases of a butterfly's plan. */
enum { REDUCE_SCATTER, ALL_GATHER, N_PHASES };

struct lh_group {
	struct lh_rank *rank;
	struct lh_averaged averaged;
	uint32_t element_bytes;
	/* of the round: */
	const struct lh_group_round *round;
	struct lh_collective_plan plan;
	struct lh_sample_layout layout;
	uint32_t self; /* this member's place in the group */
	uint64_t total;
	struct lh_request *sends;    /* by the plan */
	struct lh_request *receives; /* likewise */
	/* In elements of the longest vector of a round so far: */
	size_t room;
	float *values;
	float *sum;
	uint8_t *mine;	   /* own numbers as sent */
	uint8_t *expected; /* replayed: the averages by own reckoning, as sent */
	uint8_t *averages; /* as sent */
	/* Own shard as each other member sent it, one after another. */
	size_t parts_room;
	uint8_t *parts;
};

int lh_group_open(struct lh_rank *rank, struct lh_averaged averaged, struct lh_group **ret_group,
		  struct lh_error *err)
{
	struct lh_group *g = calloc(1, sizeof(*g));

	if (!g)
		return lh_fail(err, LH_ESYS, ENOMEM, "open a group");
	g->rank = rank;
	g->averaged = averaged;
	g->element_bytes = rank->job->compress->bytes_per_element;
	*ret_group = g;
	return 0;
}

static void free_buffers(struct lh_group *g)
{
	free(g->values);
	free(g->sum);
	free(g->mine);
	free(g->expected);
	free(g->averages);
	g->values = g->sum = NULL;
	g->mine = g->expected = g->averages = NULL;
	g->room = 0;
}

void lh_group_close(struct lh_group *g)
{
	if (!g)
		return;
	free_buffers(g);
	free(g->parts);
	free(g);
}

/* ---- a round's layout --------------------------------------------------------------------- */

static uint32_t place_of(const struct lh_group *g, uint32_t rank)
{
	uint32_t i = 0;

	while (g->round->ranks[i] != rank)
		i++;
	return i;
}

static uint64_t shard_bytes(const struct lh_group *g, uint32_t shard)
{
	return (g->plan.at[shard + 1] - g->plan.at[shard]) * g->element_bytes;
}

static uint32_t head_bytes(const struct lh_group *g, uint32_t shard)
{
	return g->layout.elements[shard] * g->element_bytes;
}

static uint8_t *at_shard(const struct lh_group *g, uint8_t *bytes, uint32_t shard)
{
	return bytes + (size_t)g->layout.at[shard] * g->element_bytes;
}

/* Where a member's part of the own shard comes to. */
static uint8_t *part_of(const struct lh_group *g, uint32_t member)
{
	return g->parts + (size_t)member * head_bytes(g, g->self);
}

static int alloc_buffers(struct lh_group *g, struct lh_error *err)
{
	size_t total = g->layout.total ? g->layout.total : 1;
	size_t parts = (size_t)g->round->n * head_bytes(g, g->self) + 1;

	if (g->room < total) {
		free_buffers(g);
		g->values = calloc(total, sizeof(*g->values));
		g->sum = calloc(total, sizeof(*g->sum));
		g->mine = calloc(total, g->element_bytes);
		g->expected = calloc(total, g->element_bytes);
		g->averages = calloc(total, g->element_bytes);
		if (!g->values || !g->sum || !g->mine || !g->expected || !g->averages)
			return lh_fail(err, LH_ESYS, ENOMEM, "average");
		g->room = total;
	}
	if (g->parts_room < parts) {
		free(g->parts);
		g->parts_room = 0;
		g->parts = malloc(parts);
		if (!g->parts)
			return lh_fail(err, LH_ESYS, ENOMEM, "average");
		g->parts_room = parts;
	}
	return 0;
}

static int begin_round(struct lh_group *g, const struct lh_group_round *round, struct lh_error *err)
{
	const struct lh_collective_form form = {
		.elements = g->averaged.n, .n = round->n, .members = round->ranks};
	int rc;

	g->round = round;
	g->self = place_of(g, g->rank->self);
	g->total = 0;
	for (uint32_t i = 0; i < round->n; i++)
		g->total += round->weights[i];
	assert(g->total);
	if (g->averaged.values)
		lh_sample_layout_init_whole(&g->layout, g->averaged.n, round->n);
	else
		lh_sample_layout_init(&g->layout, g->averaged.n, round->n);
	rc = lh_collective_butterfly.make(&form, g->rank->self, &g->plan, err);
	if (rc == 0)
		rc = alloc_buffers(g, err);
	if (rc)
		return rc;
	g->sends = calloc(g->plan.n_sends + 1, sizeof(*g->sends));
	g->receives = calloc(g->plan.n_receives + 1, sizeof(*g->receives));
	if (!g->sends || !g->receives)
		return lh_fail(err, LH_ESYS, ENOMEM, "average");
	return 0;
}

static void end_round(struct lh_group *g)
{
	lh_collective_plan_done(&g->plan);
	g->plan = (struct lh_collective_plan){0};
	free(g->sends);
	free(g->receives);
	g->sends = g->receives = NULL;
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* Works out everybody's replayed numbers and the averages that must come of them. */
static void reckon(struct lh_group *g)
{
	const struct lh_job *job = g->rank->job;
	uint32_t n = g->layout.total;

	memset(g->sum, 0, n * sizeof(*g->sum));
	for (uint32_t i = 0; i < g->round->n; i++) {
		lh_sample_draw(&g->layout, job->seed, g->round->ranks[i], g->round->draw,
			       g->values);
		job->compress->encode(g->values, n, g->expected);
		if (i == g->self)
			memcpy(g->mine, g->expected, (size_t)n * g->element_bytes);
		job->compress->decode(g->expected, n, g->values);
		lh_sample_add(g->sum, g->values, n, g->round->weights[i]);
	}
	lh_sample_divide(g->sum, n, g->total);
	job->compress->encode(g->sum, n, g->expected);
}

static void encode_own(struct lh_group *g)
{
	if (g->averaged.values)
		g->rank->job->compress->encode(g->averaged.values, g->layout.total, g->mine);
	else
		reckon(g);
}

/* Averages the own shard from what all members sent, in their order. */
static void reduce(struct lh_group *g)
{
	const struct lh_codec_ops *compress = g->rank->job->compress;
	uint32_t n = g->layout.elements[g->self];

	memset(g->sum, 0, n * sizeof(*g->sum));
	for (uint32_t i = 0; i < g->round->n; i++) {
		compress->decode(i == g->self ? at_shard(g, g->mine, i) : part_of(g, i), n,
				 g->values);
		lh_sample_add(g->sum, g->values, n, g->round->weights[i]);
	}
	lh_sample_divide(g->sum, n, g->total);
	compress->encode(g->sum, n, at_shard(g, g->averages, g->self));
}

static int take_all(const struct lh_group *g, struct lh_error *err)
{
	const struct lh_codec_ops *compress = g->rank->job->compress;
	int rc = 0;

	if (g->averaged.values) {
		compress->decode(g->averages, g->layout.total, g->averaged.values);
		return 0;
	}
	for (uint32_t shard = 0; rc == 0 && shard < g->round->n; shard++)
		rc = lh_sample_check(&g->layout, compress, g->round->draw, shard,
				     at_shard(g, g->averages, shard),
				     at_shard(g, g->expected, shard), err);
	return rc;
}

/* ---- messages ----------------------------------------------------------------------------- */

static struct lh_message message_of(const struct lh_group *g, uint32_t phase, uint32_t shard)
{
	return (struct lh_message){
		.epoch = g->round->serial,
		.phase = (uint16_t)phase,
		.samples = g->total,
		.length = shard_bytes(g, shard),
		.head_bytes = head_bytes(g, shard),
	};
}

static void post_receives(struct lh_group *g)
{
	for (uint32_t p = 0; p < g->plan.n_phases; p++) {
		const struct lh_collective_phase *phase = &g->plan.phases[p];

		for (uint32_t i = 0; i < phase->n_receives; i++) {
			uint32_t at = phase->first_receive + i;
			const struct lh_collective_move *move = &g->plan.receives[at];
			struct lh_message message = message_of(g, p, move->first_chunk);
			uint8_t *into = move->is_reduced
						? part_of(g, place_of(g, move->peer))
						: at_shard(g, g->averages, move->first_chunk);

			lh_comm_receive(g->rank->comm, move->peer, &message, into,
					&g->receives[at]);
		}
	}
}

static void post_sends(struct lh_group *g, uint32_t p)
{
	const struct lh_collective_phase *phase = &g->plan.phases[p];
	uint8_t *from = p == REDUCE_SCATTER ? g->mine : g->averages;

	for (uint32_t i = 0; i < phase->n_sends; i++) {
		uint32_t at = phase->first_send + i;
		const struct lh_collective_move *move = &g->plan.sends[at];
		struct lh_message message = message_of(g, p, move->first_chunk);

		lh_comm_send(g->rank->comm, move->peer, &message,
			     at_shard(g, from, move->first_chunk), &g->sends[at]);
	}
}

/* Waits for n requests, whichever ends first; one that failed ends the waiting at once. */
static int wait_for(struct lh_group *g, struct lh_request *requests, uint32_t n,
		    uint32_t *ret_culprit, struct lh_error *err)
{
	lh_cleanup_free struct lh_request **open = calloc(n + 1, sizeof(struct lh_request *));
	int rc = 0;

	if (!open)
		return lh_fail(err, LH_ESYS, ENOMEM, "average");
	for (uint32_t i = 0; i < n; i++)
		open[i] = &requests[i];
	for (uint32_t left = n; rc == 0 && left; left--) {
		uint32_t i = 0;

		rc = lh_comm_wait_any(g->rank->comm, open, n, g->round->deadline_ns, &i, err);
		/* who is waited for when it is too late is to blame */
		for (; rc && i < n && !open[i]; i++)
			;
		*ret_culprit = requests[i].peer;
		if (rc == 0)
			rc = lh_comm_wait(g->rank->comm, open[i], g->round->deadline_ns, err);
		if (rc == 0 && !open[i]->is_send && open[i]->message.samples != g->total)
			rc = lh_fail(err, LH_ERUN, 0,
				     "rank %" PRIu32 " averages %" PRIu64
				     " samples; expected %" PRIu64,
				     open[i]->peer, open[i]->message.samples, g->total);
		open[i] = NULL;
	}
	return rc;
}

static int exchange(struct lh_group *g, int64_t host_ns, uint32_t *ret_culprit,
		    struct lh_error *err)
{
	int rc = 0;

	post_receives(g);
	for (uint32_t p = 0; rc == 0 && p < g->plan.n_phases; p++) {
		const struct lh_collective_phase *phase = &g->plan.phases[p];
		int64_t part_ns = p == REDUCE_SCATTER ? host_ns / 2 : host_ns - host_ns / 2;

		lh_clock_sleep_until(lh_clock_now_ns() + part_ns);
		if (p == REDUCE_SCATTER)
			encode_own(g);
		post_sends(g, p);
		rc = wait_for(g, g->receives + phase->first_receive, phase->n_receives, ret_culprit,
			      err);
		if (rc == 0 && p == REDUCE_SCATTER)
			reduce(g);
	}
	return rc ? rc : wait_for(g, g->sends, g->plan.n_sends, ret_culprit, err);
}

/* After a failure: until no request is pending any more. What has begun ends with its lane. */
static void give_up(struct lh_group *g)
{
	for (uint32_t i = 0; i < g->round->n; i++)
		if (i != g->self)
			lh_comm_detach(g->rank->comm, g->round->ranks[i]);
}

int lh_group_average(struct lh_group *g, const struct lh_group_round *round,
		     struct lh_average *ret_average, uint32_t *ret_culprit, struct lh_error *err)
{
	uint64_t sent_bytes;
	int64_t host_ns;
	int rc;

	*ret_average = (struct lh_average){0};
	*ret_culprit = g->rank->self;
	if ((rc = begin_round(g, round, err))) {
		end_round(g);
		return rc;
	}
	sent_bytes = lh_collective_sent_elements(&g->plan) * g->element_bytes;
	host_ns = lh_rank_host_ns(g->rank, sent_bytes);
	rc = exchange(g, host_ns, ret_culprit, err);
	if (rc)
		give_up(g);
	else
		rc = take_all(g, err);
	lh_comm_take_bytes(g->rank->comm, &ret_average->payload_sent_bytes,
			   &ret_average->payload_received_bytes);
	assert(rc || ret_average->payload_sent_bytes == sent_bytes);
	ret_average->host_ns = host_ns;
	ret_average->group_samples = g->total;
	ret_average->checked_elements = g->averaged.values ? 0 : g->layout.total;
	end_round(g);
	return rc;
}
