/* SPDX-License-Identifier: Apache-2.0 */
/* Counting towards the target, and groups that form. See coordinator.h. */
#include <math.h>

#include "trainer/elastic/coordinator_internal.h"

/* A member's limit is its share of what is missing, and a tenth more: whose speed varies less is
 * not stopped before its time. */
static const double GRANT_RATIO = 1.1;

bool lh_coordinator_is_closing(const struct lh_coordinator *c)
{
	return c->config.rounds && c->epoch == c->config.epochs;
}

/* ---- counts ------------------------------------------------------------------------------- */

static uint64_t open_samples(const struct lh_coordinator *c, uint32_t rank)
{
	const struct lh_member *m = &c->members[rank];

	return (m->done - m->committed) * c->config.micro_batch[rank];
}

/* Samples of the epoch that are done, and those that will be when nobody begins any more. */
static void count_samples(const struct lh_coordinator *c, uint64_t *ret_done, uint64_t *ret_sure)
{
	*ret_done = *ret_sure = 0;
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		const struct lh_member *m = &c->members[rank];

		if (m->state != LH_MEMBER_ACTIVE)
			continue;
		*ret_done += open_samples(c, rank);
		*ret_sure += (lh_member_sure(m) - m->committed) * c->config.micro_batch[rank];
	}
}

uint64_t lh_member_sure(const struct lh_member *m)
{
	return m->done + (m->is_computing && m->done < m->limit);
}

/* Samples that all active members together compute in a ns. */
static double speed(const struct lh_coordinator *c)
{
	double per_ns = 0;

	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++)
		if (c->members[rank].state == LH_MEMBER_ACTIVE && c->members[rank].step_ns > 0)
			per_ns += (double)c->config.micro_batch[rank] /
				  (double)c->members[rank].step_ns;
	return per_ns;
}

void lh_coordinator_grant(struct lh_coordinator *c, uint32_t rank, int64_t now_ns)
{
	struct lh_member *m = &c->members[rank];
	double all = speed(c), share = 0;
	uint64_t done, sure;

	count_samples(c, &done, &sure);
	/* a share of samples by its part of the speed, in micro-batches: its own number cancels */
	if (done < c->config.target && all > 0 && m->step_ns > 0)
		share = GRANT_RATIO * (double)(c->config.target - done) /
			(all * (double)m->step_ns);
	m->is_computing = true;
	m->limit = m->done + (share > 1 ? (uint64_t)ceil(share) : 1);
	lh_coordinator_tell(c, rank,
			    &(struct lh_notice){.kind = LH_NOTICE_COMPUTE,
						.epoch = c->epoch,
						.count = m->limit},
			    now_ns);
}

uint32_t lh_coordinator_count_active(const struct lh_coordinator *c, bool is_ready)
{
	uint32_t n = 0;

	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++)
		n += c->members[rank].state == LH_MEMBER_ACTIVE &&
		     (!is_ready || c->members[rank].is_ready);
	return n;
}

static bool will_reach_target(const struct lh_coordinator *c)
{
	uint64_t done, sure;

	count_samples(c, &done, &sure);
	return lh_coordinator_count_active(c, false) &&
	       (lh_coordinator_is_closing(c) || sure >= c->config.target);
}

/* Expected time until the target is reached. */
static int64_t left_ns(const struct lh_coordinator *c)
{
	uint64_t done, sure;
	double per_ns = speed(c);

	count_samples(c, &done, &sure);
	if (done >= c->config.target)
		return 0;
	return per_ns > 0 ? (int64_t)((double)(c->config.target - done) / per_ns) : INT64_MAX / 4;
}

/* ---- groups that form --------------------------------------------------------------------- */

static void begin_matchmaking(struct lh_coordinator *c, int64_t now_ns)
{
	if (!c->is_matchmaking)
		c->matchmaking_ns = now_ns;
	c->is_matchmaking = true;
}

static void form(struct lh_coordinator *c, int64_t now_ns)
{
	begin_matchmaking(c, now_ns);
	c->phase = LH_PHASE_FORMING;
	c->serial++;
	c->form_ns = now_ns;
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		const struct lh_member *m = &c->members[rank];

		if (m->state == LH_MEMBER_ACTIVE)
			lh_coordinator_tell(c, rank,
					    &(struct lh_notice){.kind = LH_NOTICE_FORM,
								.epoch = c->epoch,
								.serial = c->serial,
								.count = lh_member_sure(m)},
					    now_ns);
	}
}

/* What was lost is to be computed again; also by those that have not answered FORM yet. */
void lh_coordinator_resume(struct lh_coordinator *c, int64_t now_ns)
{
	c->phase = LH_PHASE_COMPUTING;
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		c->members[rank].is_ready = false;
		if (c->members[rank].state == LH_MEMBER_ACTIVE)
			lh_coordinator_grant(c, rank, now_ns);
	}
}

/* Who has come to its limit, while the target is missed, gets another. */
static void extend(struct lh_coordinator *c, int64_t now_ns)
{
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		const struct lh_member *m = &c->members[rank];

		if (m->state == LH_MEMBER_ACTIVE && m->done >= m->limit)
			lh_coordinator_grant(c, rank, now_ns);
	}
}

/* Whether the epoch waits for who loads. */
static bool is_awaited(const struct lh_member *m, int64_t now_ns)
{
	return m->state == LH_MEMBER_LOADING && now_ns < m->awaited_until_ns;
}

static bool drop_late(struct lh_coordinator *c, int64_t now_ns)
{
	bool has_dropped = false;

	if (now_ns < c->form_ns + c->config.timeout_ns)
		return false;
	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++) {
		const struct lh_member *m = &c->members[rank];

		if (m->state != LH_MEMBER_ACTIVE || m->is_ready)
			continue;
		lh_coordinator_drop(c, rank, true, "it did not end its micro-batch in time",
				    now_ns);
		has_dropped = true;
	}
	return has_dropped;
}

static bool is_complete(const struct lh_coordinator *c, int64_t now_ns)
{
	uint32_t n_ready = lh_coordinator_count_active(c, true);

	for (uint32_t rank = 0; rank < c->config.n_ranks; rank++)
		if (is_awaited(&c->members[rank], now_ns))
			return false;
	return n_ready == lh_coordinator_count_active(c, false) && n_ready >= c->config.min_group &&
	       now_ns >= c->matchmaking_ns + c->config.matchmaking_ns;
}

bool lh_coordinator_gather(struct lh_coordinator *c, int64_t now_ns, bool *ret_is_complete)
{
	*ret_is_complete = false;
	if (c->phase == LH_PHASE_FORMING && !will_reach_target(c)) {
		lh_coordinator_resume(c, now_ns);
		return true;
	}
	if (c->phase == LH_PHASE_FORMING) {
		bool has_dropped = drop_late(c, now_ns);

		*ret_is_complete = !has_dropped && is_complete(c, now_ns);
		return has_dropped;
	}
	if (will_reach_target(c)) {
		form(c, now_ns);
		return true;
	}
	extend(c, now_ns);
	if (lh_coordinator_count_active(c, false) && left_ns(c) <= c->config.matchmaking_ns)
		begin_matchmaking(c, now_ns);
	return false;
}
