/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds, and epochs that end. See coordinator.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trainer/elastic/coordinator_internal.h"

/* As often as others fail at a member within an epoch, until it is left out of it. */
enum { BLAMES_MAX = 2 };

#define NS_PER_S 1e9

static bool is_on_grid(const struct lh_coordinator *c)
{
	return c->config.rounds && !lh_coordinator_is_closing(c);
}

/* ---- rounds ------------------------------------------------------------------------------- */

static void divide_into_groups(struct lh_coordinator *c)
{
	const struct lh_grid_place *places[LH_JOB_RANKS_MAX];
	uint32_t groups[LH_JOB_RANKS_MAX] = {0};
	struct lh_round *r = &c->round;
	uint32_t d = c->config.n_dimensions;

	for (uint32_t i = 0; i < r->n_members; i++)
		places[i] = &c->members[r->members[i].rank].place;
	if (is_on_grid(c))
		lh_grid_group(places, r->n_members, d, lh_grid_axis(c->n_rounds, d), groups);
	for (uint32_t i = 0; i < r->n_members; i++)
		r->members[i].group = groups[i];
}

static void move_on_grid(struct lh_coordinator *c)
{
	struct lh_grid_place *places[LH_JOB_RANKS_MAX];
	uint32_t groups[LH_JOB_RANKS_MAX];
	struct lh_round *r = &c->round;

	for (uint32_t i = 0; i < r->n_members; i++) {
		places[i] = &c->members[r->members[i].rank].place;
		groups[i] = r->members[i].group;
	}
	lh_grid_move(places, r->n_members, groups,
		     lh_grid_axis(c->n_rounds, c->config.n_dimensions));
	c->n_rounds++;
}

/* Those that are there and ready; on a grid from the second round on: those still in it. */
static void list_members(struct lh_coordinator *c)
{
	struct lh_round *r = &c->round;
	bool continues = c->number > 0;

	r->n_members = 0;
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		struct lh_member *m = &c->members[rank];

		if (m->state != LH_MEMBER_ACTIVE || !m->is_ready || (continues && !m->is_in_round))
			continue;
		r->incarnations[r->n_members] = m->incarnation;
		r->members[r->n_members++] = (struct lh_notice_member){
			.rank = rank,
			.session = m->session,
			.flags = m->is_spoiled ? LH_NOTICE_SPOILED : 0,
			.from = m->committed,
			.to = m->done,
		};
	}
}

static void begin(struct lh_coordinator *c, int64_t now_ns)
{
	struct lh_round *r = &c->round;
	struct lh_notice notice = {.kind = LH_NOTICE_BEGIN,
				   .epoch = c->epoch,
				   .number = c->number,
				   .count = c->attempt,
				   .time_ns = now_ns - c->matchmaking_ns};

	c->phase = LH_PHASE_AVERAGING;
	notice.serial = ++c->serial;
	list_members(c);
	divide_into_groups(c);
	r->begin_ns = now_ns;
	memset(r->is_void, 0, c->config.n_ranks * sizeof(*r->is_void));
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++)
		c->members[rank].is_in_round = false;
	notice.n_members = r->n_members;
	notice.members = r->members;
	for (uint32_t i = 0; i < r->n_members; i++) {
		struct lh_member *m = &c->members[r->members[i].rank];

		m->is_in_round = true;
		m->is_spoiled = false;
		m->result = LH_RESULT_NONE;
		lh_coordinator_tell(c, r->members[i].rank, &notice, now_ns);
	}
}

static void note_commit(struct lh_coordinator *c, int64_t now_ns)
{
	lh_coordinator_note(c, &(struct lh_coordinator_record){
				       .kind = LH_RECORD_COMMIT,
				       .at_ns = now_ns,
				       .epoch = c->epoch,
				       .serial = c->serial,
				       .attempt = c->attempt,
				       .n_members = c->round.n_members,
				       .members = c->round.members,
				       .incarnations = c->round.incarnations,
			       });
}

