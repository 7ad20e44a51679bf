/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training's state on its way from a donor to who joins late: weights, the optimizer's vectors
 * and the steps done, over a connection of its own. The donor copies it between two micro-batches
 * and sends it beside its work. What is replayed has as many bytes and no numbers.
 */
#ifndef LH_TRAINER_ELASTIC_STATE_H
#define LH_TRAINER_ELASTIC_STATE_H

#include "trainer/elastic/mailbox.h"
#include "trainer/rank.h"

/* Who is sent a state at the same time; others are turned away, and try again. */
enum { LH_STATE_SENDERS_MAX = 8 };

struct lh_state_sender;

struct lh_state_senders {
	struct lh_rank *rank; /* borrowed */
	struct lh_state_sender *senders[LH_STATE_SENDERS_MAX];
};

/* Sends this rank's state, which is epoch's, to the visitor, whose socket it takes over, in a
 * thread of its own. LH_ESYS. */
int lh_state_give(struct lh_state_senders *senders, const struct lh_visitor *visitor,
		  uint32_t epoch, struct lh_error *err);

/* Frees those that are done; or, with is_final, ends all. */
void lh_state_reap(struct lh_state_senders *senders, bool is_final);

/* What came of lh_state_load. */
struct lh_state_loaded {
	uint32_t epoch;
	uint64_t n_bytes;
};

/*
 * Loads the state of donor, of at least epoch, until deadline_ns; also ends when a notice comes or
 * the coordinator is out of reach. On success it is this rank's. LH_ERUN, LH_ESYS with why; then
 * nothing has changed.
 */
int lh_state_load(struct lh_rank *rank, struct lh_mailbox *mailbox, uint32_t donor, uint32_t epoch,
		  int64_t deadline_ns, struct lh_state_loaded *ret_loaded, struct lh_error *err);

#endif
