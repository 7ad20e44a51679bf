/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of a member of an elastic training: strategies `hivemind` and `moshpit`. The coordinator
 * (trainer/elastic/coordinator.h) in rank 0's process says when to compute, to stop, to average and
 * with whom, and what counts; ranks other than 0 may be lost, be cut off, come late and come back.
 * Computing, averaging and everything that is written happens in this one thread.
 *
 * A member whose coordinator is out of reach ends its micro-batch and tries to reach it again; what
 * it has computed counts if its epoch is still under way then, else it loads another's state and
 * goes on from there.
 *
 * Sources: Hivemind, hivemind/optim/optimizer.py (epochs by target batch, state from peers, delayed
 * updates); Moshpit SGD, arXiv 2103.03239.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/compute/replay.h"
#include "trainer/strategy/elastic_internal.h"
#include "trainer/strategy/strategy.h"

/* ---- beside the work ---------------------------------------------------------------------- */

static int write_decisions(struct lh_elastic *t, struct lh_error *err)
{
	const char *name;
	json_t *fields;
	int rc = 0;

	while (rc == 0 && t->office && (name = lh_office_take_event(t->office, &fields)))
		rc = lh_events_add(t->rank->events, name, lh_clock_now_ns(), fields, err);
	return rc;
}

/* Gives the state to those who ask for it, as soon as it is what they need. */
static int give_states(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_visitor v;
	int rc = 0;

	if (t->late.is_pending || t->has_stepped)
		return 0;
	while (rc == 0 && lh_mailbox_take_visitor(&t->mailbox, LH_DOOR_STATE, &v)) {
		if (v.hello.epoch > t->epoch)
			close(v.fd);
		else
			rc = lh_state_give(&t->senders, &v, t->epoch, err);
	}
	return rc;
}

/* What counted though this rank did not hear of it, having been out of reach. */
static void hear_of_commit(struct lh_elastic *t, const struct lh_notice *notice)
{
	if (notice->count <= t->from || notice->count > t->done)
		return;
	t->from = notice->count;
	t->kept_batches = 0;
}

static int load_state(struct lh_elastic *t, const struct lh_notice *order, struct lh_error *err)
{
	int64_t begin_ns = lh_clock_now_ns();
	struct lh_notice answer = {.kind = LH_NOTICE_LOADED};
	struct lh_state_loaded loaded = {0};
	struct lh_error why = {0};
	int rc;

	t->rank->doing = "loading a state";
	if (order->serial >= t->rank->n || order->serial == t->rank->self)
		return lh_fail(err, LH_ERUN, 0, "rank %" PRIu32 " cannot give a state",
			       order->serial);
	hear_of_commit(t, order);
	t->late.is_pending = t->computes = t->stops = false;
	if ((rc = lh_elastic_give_up(t, "its epoch was over", err)))
		return rc;
	rc = lh_state_load(t->rank, &t->mailbox, order->serial, order->epoch,
			   begin_ns + lh_elastic_patience_ns(t->job), &loaded, &why);
	if (rc == 0) {
		t->epoch = loaded.epoch;
		t->rank->epoch_begin_ns = t->compute_end_ns = lh_clock_now_ns();
	}
	if (lh_events_add(t->rank->events, "load", lh_clock_now_ns(),
			  json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "epoch", (json_int_t)t->epoch,
				    "begin_ns", (json_int_t)begin_ns, "end_ns",
				    (json_int_t)lh_clock_now_ns(), "donor",
				    (json_int_t)order->serial, "bytes", (json_int_t)loaded.n_bytes,
				    "message", why.message),
			  err))
		return err->code;
	if (why.sys == ECANCELED)
		return 0;
	answer.epoch = t->epoch;
	answer.count = t->done;
	answer.number = rc ? 1 : 0;
	return lh_link_send(t->link, &answer, err);
}

/* Whether to begin another micro-batch. */
static bool has_work(const struct lh_elastic *t)
{
	return t->computes && t->done < (t->stops ? t->floor : t->limit);
}

static void compute_until(struct lh_elastic *t, uint64_t limit)
{
	if (!t->is_at_work)
		t->step_begin_ns = lh_clock_now_ns();
	t->computes = true;
	t->stops = false;
	t->limit = limit;
}