/* Who stays where it is while others do not reach it. Rank 0 is where the coordinator is. */
static void leave_out_blamed(struct lh_coordinator *c)
{
	for (uint32_t rank = c->config.n_ranks - 1; rank > 0; rank--) {
		struct lh_member *m = &c->members[rank];

		if (m->state != LH_MEMBER_ACTIVE || m->n_blames < BLAMES_MAX)
			continue;
		m->state = LH_MEMBER_WAITING;
		m->is_left_out = true;
		m->is_ready = m->is_computing = false;
		return; /* one may be blamed for another; the next attempt shows */
	}
}

/* The group's averaging is void: another is tried. */
static void abort_round(struct lh_coordinator *c, const char *reason, int64_t now_ns)
{
	struct lh_round *r = &c->round;

	lh_coordinator_note(c, &(struct lh_coordinator_record){
				       .kind = LH_RECORD_ABORT,
				       .at_ns = now_ns,
				       .epoch = c->epoch,
				       .serial = c->serial,
				       .attempt = c->attempt,
				       .reason = reason,
			       });
	for (uint32_t i = 0; i < r->n_members; i++) {
		struct lh_member *m = &c->members[r->members[i].rank];

		if (m->is_in_round && m->result != LH_RESULT_LOST &&
		    m->session == r->members[i].session && lh_member_is_connected(m))
			lh_coordinator_tell(c, r->members[i].rank,
					    &(struct lh_notice){.kind = LH_NOTICE_ABORT,
								.epoch = c->epoch,
								.serial = c->serial},
					    now_ns);
		m->is_in_round = false;
	}
	c->attempt++;
	c->phase = LH_PHASE_FORMING;
	c->form_ns = now_ns;
	leave_out_blamed(c);
	lh_coordinator_settle(c, now_ns);
}

static void end_training(struct lh_coordinator *c, int64_t now_ns)
{
	c->phase = LH_PHASE_OVER;
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		struct lh_member *m = &c->members[rank];

		if (!lh_member_is_connected(m))
			continue;
		m->state = LH_MEMBER_LEAVING;
		lh_coordinator_tell(c, rank,
				    &(struct lh_notice){.kind = LH_NOTICE_END,
							.epoch = c->epoch,
							.count = m->committed},
				    now_ns);
	}
}

/* The members' micro-batches count; also of those that were lost since they gave theirs. */
static void take_over(struct lh_coordinator *c, uint32_t index, uint64_t samples, int64_t now_ns)
{
	const struct lh_notice_member *entry = &c->round.members[index];
	struct lh_member *m = &c->members[entry->rank];

	if (m->incarnation == c->round.incarnations[index] && m->committed < entry->to)
		m->committed = entry->to;
	if (m->state != LH_MEMBER_ACTIVE || m->session != entry->session)
		return;
	m->state_epoch = c->epoch + 1;
	m->is_ready = m->is_computing = false;
	lh_coordinator_tell(c, entry->rank,
			    &(struct lh_notice){.kind = LH_NOTICE_COMMIT,
						.epoch = c->epoch,
						.serial = c->serial,
						.count = samples,
						.number = m->is_spoiled ? LH_NOTICE_SPOILED : 0},
			    now_ns);
}

