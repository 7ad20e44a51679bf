/* SPDX-License-Identifier: Apache-2.0 */
/* What interpret.c and check.c share: the members' sides while their plans are proved. */
#ifndef LH_TRAINER_COLLECTIVE_INTERPRET_INTERNAL_H
#define LH_TRAINER_COLLECTIVE_INTERPRET_INTERNAL_H

#include "trainer/collective/flow.h"
#include "trainer/collective/interpret.h"

enum lh_chunk_state { LH_CHUNK_PARTIAL, LH_CHUNK_GIVEN, LH_CHUNK_FINISHED };

struct lh_chunk_at {
	enum lh_chunk_state state;
	uint32_t count; /* of members whose numbers are in it */
};

enum { LH_NONE = UINT32_MAX };

struct lh_interpreter;

/* One member's side. */
struct lh_side {
	struct lh_interpreter *interpreter;
	const struct lh_collective_plan *plan;
	uint32_t member;
	struct lh_collective_flow *flow;
	struct lh_chunk_at *chunks;
	uint32_t *to;	      /* by send: the member that receives it */
	uint32_t *receive_of; /* by send: which of that member's receives it is */
	uint32_t *from;	      /* by receive: the member that sends it */
};

struct lh_interpreter {
	struct lh_collective_program *program;
	uint32_t n;
	struct lh_side *sides;
	struct lh_error *err;
	int rc;
};

/* Remembers the first breach of a rule. */
#define lh_breach(interpreter, ...)                                                     \
	do {                                                                            \
		if ((interpreter)->rc == 0)                                             \
			(interpreter)->rc =                                             \
				lh_fail((interpreter)->err, LH_EINPUT, 0, __VA_ARGS__); \
	} while (0)

static inline bool lh_chunk_has_elements(const struct lh_collective_plan *plan, uint32_t chunk)
{
	return plan->at[chunk + 1] > plan->at[chunk];
}

/* A plan's numbers point into its own arrays. */
void lh_collective_check_bounds(struct lh_interpreter *b, const struct lh_collective_plan *plan);

/* Both are plans of one collective. */
void lh_collective_check_equal(struct lh_interpreter *b, const struct lh_collective_plan *first,
			       const struct lh_collective_plan *plan);

/* A part must not grow once it may be sent or finished, else bits depend on what comes when.
 * is_closed: room for n_chunks. */
void lh_collective_check_order(struct lh_side *side, bool *is_closed);

/* Pairs the k-th send of every member to a peer with the peer's k-th receive from it. */
int lh_collective_pair(struct lh_interpreter *b);

#endif
