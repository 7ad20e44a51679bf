/* SPDX-License-Identifier: Apache-2.0 */
/* Building and freeing plans. See plan.h and build.h. */
#include "trainer/collective/plan.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/collective/build.h"
#include "trainer/strategy/shard.h"

const struct lh_collective_ops *const lh_collectives[] = {
	&lh_collective_butterfly,
	&lh_collective_ring,
	&lh_collective_halving_doubling,
	&lh_collective_tree,
	&lh_collective_torus,
	&lh_collective_hierarchical,
	NULL,
};

const struct lh_collective_ops *lh_collective_find(const char *name)
{
	for (size_t i = 0; lh_collectives[i]; i++)
		if (strcmp(lh_collectives[i]->name, name) == 0)
			return lh_collectives[i];
	return NULL;
}

void lh_collective_plan_done(struct lh_collective_plan *plan)
{
	free(plan->at);
	free(plan->phases);
	free(plan->sends);
	free(plan->receives);
	*plan = (struct lh_collective_plan){0};
}

void lh_collective_plans_free(struct lh_collective_plan *plans, uint32_t n)
{
	for (uint32_t i = 0; plans && i < n; i++)
		lh_collective_plan_done(&plans[i]);
	free(plans);
}

int lh_collective_plans_make(const struct lh_collective_ops *ops,
			     const struct lh_collective_form *form,
			     struct lh_collective_plan **ret_plans, struct lh_error *err)
{
	struct lh_collective_plan *plans = calloc(form->n, sizeof(*plans));
	int rc = 0;

	if (!plans)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan %s", ops->name);
	for (uint32_t i = 0; rc == 0 && i < form->n; i++)
		rc = ops->make(form, form->members ? form->members[i] : i, &plans[i], err);
	if (rc) {
		lh_collective_plans_free(plans, form->n);
		return rc;
	}
	*ret_plans = plans;
	return 0;
}

uint64_t lh_collective_sent_elements(const struct lh_collective_plan *plan)
{
	uint64_t elements = 0;

	for (uint32_t i = 0; i < plan->n_sends; i++)
		elements += lh_collective_move_elements(plan, &plan->sends[i]);
	return elements;
}

int lh_collective_find_member(const struct lh_collective_form *form, uint32_t self,
			      uint32_t *ret_member, struct lh_error *err)
{
	bool is_found = !form->members && self < form->n;

	if (form->n < 1 || form->n > LH_COLLECTIVE_MEMBERS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " members; expected 1 to %d", form->n,
			       LH_COLLECTIVE_MEMBERS_MAX);
	for (uint32_t i = 0; form->members && i < form->n; i++)
		if (form->members[i] >= LH_COLLECTIVE_RANKS_MAX)
			return lh_fail(err, LH_EINPUT, 0, "rank %" PRIu32 "; expected below %d",
				       form->members[i], LH_COLLECTIVE_RANKS_MAX);
	if (is_found)
		*ret_member = self;
	for (uint32_t i = 0; form->members && i < form->n; i++) {
		if (form->members[i] != self)
			continue;
		if (is_found)
			return lh_fail(err, LH_EINPUT, 0, "rank %" PRIu32 " is a member twice",
				       self);
		is_found = true;
		*ret_member = i;
	}
	return is_found ? 0
			: lh_fail(err, LH_EINPUT, 0, "rank %" PRIu32 " is not among the members",
				  self);
}

int lh_collective_begin(struct lh_collective_builder *builder,
			const struct lh_collective_form *form, uint32_t self,
			enum lh_collective_kind kind, uint32_t n_chunks, struct lh_error *err)
{
	int rc;

	*builder = (struct lh_collective_builder){.members = form->members};
	if (n_chunks < 1 || n_chunks > LH_COLLECTIVE_CHUNKS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " chunks; expected 1 to %d", n_chunks,
			       LH_COLLECTIVE_CHUNKS_MAX);
	rc = lh_collective_find_member(form, self, &builder->member, err);
	if (rc)
		return rc;
	builder->plan = (struct lh_collective_plan){
		.kind = kind,
		.self = self,
		.n_members = form->n,
		.n_chunks = n_chunks,
		.at = calloc((size_t)n_chunks + 1, sizeof(*builder->plan.at)),
	};
	return builder->plan.at ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "make a plan");
}

