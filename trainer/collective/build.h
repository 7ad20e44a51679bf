/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building plans, for the files that make them. A builder remembers its first failure, so that only
 * the end needs a check.
 */
#ifndef LH_TRAINER_COLLECTIVE_BUILD_H
#define LH_TRAINER_COLLECTIVE_BUILD_H

#include "trainer/collective/plan.h"

struct lh_collective_builder {
	struct lh_collective_plan plan;
	const uint32_t *members; /* borrowed; NULL: 0, 1, ... */
	uint32_t member;	 /* self's place among them */
	uint32_t phases_room;
	uint32_t sends_room;
	uint32_t receives_room;
	bool has_failed; /* no memory */
};

/* The place of rank self among the form's members, which are checked. LH_EINPUT. */
int lh_collective_find_member(const struct lh_collective_form *form, uint32_t self,
			      uint32_t *ret_member, struct lh_error *err);

/* Checks members and sizes, finds self among them, and begins with n_chunks chunks, whose ends the
 * caller fills in (plan.at; at[0] is 0). LH_EINPUT, LH_ESYS; then nothing is left. */
int lh_collective_begin(struct lh_collective_builder *builder,
			const struct lh_collective_form *form, uint32_t self,
			enum lh_collective_kind kind, uint32_t n_chunks, struct lh_error *err);

/* The rank of a member. */
uint32_t lh_collective_rank(const struct lh_collective_builder *builder, uint32_t member);

/* Begins a phase; what follows is added to it. */
void lh_collective_phase(struct lh_collective_builder *builder);

/* Chunks to or from a member; nothing where they have no elements. */
void lh_collective_send(struct lh_collective_builder *builder, uint32_t member,
			uint32_t first_chunk, uint32_t n_chunks);
void lh_collective_reduce(struct lh_collective_builder *builder, uint32_t member,
			  uint32_t first_chunk, uint32_t n_chunks);
void lh_collective_copy(struct lh_collective_builder *builder, uint32_t member,
			uint32_t first_chunk, uint32_t n_chunks);

/* These chunks are finished once the phase's receives are in; once a phase. */
void lh_collective_finish(struct lh_collective_builder *builder, uint32_t first_chunk,
			  uint32_t n_chunks);

/* Hands the plan over, or frees it where something failed. LH_ESYS. */
int lh_collective_end(struct lh_collective_builder *builder, struct lh_collective_plan *ret_plan,
		      struct lh_error *err);

/* Cuts the chunks [first, first + n) into n nearly equal parts of the elements [begin, end): fills
 * in their ends. */
void lh_collective_cut(struct lh_collective_builder *builder, uint32_t first, uint32_t n,
		       uint64_t begin, uint64_t end);

#endif
