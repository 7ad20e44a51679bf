/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of a member of an elastic training. In one group gradients are averaged: until the
 * coordinator says that the round counts they are kept, so that another can be tried. On a grid
 * each member steps by its own gradients, and weights are averaged.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/strategy/elastic_internal.h"

static uint32_t own_micro_batch(const struct lh_elastic *t)
{
	return t->rank->me->micro_batch;
}

/* The round after the last epoch on a grid, which brings all members together. */
static bool is_closing(const struct lh_elastic *t)
{
	return t->epoch == t->job->epochs;
}

/* Whether a round is void group by group, not as a whole. */
static bool has_groups(const struct lh_elastic *t)
{
	return t->is_grid && !is_closing(t);
}

int lh_elastic_finish_late(struct lh_elastic *t, bool waits, struct lh_error *err)
{
	if (!waits && lh_clock_now_ns() < t->late.end_ns)
		return 0;
	return lh_rank_finish_late_update(t->rank, &t->late, err);
}

/* ---- own numbers -------------------------------------------------------------------------- */

/* Adds gradients of micro-batches that were done since to those that are kept, as a mean. */
static void keep_more(struct lh_elastic *t, const float *more, uint64_t n_more)
{
	double all = (double)(t->kept_batches + n_more);
	float old_share = (float)((double)t->kept_batches / all);
	float new_share = (float)((double)n_more / all);

	for (uint64_t i = 0; i < t->averaged.n; i++)
		t->kept[i] =
			t->kept_batches ? t->kept[i] * old_share + more[i] * new_share : more[i];
	t->kept_batches += n_more;
}

/* Gradients of all open micro-batches become what is averaged. */
static int bring_gradients(struct lh_elastic *t, struct lh_error *err)
{
	const struct lh_rank *rank = t->rank;
	uint64_t n_more = t->done - t->from - t->kept_batches;
	size_t bytes = t->averaged.n * sizeof(float);
	int rc;

	if (!t->averaged.values)
		return 0;
	if (n_more) {
		rc = rank->compute->begin_average(rank->computing, n_more * own_micro_batch(t),
						  err);
		if (rc)
			return rc;
		keep_more(t, t->averaged.values, n_more);
	}
	if (t->kept_batches)
		memcpy(t->averaged.values, t->kept, bytes);
	else
		memset(t->averaged.values, 0, bytes);
	return 0;
}

/* Steps by own gradients, once an epoch; then the weights are what is averaged. */
static int bring_weights(struct lh_elastic *t, struct lh_error *err)
{
	const struct lh_rank *rank = t->rank;
	int rc = 0;

	if (!t->has_stepped && t->done > t->from) {
		rc = rank->compute->begin_average(rank->computing,
						  (t->done - t->from) * own_micro_batch(t), err);
		if (rc == 0)
			rc = lh_rank_apply(t->rank, t->epoch, err);
	}
	/* what an averaging that was void left there is of no use */
	if (rc == 0 && t->weights && (!t->has_stepped || is_closing(t)))
		rc = rank->compute->read_weights(rank->computing, t->weights, err);
	t->has_stepped = !is_closing(t);
	return rc;
}

static int bring_numbers(struct lh_elastic *t, struct lh_error *err)
{
	int rc;

	if (!t->is_grid)
		return bring_gradients(t, err);
	rc = bring_weights(t, err);
	if (rc == 0 && t->weights)
		memcpy(t->before, t->weights, t->averaged.n * sizeof(*t->before));
	return rc;
}

/* How far this member's weights were from those of its group. */
static int write_distance(struct lh_elastic *t, struct lh_error *err)
{
	double apart = 0, norm = 0;

	for (uint64_t i = 0; i < t->averaged.n; i++) {
		double d = (double)t->before[i] - (double)t->weights[i];

		apart += d * d;
		norm += (double)t->weights[i] * (double)t->weights[i];
	}
	return lh_events_add(t->rank->events, "distance", lh_clock_now_ns(),
			     json_pack("{s:I, s:I, s:I, s:f}", "epoch", (json_int_t)t->epoch,
				       "round", (json_int_t)t->round.begin.number, "members",
				       (json_int_t)t->round.begin.n_members, "ratio",
				       norm > 0 ? sqrt(apart / norm) : 0),
			     err);
}

/* ---- rounds ------------------------------------------------------------------------------- */

/* Takes the round over, with this member's group; false where it is not in it. */
static bool take_round(struct lh_elastic *t, struct lh_notice *begin)
{
	struct lh_elastic_round *r = &t->round;
	const struct lh_notice_member *own = NULL;

	lh_notice_done(&r->begin);
	r->begin = *begin;
	begin->members = NULL;
	r->samples = 0;
	for (uint32_t i = 0; i < r->begin.n_members; i++) {
		const struct lh_notice_member *m = &r->begin.members[i];

		if (m->rank >= t->rank->n)
			return false;
		r->samples += (m->to - m->from) * t->job->ranks[m->rank].micro_batch;
		if (m->rank == t->rank->self)
			own = m;
	}
	if (!own || own->session != t->lanes.session || own->from != t->from ||
	    own->to != t->done || r->begin.epoch != t->epoch)
		return false;
	r->group = own->group;
	r->begin_ns = lh_clock_now_ns();
	if (r->begin.number == 0) {
		r->epoch_ns = r->begin_ns;
		r->average = (struct lh_average){0};
		r->matchmaking_ns = r->begin.time_ns;
	}
	return true;
}

