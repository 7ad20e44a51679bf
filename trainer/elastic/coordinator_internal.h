/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the coordinator share. */
#ifndef LH_TRAINER_ELASTIC_COORDINATOR_INTERNAL_H
#define LH_TRAINER_ELASTIC_COORDINATOR_INTERNAL_H

#include "trainer/elastic/coordinator.h"
#include "trainer/elastic/grid.h"

enum lh_member_state {
	LH_MEMBER_AWAY,
	LH_MEMBER_WAITING, /* for a time at which it may join */
	LH_MEMBER_LOADING, /* another member's state */
	LH_MEMBER_ACTIVE,
	LH_MEMBER_LEAVING, /* it knows that the training is over */
};

enum lh_member_result { LH_RESULT_NONE, LH_RESULT_DONE, LH_RESULT_FAILED, LH_RESULT_LOST };

/* All that is known of a rank, whether it is there or not. */
struct lh_member {
	enum lh_member_state state;
	uint32_t session;
	uint32_t incarnation;
	int64_t heard_ns;
	int64_t told_ns;
	int64_t step_ns; /* mean time of its micro-batches */
	/* of its incarnation: micro-batches done, and which of these are no longer open */
	uint64_t done;
	uint64_t committed;
	uint64_t limit; /* of done, until it is told more */
	uint32_t state_epoch;
	bool can_go_on; /* its state and its open micro-batches belong together */
	bool is_computing;
	bool is_ready;		  /* no micro-batch is under way, until it is told to compute */
	bool is_left_out;	  /* of this epoch: others do not reach it */
	uint32_t n_blames;	  /* in this epoch */
	uint32_t donor;		  /* while it loads */
	uint32_t n_loads;	  /* of its session */
	int64_t awaited_until_ns; /* while it loads */
	/* of the round */
	bool is_in_round;
	bool is_spoiled; /* the group that it was last in */
	enum lh_member_result result;
	struct lh_grid_place place;
};

enum lh_phase { LH_PHASE_COMPUTING, LH_PHASE_FORMING, LH_PHASE_AVERAGING, LH_PHASE_OVER };

/* Groups that average. */
struct lh_round {
	int64_t begin_ns;
	uint32_t n_members;
	struct lh_notice_member *members; /* n_ranks of room, as the next two */
	uint32_t *incarnations;
	bool *is_void; /* by group: its members need not go on with it */
};

struct lh_coordinator {
	struct lh_coordinator_config config;
	struct lh_member *members; /* by rank */
	enum lh_phase phase;
	uint32_t epoch;
	uint32_t attempt;
	uint32_t number;   /* of the round in the epoch */
	uint32_t n_rounds; /* all that were begun on the grid */
	uint32_t serial;   /* of what was last formed or begun */
	uint32_t last_session;
	int64_t now_ns; /* of the last tick */
	int64_t form_ns;
	bool is_matchmaking;
	int64_t matchmaking_ns; /* since when */
	int64_t few_ns;		/* since when there are too few; INT64_MAX: there are not */
	struct lh_round round;
	struct lh_error error;
	struct lh_coordinator_order *orders;
	size_t n_orders, n_orders_taken, orders_room;
	struct lh_coordinator_record *records;
	size_t n_records, n_records_taken, records_room;
};

bool lh_member_is_connected(const struct lh_member *m);

/* Adds an order; the rest of notice is the caller's. */
void lh_coordinator_tell(struct lh_coordinator *c, uint32_t rank, const struct lh_notice *notice,
			 int64_t now_ns);

void lh_coordinator_note(struct lh_coordinator *c, const struct lh_coordinator_record *record);

/* Ends a member's part; closes: its connection, too. */
void lh_coordinator_drop(struct lh_coordinator *c, uint32_t rank, bool closes, const char *reason,
			 int64_t now_ns);

/* Tells a member to compute, as far as its share of what is missing goes. */
void lh_coordinator_grant(struct lh_coordinator *c, uint32_t rank, int64_t now_ns);

/* Micro-batches that a member has done or will have done, if it lives, when nobody begins any
 * more. */
uint64_t lh_member_sure(const struct lh_member *m);

/* Members that take part in the epoch, or those of them that have nothing under way. */
uint32_t lh_coordinator_count_active(const struct lh_coordinator *c, bool is_ready);

/* All active members compute until the target is reached. */
void lh_coordinator_resume(struct lh_coordinator *c, int64_t now_ns);

/* While members compute or a group forms: whether something followed; if not, whether the group is
 * complete. */
bool lh_coordinator_gather(struct lh_coordinator *c, int64_t now_ns, bool *ret_is_complete);

/* Lets those who wait join or load, where they may now. */
void lh_coordinator_settle(struct lh_coordinator *c, int64_t now_ns);

/* Does what follows from what is known, until nothing does. */
void lh_coordinator_advance(struct lh_coordinator *c, int64_t now_ns);

/* Whether the round that only brings all members together is under way: after the last epoch on a
 * grid. */
bool lh_coordinator_is_closing(const struct lh_coordinator *c);

/* The earlier of due_ns and at_ns, of which the latter counts only if it is still to come: when it
 * has passed, all that follows from it has been done. */
int64_t lh_coordinator_soonest_ns(const struct lh_coordinator *c, int64_t due_ns, int64_t at_ns);

/* When the phase has something to do; INT64_MAX: never. */
int64_t lh_coordinator_phase_due_ns(const struct lh_coordinator *c);

#endif
