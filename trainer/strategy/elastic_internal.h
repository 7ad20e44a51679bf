/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the elastic loop share. See elastic.c. */
#ifndef LH_TRAINER_STRATEGY_ELASTIC_INTERNAL_H
#define LH_TRAINER_STRATEGY_ELASTIC_INTERNAL_H

#include "trainer/elastic/door.h"
#include "trainer/elastic/group.h"
#include "trainer/elastic/lanes.h"
#include "trainer/elastic/link.h"
#include "trainer/elastic/mailbox.h"
#include "trainer/elastic/office.h"
#include "trainer/elastic/state.h"

/* The round that this member is in, or was last. */
struct lh_elastic_round {
	bool is_open; /* what it came to is not decided yet */
	struct lh_notice begin;
	uint32_t group;
	uint64_t samples; /* of all its members */
	int64_t epoch_ns; /* when the epoch's first round began */
	int64_t begin_ns; /* of this one */
	int64_t end_ns;
	int64_t matchmaking_ns;
	struct lh_average average; /* of the epoch's rounds */
};

struct lh_elastic {
	struct lh_rank *rank;
	const struct lh_job *job;
	bool is_grid; /* weights are averaged, in small groups */
	struct lh_mailbox mailbox;
	struct lh_door *door;
	struct lh_office *office; /* rank 0's; it reads the three arrays behind it */
	uint32_t *micro_batch;
	int64_t *step_ns;
	uint32_t *site;
	struct lh_link *link; /* NULL while the coordinator is out of reach */
	struct lh_lanes lanes;
	struct lh_group *group;
	struct lh_state_senders senders;
	struct lh_averaged averaged;
	/* Where numbers are real: what was computed before a round that may be void (kept:
	 * gradients of kept_batches micro-batches; before: weights), and room for weights. */
	float *kept;
	uint64_t kept_batches;
	float *weights;
	float *before;
	bool has_stepped; /* grid: the epoch's own step is done */
	/* Of this incarnation: micro-batches done; the first of them that is open. */
	uint64_t done;
	uint64_t from;
	uint32_t epoch; /* of the state */
	bool has_joined;
	bool computes; /* while less than limit are done; where it stops, less than floor */
	bool stops;
	bool is_at_work; /* a micro-batch is under way */
	uint64_t limit;
	uint64_t floor;
	uint32_t form_serial;
	bool is_over;
	int64_t step_begin_ns;
	int64_t compute_end_ns;
	struct lh_late_update late;
	struct lh_elastic_round round;
};

/* How long a member looks for its coordinator, a coordinator for members, and a state may take to
 * load. */
int64_t lh_elastic_patience_ns(const struct lh_job *job);

/* Of rank 0. LH_ESYS. */
int lh_elastic_open_office(struct lh_elastic *t, struct lh_error *err);

/* The door's visitors; context: the struct lh_elastic. */
void lh_elastic_take_visitor(void *context, int fd, const struct lh_frame *hello);

/* Reaches the coordinator and joins. LH_ERUN where it is not there in time, or refuses; LH_ESYS. */
int lh_elastic_join(struct lh_elastic *t, int64_t within_ns, struct lh_error *err);

/* The same once it is out of reach, or has dropped this member. */
int lh_elastic_rejoin(struct lh_elastic *t, const struct lh_error *why, struct lh_error *err);

/* Begins and runs the round. */
int lh_elastic_begin(struct lh_elastic *t, struct lh_notice *begin, struct lh_error *err);

/* The round is void. */
int lh_elastic_abort(struct lh_elastic *t, const struct lh_notice *notice, struct lh_error *err);

/* What the round came to counts: the epoch ends. */
int lh_elastic_commit(struct lh_elastic *t, const struct lh_notice *notice, struct lh_error *err);

/* Closes the lanes to the members of the last round's group. */
int lh_elastic_close_lanes(struct lh_elastic *t, struct lh_error *err);

/* Ends a late update whose time has come, or (waits) any. */
int lh_elastic_finish_late(struct lh_elastic *t, bool waits, struct lh_error *err);

/* Drops what is computed and not committed: micro-batches [from, done). */
int lh_elastic_give_up(struct lh_elastic *t, const char *reason, struct lh_error *err);

#endif
