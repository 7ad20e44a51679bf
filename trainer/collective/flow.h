/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow of one plan: which phases may send, and which received messages may be reduced, as they
 * come. It holds the rules of plan.h, for the executor (run.h) and for the interpreter, which both
 * do with the numbers what it says. It moves nothing itself and allocates only when it is opened.
 */
#ifndef LH_TRAINER_COLLECTIVE_FLOW_H
#define LH_TRAINER_COLLECTIVE_FLOW_H

#include "trainer/collective/plan.h"

struct lh_collective_flow;

struct lh_collective_flow_ops {
	/* The chunk's part of a received message is to be reduced or copied; chunks without
	 * elements do not come. */
	void (*apply)(void *context, uint32_t receive, uint32_t chunk);
	/* All that the chunk takes is in it: divide and encode. */
	void (*finish)(void *context, uint32_t chunk);
};

/* plan (borrowed), ops and context are used until close; *ret_flow is given to
 * lh_collective_flow_close. LH_ESYS. */
int lh_collective_flow_open(const struct lh_collective_plan *plan,
			    const struct lh_collective_flow_ops *ops, void *context,
			    struct lh_collective_flow **ret_flow, struct lh_error *err);

/* NULL is fine. */
void lh_collective_flow_close(struct lh_collective_flow *flow);

/* Begins a round: nothing is received, nothing sent. Finishes what needs nothing. */
void lh_collective_flow_begin(struct lh_collective_flow *flow);

/* The first phase that has something to send and may, each once a round; false: none now. */
bool lh_collective_flow_next(struct lh_collective_flow *flow, uint32_t *ret_phase);

/* A receive's message is in. Once a round for each. */
void lh_collective_flow_arrive(struct lh_collective_flow *flow, uint32_t receive);

/* All is received, and next has told of all phases. */
bool lh_collective_flow_is_done(const struct lh_collective_flow *flow);

#endif