uint32_t lh_collective_rank(const struct lh_collective_builder *builder, uint32_t member)
{
	assert(member < builder->plan.n_members);
	return builder->members ? builder->members[member] : member;
}

/* Room for one more; false (and so for good) where there is no memory. */
static bool grow(struct lh_collective_builder *builder, void **items, size_t size, uint32_t n,
		 uint32_t *room)
{
	uint32_t more = *room ? 2 * *room : 16;
	void *grown;

	if (builder->has_failed)
		return false;
	if (n < *room)
		return true;
	grown = reallocarray(*items, more, size);
	builder->has_failed = !grown;
	if (!grown)
		return false;
	*items = grown;
	*room = more;
	return true;
}

void lh_collective_phase(struct lh_collective_builder *builder)
{
	struct lh_collective_plan *plan = &builder->plan;

	if (!grow(builder, (void **)&plan->phases, sizeof(*plan->phases), plan->n_phases,
		  &builder->phases_room))
		return;
	plan->phases[plan->n_phases++] = (struct lh_collective_phase){
		.first_send = plan->n_sends,
		.first_receive = plan->n_receives,
	};
}

void lh_collective_send(struct lh_collective_builder *builder, uint32_t member,
			uint32_t first_chunk, uint32_t n_chunks)
{
	struct lh_collective_plan *plan = &builder->plan;
	struct lh_collective_move move = {
		.peer = lh_collective_rank(builder, member),
		.first_chunk = first_chunk,
		.n_chunks = n_chunks,
	};

	assert(member != builder->member && first_chunk + n_chunks <= plan->n_chunks);
	if (lh_collective_move_elements(plan, &move) == 0 ||
	    !grow(builder, (void **)&plan->sends, sizeof(*plan->sends), plan->n_sends,
		  &builder->sends_room))
		return;
	plan->sends[plan->n_sends++] = move;
	plan->phases[plan->n_phases - 1].n_sends++;
}

static void receive(struct lh_collective_builder *builder, uint32_t member, uint32_t first_chunk,
		    uint32_t n_chunks, bool is_reduced)
{
	struct lh_collective_plan *plan = &builder->plan;
	struct lh_collective_move move = {
		.peer = lh_collective_rank(builder, member),
		.first_chunk = first_chunk,
		.n_chunks = n_chunks,
		.is_reduced = is_reduced,
	};

	assert(member != builder->member && first_chunk + n_chunks <= plan->n_chunks);
	if (lh_collective_move_elements(plan, &move) == 0 ||
	    !grow(builder, (void **)&plan->receives, sizeof(*plan->receives), plan->n_receives,
		  &builder->receives_room))
		return;
	plan->receives[plan->n_receives++] = move;
	plan->phases[plan->n_phases - 1].n_receives++;
}

void lh_collective_reduce(struct lh_collective_builder *builder, uint32_t member,
			  uint32_t first_chunk, uint32_t n_chunks)
{
	receive(builder, member, first_chunk, n_chunks, true);
}

void lh_collective_copy(struct lh_collective_builder *builder, uint32_t member,
			uint32_t first_chunk, uint32_t n_chunks)
{
	receive(builder, member, first_chunk, n_chunks, false);
}

void lh_collective_finish(struct lh_collective_builder *builder, uint32_t first_chunk,
			  uint32_t n_chunks)
{
	struct lh_collective_phase *phase;

	if (builder->has_failed)
		return;
	phase = &builder->plan.phases[builder->plan.n_phases - 1];
	assert(phase->n_finished == 0 && first_chunk + n_chunks <= builder->plan.n_chunks);
	phase->first_finished = first_chunk;
	phase->n_finished = n_chunks;
}

int lh_collective_end(struct lh_collective_builder *builder, struct lh_collective_plan *ret_plan,
		      struct lh_error *err)
{
	if (builder->has_failed) {
		lh_collective_plan_done(&builder->plan);
		return lh_fail(err, LH_ESYS, ENOMEM, "make a plan");
	}
	*ret_plan = builder->plan;
	return 0;
}

void lh_collective_cut(struct lh_collective_builder *builder, uint32_t first, uint32_t n,
		       uint64_t begin, uint64_t end)
{
	uint64_t at = begin;

	for (uint32_t i = 0; i < n; i++) {
		at += lh_shard_elements(end - begin, n, i);
		builder->plan.at[first + i + 1] = at;
	}
}