/* Own flags in a round's list. */
static bool was_spoiled(const struct lh_elastic *t, const struct lh_notice *begin)
{
	for (uint32_t i = 0; i < begin->n_members; i++)
		if (begin->members[i].rank == t->rank->self)
			return begin->members[i].flags & LH_NOTICE_SPOILED;
	return false;
}

/* Goes back to what was there before the last round, which is void. */
static int restore(struct lh_elastic *t, struct lh_error *err)
{
	if (t->weights)
		memcpy(t->weights, t->before, t->averaged.n * sizeof(*t->weights));
	return lh_elastic_close_lanes(t, err);
}

int lh_elastic_close_lanes(struct lh_elastic *t, struct lh_error *err)
{
	const struct lh_notice *begin = &t->round.begin;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < begin->n_members; i++)
		if (begin->members[i].group == t->round.group &&
		    begin->members[i].rank != t->rank->self)
			rc = lh_lanes_close(&t->lanes, begin->members[i].rank, err);
	return rc;
}

/* Lists the group, by which the averages are weighted. */
static uint32_t list_group(const struct lh_elastic *t, uint32_t *ret_ranks, uint64_t *ret_weights)
{
	const struct lh_notice *begin = &t->round.begin;
	bool by_samples = !t->is_grid && t->round.samples;
	uint32_t n = 0;

	for (uint32_t i = 0; i < begin->n_members; i++) {
		const struct lh_notice_member *m = &begin->members[i];

		if (m->group != t->round.group)
			continue;
		ret_ranks[n] = m->rank;
		ret_weights[n++] =
			by_samples ? (m->to - m->from) * t->job->ranks[m->rank].micro_batch : 1;
	}
	return n;
}

static int average(struct lh_elastic *t, uint32_t *ret_culprit, struct lh_error *err)
{
	struct lh_elastic_round *r = &t->round;
	uint32_t ranks[LH_JOB_RANKS_MAX];
	uint64_t weights[LH_JOB_RANKS_MAX];
	struct lh_average done = {0};
	struct lh_group_round round = {
		.serial = r->begin.serial,
		.draw = t->is_grid ? r->begin.serial : r->begin.epoch,
		.ranks = ranks,
		.weights = weights,
		.deadline_ns = r->begin_ns + t->job->settings.timeout_ns,
	};
	int rc;

	round.n = list_group(t, ranks, weights);
	rc = lh_lanes_open(&t->lanes, &r->begin, r->group, round.deadline_ns, ret_culprit, err);
	if (rc == 0)
		rc = lh_group_average(t->group, &round, &done, ret_culprit, err);
	r->average.host_ns += rc ? 0 : done.host_ns;
	r->average.payload_sent_bytes += rc ? 0 : done.payload_sent_bytes;
	r->average.payload_received_bytes += rc ? 0 : done.payload_received_bytes;
	r->average.checked_elements += rc ? 0 : done.checked_elements;
	r->average.group_samples = r->samples;
	return rc;
}

/* An averaging that failed is an event, and no more than that: the coordinator decides. */
static int write_failure(struct lh_elastic *t, uint32_t culprit, const struct lh_error *why,
			 struct lh_error *err)
{
	int64_t now_ns = lh_clock_now_ns();

	return lh_events_add(t->rank->events, "failed_average", now_ns,
			     json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "epoch",
				       (json_int_t)t->epoch, "serial",
				       (json_int_t)t->round.begin.serial, "begin_ns",
				       (json_int_t)t->round.begin_ns, "end_ns", (json_int_t)now_ns,
				       "peer", (json_int_t)culprit, "attempt",
				       (json_int_t)t->round.begin.count, "message", why->message),
			     err);
}

static int tell_result(struct lh_elastic *t, bool has_failed, uint32_t culprit,
		       struct lh_error *err)
{
	return lh_link_send(t->link,
			    &(struct lh_notice){.kind = LH_NOTICE_RESULT,
						.serial = t->round.begin.serial,
						.number = has_failed ? 1 + culprit : 0},
			    err);
}

/* After averaging with rc and why. */
static int end_round(struct lh_elastic *t, int rc, uint32_t culprit, const struct lh_error *why,
		     struct lh_error *err)
{
	int failed;