static void commit(struct lh_coordinator *c, int64_t now_ns)
{
	uint64_t samples = 0;

	note_commit(c, now_ns);
	for (uint32_t i = 0; i < c->round.n_members; i++) {
		const struct lh_notice_member *entry = &c->round.members[i];

		samples += (entry->to - entry->from) * c->config.micro_batch[entry->rank];
	}
	for (uint32_t i = 0; i < c->round.n_members; i++)
		take_over(c, i, samples, now_ns);
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		struct lh_member *m = &c->members[rank];

		m->is_in_round = m->is_spoiled = m->is_left_out = false;
		m->n_blames = 0;
		m->result = LH_RESULT_NONE;
	}
	c->epoch++;
	c->attempt = c->number = 0;
	c->is_matchmaking = false;
	if (c->epoch > c->config.epochs ||
	    (c->epoch == c->config.epochs && !lh_coordinator_is_closing(c))) {
		end_training(c, now_ns);
	} else if (lh_coordinator_is_closing(c)) {
		c->phase = LH_PHASE_COMPUTING; /* with nothing to compute */
		lh_coordinator_settle(c, now_ns);
	} else {
		lh_coordinator_resume(c, now_ns);
		lh_coordinator_settle(c, now_ns);
	}
}

/* Members by what came of the round, in one group or (group UINT32_MAX) in all. */
static uint32_t count_results(const struct lh_coordinator *c, uint32_t group,
			      enum lh_member_result result)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->round.n_members; i++) {
		const struct lh_notice_member *entry = &c->round.members[i];

		n += (group == UINT32_MAX || entry->group == group) &&
		     c->members[entry->rank].result == result;
	}
	return n;
}

static bool drop_stuck(struct lh_coordinator *c, int64_t now_ns)
{
	int64_t grace_ns = LH_COORDINATOR_MISSED * c->config.heartbeat_ns;

	if (now_ns < c->round.begin_ns + c->config.timeout_ns + grace_ns)
		return false;
	for (uint32_t i = 0; i < c->round.n_members; i++) {
		uint32_t rank = c->round.members[i].rank;

		if (c->members[rank].result == LH_RESULT_NONE)
			lh_coordinator_drop(c, rank, true, "it did not end averaging in time",
					    now_ns);
	}
	return true;
}

/* One group: whether something followed. */
static bool follow_group(struct lh_coordinator *c, int64_t now_ns)
{
	uint32_t n_open = count_results(c, UINT32_MAX, LH_RESULT_NONE);

	if (count_results(c, UINT32_MAX, LH_RESULT_FAILED))
		abort_round(c, "a member failed", now_ns);
	else if (n_open && count_results(c, UINT32_MAX, LH_RESULT_LOST))
		abort_round(c, "a member was lost", now_ns);
	else if (!n_open && !count_results(c, UINT32_MAX, LH_RESULT_DONE))
		abort_round(c, "all members were lost", now_ns);
	else if (!n_open)
		commit(c, now_ns);
	else
		return false;
	return true;
}

/* Tells who still averages in a group that cannot be complete. */
static void void_group(struct lh_coordinator *c, uint32_t group, int64_t now_ns)
{
	if (c->round.is_void[group])
		return;
	c->round.is_void[group] = true;
	for (uint32_t i = 0; i < c->round.n_members; i++) {
		const struct lh_notice_member *entry = &c->round.members[i];

		if (entry->group == group && c->members[entry->rank].result == LH_RESULT_NONE)
			lh_coordinator_tell(c, entry->rank,
					    &(struct lh_notice){.kind = LH_NOTICE_ABORT,
								.epoch = c->epoch,
								.serial = c->serial},
					    now_ns);
	}
}

/* What those computed who were lost before their epoch's last round does not count. */
static void forget_lost(struct lh_coordinator *c)
{
	struct lh_round *r = &c->round;
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n_members; i++) {
		if (c->members[r->members[i].rank].result == LH_RESULT_LOST)
			continue;
		r->members[n] = r->members[i];
		r->incarnations[n++] = r->incarnations[i];
	}
	r->n_members = n;
}

static void end_grid_round(struct lh_coordinator *c, int64_t now_ns)
{
	for (uint32_t i = 0; i < c->round.n_members; i++)
		c->members[c->round.members[i].rank].is_spoiled =
			c->round.is_void[c->round.members[i].group];
	move_on_grid(c);
	forget_lost(c);
	c->number++;
	if (c->number < c->config.rounds && c->round.n_members)
		begin(c, now_ns);
	else
		commit(c, now_ns);
}

