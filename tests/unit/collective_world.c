/* SPDX-License-Identifier: Apache-2.0 */
/* All members of a collective in one process. See collective_world.h. */
#include "tests/unit/collective_world.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

struct message {
	uint32_t from;
	uint32_t to; /* members */
	size_t n_bytes;
	unsigned char *bytes;
};

struct messages {
	size_t n;
	struct message *items;
};

static uint32_t member_of(const struct world *world, uint32_t rank)
{
	for (uint32_t i = 0; i < world->form->n; i++)
		if (world->plans[i].self == rank)
			return i;
	fail_msg("rank %u is no member", rank);
	return 0;
}

static void fill(struct world *world, uint64_t seed)
{
	uint64_t n = world->slices.at[world->slices.n_chunks];
	struct lh_rng rng;

	lh_rng_init(&rng, seed, "values");
	for (uint32_t i = 0; i < world->form->n; i++) {
		world->values[i] = malloc((n + 1) * sizeof(float));
		world->results[i] = malloc((n + 1) * sizeof(float));
		for (uint64_t k = 0; k < n; k++)
			world->values[i][k] = (float)(2 * lh_rng_uniform(&rng) - 1);
		memcpy(world->results[i], world->values[i], n * sizeof(float));
	}
}

void world_open(struct world *world, const struct lh_collective_ops *ops,
		const struct lh_collective_form *form, const struct lh_codec_ops *codec,
		uint64_t seed)
{
	struct lh_error err = {0};
	uint32_t n = form->n;

	*world = (struct world){.form = form, .codec = codec};
	if (lh_collective_plans_make(ops, form, &world->plans, &err) ||
	    lh_collective_program_build(world->plans, n, &world->program, &err) ||
	    lh_collective_slices_init(&world->slices, &world->plans[0], codec, UINT64_MAX, &err))
		fail_msg("%s, %u members, %llu elements: %s", ops->name, n,
			 (unsigned long long)form->elements, err.message);
	world->numbers = calloc(n, sizeof(*world->numbers));
	world->values = calloc(n, sizeof(*world->values));
	world->results = calloc(n, sizeof(*world->results));
	world->sent_bytes = calloc(n, sizeof(*world->sent_bytes));
	fill(world, seed);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(lh_collective_numbers_open(&world->plans[i], &world->slices, codec,
							    (float)n, &world->numbers[i], &err),
				 0);
}

static void post_all(struct world *world, uint32_t member, struct messages *messages)
{
	uint32_t phase;

	while (lh_collective_numbers_next(world->numbers[member], &phase)) {
		const struct lh_collective_phase *p = &world->plans[member].phases[phase];

		for (uint32_t s = p->first_send; s < p->first_send + p->n_sends; s++) {
			struct message *message;
			const void *bytes;

			messages->items = reallocarray(messages->items, messages->n + 1,
						       sizeof(*messages->items));
			message = &messages->items[messages->n++];
			*message = (struct message){
				.from = member,
				.to = member_of(world, world->plans[member].sends[s].peer),
			};
			bytes = lh_collective_numbers_message(world->numbers[member], s,
							      &message->n_bytes);
			message->bytes = malloc(message->n_bytes);
			memcpy(message->bytes, bytes, message->n_bytes);
			world->sent_bytes[member] += message->n_bytes;
		}
	}
}

/* The receive that a member's next message from a rank is for. */
static uint32_t next_receive(const struct lh_collective_plan *plan, uint32_t rank,
			     uint32_t *ordinal)
{
	uint32_t k = 0;

	for (uint32_t r = 0; r < plan->n_receives; r++)
		if (plan->receives[r].peer == rank && k++ == *ordinal) {
			(*ordinal)++;
			return r;
		}
	fail_msg("rank %u expects no more from rank %u", plan->self, rank);
	return 0;
}

static void deliver(struct world *world, struct messages *messages, size_t at, uint32_t *ordinals)
{
	struct message message = messages->items[at];
	uint32_t n = world->form->n;
	uint32_t r = next_receive(&world->plans[message.to], world->plans[message.from].self,
				  &ordinals[message.to * n + message.from]);
	size_t n_bytes;
	void *room = lh_collective_numbers_room(world->numbers[message.to], r, &n_bytes);

	assert_int_equal(n_bytes, message.n_bytes);
	memcpy(room, message.bytes, n_bytes);
	free(message.bytes);
	memmove(&messages->items[at], &messages->items[at + 1],
		(--messages->n - at) * sizeof(*messages->items));
	lh_collective_numbers_arrive(world->numbers[message.to], r);
	post_all(world, message.to, messages);
}

void world_run(struct world *world, struct lh_rng *rng)
{
	uint32_t n = world->form->n;
	uint32_t *ordinals = calloc((size_t)n * n, sizeof(*ordinals));
	struct messages messages = {0};

	for (uint32_t i = 0; i < n; i++)
		lh_collective_numbers_begin(world->numbers[i], world->results[i]);
	for (uint32_t i = 0; i < n; i++)
		post_all(world, i, &messages);
	while (messages.n) {
		struct message *drawn = &messages.items[lh_rng_below(rng, messages.n)];
		size_t at = 0;

		while (messages.items[at].from != drawn->from || messages.items[at].to != drawn->to)
			at++;
		deliver(world, &messages, at, ordinals);
	}
	for (uint32_t i = 0; i < n; i++) {
		assert_true(lh_collective_numbers_is_done(world->numbers[i]));
		lh_collective_numbers_decode(world->numbers[i]);
	}
	free(messages.items);
	free(ordinals);
}

void world_close(struct world *world)
{
	for (uint32_t i = 0; i < world->form->n; i++) {
		lh_collective_numbers_close(world->numbers[i]);
		free(world->values[i]);
		free(world->results[i]);
	}
	free(world->numbers);
	free(world->values);
	free(world->results);
	free(world->sent_bytes);
	lh_collective_slices_done(&world->slices);
	lh_collective_program_free(world->program);
	lh_collective_plans_free(world->plans, world->form->n);
}