	t->round.end_ns = lh_clock_now_ns();
	if (rc == 0) {
		rc = t->weights ? write_distance(t, err) : 0;
		return rc ? rc : tell_result(t, false, 0, err);
	}
	/* what this rank itself is to blame for, and numbers that must be equal, are its failure */
	if (culprit == t->rank->self && why->sys != ECANCELED) {
		if (err)
			*err = *why;
		return rc;
	}
	if ((failed = write_failure(t, culprit, why, err)))
		return failed;
	/* the coordinator knows, but of several groups it waits for all members */
	if (why->sys == ECANCELED && !has_groups(t))
		return 0;
	return tell_result(t, true, culprit, err);
}

int lh_elastic_begin(struct lh_elastic *t, struct lh_notice *begin, struct lh_error *err)
{
	struct lh_error why = {0};
	uint32_t culprit = t->rank->self;
	int rc = lh_elastic_finish_late(t, true, err);

	t->rank->doing = "averaging";
	if (rc == 0 && was_spoiled(t, begin))
		rc = restore(t, err);
	if (rc)
		return rc;
	if (!take_round(t, begin))
		return lh_fail(err, LH_ERUN, 0, "a round that this rank cannot be in");
	t->round.is_open = true;
	if ((rc = bring_numbers(t, err)))
		return rc;
	rc = average(t, &culprit, &why);
	return end_round(t, rc, culprit, &why, err);
}

int lh_elastic_abort(struct lh_elastic *t, const struct lh_notice *notice, struct lh_error *err)
{
	if (!t->round.is_open || notice->serial != t->round.begin.serial || has_groups(t))
		return 0;
	t->round.is_open = false;
	return lh_elastic_close_lanes(t, err);
}

/* ---- what counts -------------------------------------------------------------------------- */

static int write_epoch(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;
	const struct lh_elastic_round *r = &t->round;
	int64_t now_ns = lh_clock_now_ns();
	int64_t stopped_ns = t->compute_end_ns < r->epoch_ns ? t->compute_end_ns : r->epoch_ns;
	int rc = lh_rank_write_compute(rank, t->epoch, stopped_ns,
				       (t->done - t->from) * own_micro_batch(t), t->done - t->from,
				       now_ns, err);

	if (rc == 0)
		rc = lh_rank_write_span(rank, "matchmaking", t->epoch,
					r->epoch_ns - r->matchmaking_ns, r->epoch_ns, now_ns, err);
	if (rc == 0)
		rc = lh_rank_write_span(rank, "wait", t->epoch, stopped_ns, r->epoch_ns, now_ns,
					err);
	if (rc == 0)
		rc = lh_rank_write_average_until(rank, t->epoch, r->epoch_ns, r->end_ns,
						 &r->average, err);
	if (rc == 0)
		rc = lh_rank_write_span(rank, "wait", t->epoch, r->end_ns, now_ns,
					lh_clock_now_ns(), err);
	return rc;
}

/* What was averaged becomes the member's own. */
static int adopt(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;

	if (t->is_grid)
		return t->weights ? rank->compute->write_weights(rank->computing, t->weights, err)
				  : 0;
	if (!t->job->settings.delayed_update)
		return lh_rank_apply(t->rank, t->epoch, err);
	lh_rank_begin_late_update(rank, t->epoch, &t->late);
	return 0;
}

int lh_elastic_commit(struct lh_elastic *t, const struct lh_notice *notice, struct lh_error *err)
{
	int rc = 0;

	t->rank->doing = "ending an epoch";
	if (!t->round.is_open || notice->epoch != t->epoch ||
	    notice->serial != t->round.begin.serial)
		return lh_fail(err, LH_ERUN, 0, "a round is committed that this rank is not in");
	t->round.is_open = false;
	t->round.samples = t->round.average.group_samples = notice->count;
	if (notice->number & LH_NOTICE_SPOILED)
		rc = restore(t, err);
	if (rc == 0 && !is_closing(t))
		rc = write_epoch(t, err);
	if (rc == 0)
		rc = adopt(t, err);
	if (rc == 0 && !is_closing(t))
		rc = lh_rank_end_epoch(t->rank, t->epoch, t->round.samples, err);
	t->from = t->done;
	t->kept_batches = 0;
	t->has_stepped = false;
	t->epoch++;
	return rc;
}

int lh_elastic_give_up(struct lh_elastic *t, const char *reason, struct lh_error *err)
{
	const struct lh_rank *rank = t->rank;
	uint64_t n_taken = t->has_stepped ? t->done - t->from : t->kept_batches;
	int rc = 0;

	if (t->done > t->from)
		rc = lh_events_add(rank->events, "lost", lh_clock_now_ns(),
				   json_pack("{s:I, s:I, s:I, s:s}", "epoch", (json_int_t)t->epoch,
					     "from", (json_int_t)t->from, "to", (json_int_t)t->done,
					     "reason", reason),
				   err);
	if (rc == 0 && t->averaged.values && t->done - t->from > n_taken)
		rc = rank->compute->begin_average(
			rank->computing, (t->done - t->from - n_taken) * own_micro_batch(t), err);
	t->from = t->done;
	t->kept_batches = 0;
	t->has_stepped = false;
	return rc ? rc : lh_events_write(rank->events, err);
}