static int follow(struct lh_elastic *t, struct lh_notice *n, struct lh_error *err)
{
	switch (n->kind) {
	case LH_NOTICE_COMPUTE:
		compute_until(t, n->count);
		return 0;
	case LH_NOTICE_FORM:
		t->computes = t->stops = true;
		t->form_serial = n->serial;
		t->floor = n->count;
		return 0;
	case LH_NOTICE_BEGIN:
		return lh_elastic_begin(t, n, err);
	case LH_NOTICE_ABORT:
		return lh_elastic_abort(t, n, err);
	case LH_NOTICE_COMMIT:
		return lh_elastic_commit(t, n, err);
	case LH_NOTICE_LOAD:
		return load_state(t, n, err);
	case LH_NOTICE_END:
		hear_of_commit(t, n);
		t->is_over = true;
		return 0;
	case LH_NOTICE_REFUSE:
		return lh_fail(err, LH_ERUN, 0, "the coordinator ends it: %s", n->text);
	default:
		return lh_fail(err, LH_ERUN, 0, "a notice of kind %d from the coordinator",
			       (int)n->kind);
	}
}

/* Everything that has come since. */
static int attend(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_notice notice;
	int rc = lh_elastic_finish_late(t, false, err);

	if (rc == 0)
		rc = give_states(t, err);
	while (rc == 0 && !t->is_over && lh_mailbox_take(&t->mailbox, &notice)) {
		rc = follow(t, &notice, err);
		lh_notice_done(&notice);
	}
	if (rc == 0)
		rc = write_decisions(t, err);
	return rc ? rc : lh_events_write(t->rank->events, err);
}

/* ---- computing ---------------------------------------------------------------------------- */

static int wait_until(struct lh_elastic *t, int64_t end_ns, struct lh_error *err)
{
	int rc = 0;

	while (rc == 0 && lh_clock_now_ns() < end_ns) {
		bool wakes_for_late = t->late.is_pending && t->late.end_ns < end_ns;

		lh_mailbox_wait(&t->mailbox, wakes_for_late ? t->late.end_ns : end_ns);
		rc = attend(t, err);
	}
	return rc;
}

static int compute_one(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;
	int64_t step_ns, end_ns;
	int rc = rank->compute->micro_batch(rank->computing, &step_ns, err);

	rank->doing = "computing";
	if (rc)
		return rc;
	/* in real time the arithmetic may take longer than the profile says */
	if (lh_clock_now_ns() - t->step_begin_ns > step_ns)
		step_ns = lh_clock_now_ns() - t->step_begin_ns;
	end_ns = t->step_begin_ns + step_ns;
	t->is_at_work = true;
	rc = wait_until(t, end_ns, err);
	t->is_at_work = false;
	if (rc)
		return rc;
	t->done++;
	t->step_begin_ns = t->compute_end_ns = end_ns;
	rc = lh_events_add(rank->events, "computed", lh_clock_now_ns(),
			   json_pack("{s:I, s:I}", "epoch", (json_int_t)t->epoch, "micro_batches",
				     (json_int_t)t->done),
			   err);
	if (rc == 0)
		rc = lh_events_write(rank->events, err);
	if (rc || !t->computes)
		return rc;
	return lh_link_send(t->link,
			    &(struct lh_notice){.kind = LH_NOTICE_PROGRESS,
						.count = t->done,
						.time_ns = step_ns},
			    err);
}

/* Has nothing under way, and says so. */
static int stop(struct lh_elastic *t, struct lh_error *err)
{
	t->computes = t->stops = false;
	t->rank->doing = "waiting for the group";
	return lh_link_send(t->link,
			    &(struct lh_notice){.kind = LH_NOTICE_READY,
						.serial = t->form_serial,
						.count = t->done},
			    err);
}

static int turn(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_error why = {0};
	int rc = attend(t, err);

	if (rc || t->is_over)
		return rc;
	if (lh_mailbox_check(&t->mailbox, &why))
		return lh_elastic_rejoin(t, &why, err);
	if (has_work(t))
		return compute_one(t, err);
	if (t->computes && t->stops)
		return stop(t, err);
	lh_mailbox_wait(&t->mailbox, t->late.is_pending ? t->late.end_ns : INT64_MAX);
	return 0;
}

/* ---- from begin to end -------------------------------------------------------------------- */

static int open_numbers(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_averaged own = t->rank->compute->averaged(t->rank->computing);

	t->averaged = own;
	if (own.values) {
		t->kept = calloc(own.n, sizeof(*t->kept));
		if (t->is_grid) {
			t->weights = calloc(own.n, sizeof(*t->weights));
			t->before = calloc(own.n, sizeof(*t->before));
		}
		if (!t->kept || (t->is_grid && (!t->weights || !t->before)))
			return lh_fail(err, LH_ESYS, ENOMEM, "open a training");
	}
	if (t->is_grid)
		own.values = t->weights;
	return lh_group_open(t->rank, own, &t->group, err);
}

