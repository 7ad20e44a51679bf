/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: a member's data connections to those with whom it averages, attached to its communicator
 * only while both are there. A lane stays from round to round; after a void round all of its
 * members close those to each other, so that both ends of a lane always agree about it. Of two
 * members the one with the higher rank connects. For the main thread.
 */
#ifndef LH_TRAINER_ELASTIC_LANES_H
#define LH_TRAINER_ELASTIC_LANES_H

#include "trainer/elastic/mailbox.h"
#include "trainer/rank.h"

struct lh_lane_ends {
	bool is_attached;
	uint32_t session; /* the peer's */
	int fds[LH_COMM_STREAMS_MAX];
};

struct lh_lanes {
	struct lh_rank *rank; /* borrowed, its comm is open; as the next */
	struct lh_mailbox *mailbox;
	uint32_t session;
	uint32_t n_streams;
	struct lh_lane_ends *ends; /* by rank */
};

/* LH_ESYS. */
int lh_lanes_init(struct lh_lanes *lanes, struct lh_rank *rank, struct lh_mailbox *mailbox,
		  struct lh_error *err);

/* Closes all. All zeros is fine. */
void lh_lanes_done(struct lh_lanes *lanes);

/*
 * Makes sure that there are lanes with those members of the round who are of this member's group,
 * until deadline_ns. LH_ERUN with sys ETIMEDOUT or ECANCELED (the round is void), or because one
 * cannot be reached: *ret_culprit is its rank. LH_ESYS.
 */
int lh_lanes_open(struct lh_lanes *lanes, const struct lh_notice *round, uint32_t group,
		  int64_t deadline_ns, uint32_t *ret_culprit, struct lh_error *err);

/* Closes the lane to peer, if there is one, and writes its counters. */
int lh_lanes_close(struct lh_lanes *lanes, uint32_t peer, struct lh_error *err);

#endif