/* A grid: whether something followed. */
static bool follow_grid(struct lh_coordinator *c, int64_t now_ns)
{
	for (uint32_t i = 0; i < c->round.n_members; i++) {
		uint32_t group = c->round.members[i].group;

		if (count_results(c, group, LH_RESULT_FAILED) ||
		    (count_results(c, group, LH_RESULT_LOST) &&
		     count_results(c, group, LH_RESULT_NONE)))
			void_group(c, group, now_ns);
	}
	if (count_results(c, UINT32_MAX, LH_RESULT_NONE))
		return false;
	end_grid_round(c, now_ns);
	return true;
}

/* ---- what follows ------------------------------------------------------------------------- */

static void watch_numbers(struct lh_coordinator *c, int64_t now_ns)
{
	uint32_t n = lh_coordinator_count_active(c, false);

	if (n >= c->config.min_group || c->phase == LH_PHASE_OVER) {
		c->few_ns = INT64_MAX;
		return;
	}
	if (c->few_ns == INT64_MAX)
		c->few_ns = now_ns;
	if (now_ns - c->few_ns < c->config.patience_ns || c->error.code)
		return;
	lh_fail(&c->error, LH_ERUN, 0,
		"epoch %" PRIu32 ": for %.3f s there were fewer than min_group = %" PRIu32
		" members with its state (%" PRIu32 " now)",
		c->epoch, (double)c->config.patience_ns / NS_PER_S, c->config.min_group, n);
}

/* Whether something followed. */
static bool step(struct lh_coordinator *c, int64_t now_ns)
{
	bool is_complete;

	switch (c->phase) {
	case LH_PHASE_COMPUTING:
	case LH_PHASE_FORMING:
		if (lh_coordinator_gather(c, now_ns, &is_complete))
			return true;
		if (is_complete)
			begin(c, now_ns);
		return is_complete;
	case LH_PHASE_AVERAGING:
		if (is_on_grid(c) ? follow_grid(c, now_ns) : follow_group(c, now_ns))
			return true;
		return drop_stuck(c, now_ns);
	case LH_PHASE_OVER:
		break;
	}
	return false;
}

void lh_coordinator_advance(struct lh_coordinator *c, int64_t now_ns)
{
	do {
		lh_coordinator_settle(c, now_ns);
	} while (step(c, now_ns));
	watch_numbers(c, now_ns);
}

int64_t lh_coordinator_soonest_ns(const struct lh_coordinator *c, int64_t due_ns, int64_t at_ns)
{
	return at_ns > c->now_ns && at_ns < due_ns ? at_ns : due_ns;
}

int64_t lh_coordinator_phase_due_ns(const struct lh_coordinator *c)
{
	int64_t grace_ns = LH_COORDINATOR_MISSED * c->config.heartbeat_ns;
	int64_t due_ns = INT64_MAX;

	if (c->few_ns != INT64_MAX)
		due_ns = lh_coordinator_soonest_ns(c, due_ns, c->few_ns + c->config.patience_ns);
	if (c->phase == LH_PHASE_AVERAGING)
		due_ns = lh_coordinator_soonest_ns(
			c, due_ns, c->round.begin_ns + c->config.timeout_ns + grace_ns);
	if (c->phase != LH_PHASE_FORMING)
		return due_ns;
	due_ns = lh_coordinator_soonest_ns(c, due_ns, c->form_ns + c->config.timeout_ns);
	due_ns = lh_coordinator_soonest_ns(c, due_ns, c->matchmaking_ns + c->config.matchmaking_ns);
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++)
		if (c->members[rank].state == LH_MEMBER_LOADING)
			due_ns = lh_coordinator_soonest_ns(c, due_ns,
							   c->members[rank].awaited_until_ns);
	return due_ns;
}