static int start(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;
	const struct lh_door_config door = {
		.job = t->job, .self = rank->self, .take = lh_elastic_take_visitor, .context = t};
	int64_t now_ns = lh_clock_now_ns();
	int rc;

	if (rank->incarnation)
		rank->compute->renew(rank->computing, rank->incarnation);
	if ((rc = lh_mailbox_init(&t->mailbox, err)) ||
	    (rc = lh_traffic_new(rank->n, now_ns, &rank->traffic, err)) ||
	    (rc = lh_rank_open_elastic_comm(rank, err)) ||
	    (rc = lh_lanes_init(&t->lanes, rank, &t->mailbox, err)) ||
	    (rc = open_numbers(t, err)) ||
	    (rank->self == 0 && (rc = lh_elastic_open_office(t, err))) ||
	    (rc = lh_door_open(&door, &t->door, err)) ||
	    (rc = lh_elastic_join(t, t->job->start_timeout_ns, err)))
		return rc;
	rank->epoch_begin_ns = t->compute_end_ns = lh_clock_now_ns();
	return lh_rank_write_connected(rank, err);
}

static int finish(struct lh_elastic *t, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;
	uint32_t end = t->is_grid ? t->job->epochs + 1 : t->job->epochs;
	int rc = lh_elastic_finish_late(t, true, err);

	rank->doing = "parting";
	if (rc == 0)
		rc = lh_elastic_give_up(t, "the training was over", err);
	for (uint32_t peer = 0; rc == 0 && peer < rank->n; peer++)
		rc = lh_lanes_close(&t->lanes, peer, err);
	if (rc == 0)
		rc = lh_link_send(t->link, &(struct lh_notice){.kind = LH_NOTICE_BYE}, err);
	lh_link_close(t->link);
	t->link = NULL;
	if (t->office)
		lh_office_finish(t->office);
	if (rc == 0)
		rc = write_decisions(t, err);
	if (rc)
		return rc;
	return t->epoch == end ? lh_rank_finish(rank, err) : lh_rank_leave(rank, err);
}

static int run(struct lh_elastic *t, struct lh_error *err)
{
	int rc = start(t, err);

	if (rc)
		return lh_error_prefix(err, "joining");
	while (rc == 0 && !t->is_over)
		if ((rc = turn(t, err)))
			lh_error_prefix(err, "epoch %" PRIu32 ", %s", t->epoch, t->rank->doing);
	if (rc == 0 && (rc = finish(t, err)))
		lh_error_prefix(err, "ending");
	return rc;
}

static int check_grid(const struct lh_job *job, struct lh_error *err)
{
	const struct lh_strategy_settings *s = &job->settings;
	uint64_t places = 1;

	for (uint32_t d = 0; d < s->n_dimensions && places < job->n_ranks; d++)
		places *= s->dimensions[d];
	if (s->delayed_update)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.delayed_update: moshpit has none; each member steps by "
			       "itself, before it averages");
	if (!s->n_dimensions || places < job->n_ranks)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.dimensions: a grid of %" PRIu64
			       " places; expected at least one for each of %" PRIu32 " ranks",
			       s->n_dimensions ? places : 0, job->n_ranks);
	return 0;
}

int lh_elastic_check(const struct lh_job *job, struct lh_error *err)
{
	const struct lh_strategy_settings *s = &job->settings;

	if (s->min_group > job->n_ranks)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.min_group: %" PRIu32 "; there are %" PRIu32 " ranks",
			       s->min_group, job->n_ranks);
	if (s->shards != LH_SHARDS_EQUAL)
		return lh_fail(err, LH_EINPUT, 0, "strategy.shards: %s has equal ones only",
			       job->strategy->name);
	return strcmp(job->strategy->name, "moshpit") == 0 ? check_grid(job, err) : 0;
}

int lh_elastic_run(struct lh_rank *rank, struct lh_error *err)
{
	struct lh_elastic *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a rank");
	t->rank = rank;
	t->job = rank->job;
	t->is_grid = strcmp(rank->job->strategy->name, "moshpit") == 0;
	t->senders.rank = rank;
	t->mailbox.wake_fd = -1;
	rc = run(t, err);
	lh_door_close(t->door);
	lh_link_close(t->link);
	lh_office_close(t->office);
	lh_state_reap(&t->senders, true);
	if (t->lanes.ends)
		lh_lanes_done(&t->lanes);
	lh_group_close(t->group);
	lh_mailbox_done(&t->mailbox);
	lh_notice_done(&t->round.begin);
	free(t->micro_batch);
	free(t->step_ns);
	free(t->site);
	free(t->kept);
	free(t->weights);
	free(t->before);
	free(t);
	return rc;
}
