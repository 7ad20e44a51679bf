/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator of an elastic training: who takes part, how many micro-batches each has done,
 * when they average, and what of it counts. A pure state machine: what happened and when goes in,
 * notices to members and records of decisions come out; it knows no sockets and never waits.
 *
 * An epoch goes on until the members' micro-batches that are done or under way reach the target
 * batch. Each computes up to a limit, its share of what is missing and a tenth more, so that what
 * is computed while news travel is bounded, too. Then all finish what they have begun (FORM,
 * READY); a group of at least min_group averages (BEGIN, RESULT). In one group (hivemind) an
 * averaging that any live member did not end is void: those that are left compute again until they
 * reach the target, and begin another attempt. On a grid (moshpit) an epoch has several rounds of
 * small groups; a group that failed is void by itself and the others go on. What is committed
 * counts once: of each incarnation's micro-batches, in their order, an epoch takes those since the
 * last that was committed or given up.
 *
 * Whoever is silent for LH_COORDINATOR_MISSED heartbeats is dropped, as is who does not end a
 * micro-batch or an averaging in time. Who comes while an epoch has begun loads a member's state
 * first; its epoch waits for it, at most for as long as an averaging may take.
 *
 * Sources: the lighthouse of torchft and the master of PCCL, for a coordinator that moves no data
 * and for joiners whose state is waited for; Hivemind, hivemind/optim/progress_tracker.py, for the
 * target batch; Moshpit All-Reduce, arXiv 2103.03239, algorithm 1, for the grid.
 */
#ifndef LH_TRAINER_ELASTIC_COORDINATOR_H
#define LH_TRAINER_ELASTIC_COORDINATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/elastic/notice.h"
#include "trainer/strategy/settings.h"

enum { LH_COORDINATOR_MISSED = 5 };

struct lh_coordinator_config {
	uint32_t n_ranks;
	uint64_t target; /* samples */
	uint32_t epochs;
	uint32_t min_group;
	int64_t matchmaking_ns; /* a group forms for at least as long, beside computing */
	int64_t timeout_ns; /* of an averaging, of ending a micro-batch, of waiting for a joiner */
	int64_t heartbeat_ns;
	int64_t patience_ns; /* how long there may be too few members */
	/* Grid: rounds per epoch, and its dimensions; 0 rounds: one group. */
	uint32_t rounds;
	uint32_t dimensions[LH_STRATEGY_DIMENSIONS_MAX];
	uint32_t n_dimensions;
	/* By rank, borrowed: samples of a micro-batch, its mean time, and the number of its site.
	 */
	const uint32_t *micro_batch;
	const int64_t *step_ns;
	const uint32_t *site;
};

enum lh_coordinator_record_kind {
	LH_RECORD_JOIN,	  /* a rank has come */
	LH_RECORD_LEAVE,  /* it is dropped; reason */
	LH_RECORD_COMMIT, /* an epoch's micro-batches count; members */
	LH_RECORD_ABORT,  /* a round was void; reason */
};

/* A decision, for the run's records. */
struct lh_coordinator_record {
	enum lh_coordinator_record_kind kind;
	int64_t at_ns;
	uint32_t rank;
	uint32_t session;
	uint32_t incarnation;
	uint32_t epoch;
	uint32_t serial;
	uint32_t attempt; /* of the epoch, from 0 */
	uint32_t n_members;
	/* COMMIT: the coordinator's, until the next input; and by member. */
	const struct lh_notice_member *members;
	const uint32_t *incarnations;
	const char *reason; /* static text, or NULL */
};

/* What is to be told to whom. */
struct lh_coordinator_order {
	uint32_t rank;
	bool closes;		 /* the connection ends when this is out */
	struct lh_notice notice; /* kind 0: nothing but that */
};

struct lh_coordinator;

/* *ret_coordinator is given to lh_coordinator_free. LH_ESYS. */
int lh_coordinator_new(const struct lh_coordinator_config *config, int64_t now_ns,
		       struct lh_coordinator **ret_coordinator, struct lh_error *err);

void lh_coordinator_free(struct lh_coordinator *c); /* NULL is fine */

/* A rank's notice has come. The first of a connection must be JOIN, which ends an older one of that
 * rank. LH_ERUN: what it says cannot be; the connection is to be closed (the member is dropped
 * already). LH_ESYS: no memory. */
int lh_coordinator_take(struct lh_coordinator *c, const struct lh_notice *notice, int64_t now_ns,
			struct lh_error *err);

/* A rank's connection has ended. */
void lh_coordinator_lose(struct lh_coordinator *c, uint32_t rank, int64_t now_ns);

/* Time has passed. */
void lh_coordinator_tick(struct lh_coordinator *c, int64_t now_ns);

/* When lh_coordinator_tick has something to do next. */
int64_t lh_coordinator_due_ns(const struct lh_coordinator *c);

/* The next order or record, in order; false: none left. What they point to holds until the next
 * input. */
bool lh_coordinator_next_order(struct lh_coordinator *c, struct lh_coordinator_order *ret_order);
bool lh_coordinator_next_record(struct lh_coordinator *c, struct lh_coordinator_record *ret_record);

/* All epochs are done. */
bool lh_coordinator_is_over(const struct lh_coordinator *c);

/* How many are connected. */
uint32_t lh_coordinator_n_connected(const struct lh_coordinator *c);

/* LH_ERUN with the reason where the training cannot go on. */
int lh_coordinator_check(const struct lh_coordinator *c, struct lh_error *err);

/* The epoch under way. */
uint32_t lh_coordinator_epoch(const struct lh_coordinator *c);

#endif
