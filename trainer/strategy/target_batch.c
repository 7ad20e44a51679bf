/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of strategies that average gradients over a target batch. Everything but bulk
 * transfers happens in this one thread, by absolute deadlines: micro-batches, news, matchmaking
 * and late updates beside them. With the balance dynamic it sleeps blindly while the target is far,
 * and listens to its peers once that matters; with the balance fixed each rank computes a share
 * that all know beforehand, and no control message is sent.
 *
 * Source: target-batch averaging of Hivemind, hivemind/optim/optimizer.py; arXiv 2306.03163.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"
#include "trainer/control.h"
#include "trainer/matchmaking.h"
#include "trainer/progress.h"
#include "trainer/strategy/averaging.h"
#include "trainer/strategy/compressing.h"
#include "trainer/strategy/strategy.h"

/* News go out and are read every tenth of the time left, within these. */
enum { NEWS_PER_TIME_LEFT = 10 };
static const int64_t NEWS_MIN_NS = 250 * LH_NS_PER_MS;
static const int64_t NEWS_MAX_NS = 3 * LH_NS_PER_S;

struct loop {
	struct lh_rank *rank;
	const struct lh_job *job;
	const struct lh_averaging_ops *averaging;
	void *averager; /* state of averaging; NULL with one rank */
	bool is_dynamic;
	struct lh_control control;
	struct lh_progress progress;
	struct lh_matchmaking matchmaking;
	struct lh_late_update late;
	uint64_t *samples; /* by rank, of this epoch */
	bool is_averaged;  /* beside the backward pass, as follows */
	struct lh_average beside;
	int64_t compute_end_ns;
	int64_t told_ns;
	int64_t read_ns;
	uint64_t n_micro_batches; /* of this epoch */
};

static int listen_until(struct loop *t, int64_t until_ns, struct lh_error *err)
{
	int rc = lh_control_wait(&t->control, until_ns, err);

	return rc ? rc : lh_rank_check(t->rank, err);
}

static int tell(struct loop *t, bool is_urgent, int64_t now_ns, struct lh_error *err)
{
	t->told_ns = now_ns;
	return lh_control_tell(&t->control, is_urgent, now_ns, err);
}

static int begin_matchmaking(struct loop *t, int64_t now_ns, struct lh_error *err)
{
	lh_matchmaking_begin(&t->matchmaking, &t->progress, now_ns);
	return tell(t, true, now_ns, err);
}

/* Lets the time of a micro-batch pass, from from_ns to end_ns, and begins matchmaking within
 * it where that is due. */
static int work_until(struct loop *t, int64_t from_ns, int64_t end_ns, struct lh_error *err)
{
	int64_t now_ns = from_ns;
	int rc = 0;

	if (t->averager && t->is_dynamic && !t->matchmaking.is_begun) {
		int64_t due_ns = lh_matchmaking_due_ns(&t->matchmaking, &t->progress, now_ns);

		if (due_ns < end_ns) {
			lh_clock_sleep_until(due_ns);
			now_ns = due_ns;
			rc = begin_matchmaking(t, due_ns, err);
		}
	}
	while (rc == 0 && now_ns < end_ns) {
		bool listens = t->matchmaking.is_begun && !lh_progress_has_all_joined(&t->progress);

		if (!listens) {
			lh_clock_sleep_until(end_ns);
			break;
		}
		rc = listen_until(t, end_ns, err);
		now_ns = lh_clock_now_ns();
	}
	return rc;
}

static int64_t news_interval_ns(int64_t left_ns)
{
	int64_t interval_ns = left_ns / NEWS_PER_TIME_LEFT;

	if (interval_ns < NEWS_MIN_NS)
		return NEWS_MIN_NS;
	return interval_ns < NEWS_MAX_NS ? interval_ns : NEWS_MAX_NS;
}

/* One micro-batch from *at_ns on, which becomes its end. */
static int compute_one(struct loop *t, int64_t *at_ns, struct lh_error *err)
{
	int64_t step_ns, end_ns;
	int rc = t->rank->compute->micro_batch(t->rank->computing, &step_ns, err);

	if (rc)
		return rc;
	/* in real time the arithmetic may take longer than the profile says */
	if (lh_clock_now_ns() - *at_ns > step_ns)
		step_ns = lh_clock_now_ns() - *at_ns;
	end_ns = *at_ns + step_ns;
	rc = work_until(t, *at_ns, end_ns, err);
	lh_progress_advance(&t->progress, end_ns, step_ns);
	t->n_micro_batches++;
	t->compute_end_ns = end_ns;
	*at_ns = end_ns;
	return rc ? rc : lh_rank_check(t->rank, err);
}

/* Computes until the target is reached or will be by what is under way, then says so. */
static int compute(struct loop *t, struct lh_error *err)
{
	int64_t at_ns = t->rank->epoch_begin_ns;
	int rc = 0;

	t->rank->doing = "computing";
	while (rc == 0 && lh_progress_should_begin(&t->progress, at_ns)) {
		int64_t left_ns = lh_progress_left_ns(&t->progress, at_ns);
		int64_t interval_ns = news_interval_ns(left_ns);

		if (at_ns > t->rank->epoch_begin_ns && at_ns - t->told_ns >= interval_ns)
			rc = tell(t, false, at_ns, err);
		if (rc == 0)
			rc = compute_one(t, &at_ns, err);
		if (rc == 0 && (interval_ns == NEWS_MIN_NS || at_ns - t->read_ns >= interval_ns)) {
			t->read_ns = at_ns;
			rc = lh_control_read(&t->control, err);
		}
	}
	if (rc)
		return rc;
	lh_progress_stop(&t->progress);
	if (t->averager && !t->matchmaking.is_begun)
		return begin_matchmaking(t, at_ns, err);
	return tell(t, true, at_ns, err);
}

/* Computes what this rank still owes, after all stopped short of the target. */
static int compute_owed(struct loop *t, uint64_t n, struct lh_error *err)
{
	int64_t at_ns = lh_clock_now_ns();
	int rc = 0;

	while (rc == 0 && n--)
		rc = compute_one(t, &at_ns, err);
	return rc ? rc : tell(t, true, at_ns, err);
}

static uint64_t owed_now(const struct loop *t)
{
	const struct lh_progress_news *mine = &t->progress.news[t->rank->self];

	if (!lh_progress_has_all_stopped(&t->progress) || mine->samples > mine->samples_at_stop)
		return 0;
	return lh_progress_owed(&t->progress, t->rank->self);
}

/* Waits until the group is complete: all counts final, matchmaking over. */
static int wait_for_group(struct loop *t, struct lh_error *err)
{
	t->rank->doing = "waiting for the group";
	for (;;) {
		uint64_t n_owed = owed_now(t);
		int64_t until_ns = INT64_MAX;
		int rc;

		if (n_owed) {
			if ((rc = compute_owed(t, n_owed, err)))
				return rc;
			continue;
		}
		if (lh_progress_is_complete(&t->progress)) {
			if (!t->averager)
				return 0;
			until_ns = lh_matchmaking_end_ns(&t->matchmaking, &t->progress);
			if (until_ns <= lh_clock_now_ns())
				return 0;
		}
		if ((rc = listen_until(t, until_ns, err)))
			return rc;
	}
}

/* Writes what was until until_ns, when averaging began. */
static int write_computing(struct loop *t, int64_t until_ns, int64_t now_ns, struct lh_error *err)
{
	uint32_t epoch = t->progress.epoch;
	int rc = lh_rank_write_compute(t->rank, epoch, t->compute_end_ns, t->samples[t->rank->self],
				       t->n_micro_batches, now_ns, err);

	if (rc || !t->averager)
		return rc;
	if (t->is_dynamic)
		rc = lh_rank_write_span(t->rank, "matchmaking", epoch, t->matchmaking.begin_ns,
					lh_matchmaking_end_ns(&t->matchmaking, &t->progress),
					now_ns, err);
	return rc ? rc
		  : lh_rank_write_span(t->rank, "wait", epoch, t->compute_end_ns, until_ns, now_ns,
				       err);
}

static int average(struct loop *t, int64_t begin_ns, struct lh_error *err)
{
	struct lh_average done;
	int rc;

	t->rank->doing = "averaging";
	rc = t->averaging->average(t->averager, t->progress.epoch, t->samples, &done, err);
	return rc ? rc : lh_rank_write_average(t->rank, t->progress.epoch, begin_ns, &done, err);
}

/* The optimizer's step: now, or beside the next epoch's computing. */
static int apply(struct loop *t, struct lh_error *err)
{
	if (t->job->settings.delayed_update) {
		lh_rank_begin_late_update(t->rank, t->progress.epoch, &t->late);
		return 0;
	}
	t->rank->doing = "applying";
	return lh_rank_apply(t->rank, t->progress.epoch, err);
}

/* The samples of all ranks in this epoch; their sum. */
static uint64_t count_samples(struct loop *t)
{
	uint64_t sum = 0;

	for (uint32_t rank = 0; rank < t->rank->n; rank++) {
		t->samples[rank] = t->is_dynamic ? t->progress.news[rank].samples
						 : lh_progress_share(&t->progress, rank) *
							   t->progress.micro_batch[rank];
		sum += t->samples[rank];
	}
	return sum;
}

/* A micro-batch's time is a third forward and two thirds backward: a backward pass multiplies twice
 * as much (Kaplan et al., arXiv 2001.08361, section 2.1). */
enum { FORWARD_PARTS = 1, ALL_PARTS = 3 };

static bool has_overlap(const struct loop *t)
{
	return t->averager && t->job->settings.overlap && t->averaging->average_beside;
}

/* The last micro-batch of an epoch, from at_ns on, and the averaging beside its backward pass. */
static int compute_and_average(struct loop *t, int64_t at_ns, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;
	int64_t step_ns;
	int rc = rank->compute->micro_batch(rank->computing, &step_ns, err);

	if (rc || (rc = lh_rank_finish_late_update(t->rank, &t->late, err)) ||
	    (rc = rank->compute->begin_average(rank->computing, t->samples[rank->self], err)))
		return rc;
	if (lh_clock_now_ns() - at_ns > step_ns)
		step_ns = lh_clock_now_ns() - at_ns;
	t->n_micro_batches++;
	t->compute_end_ns = at_ns + step_ns;
	t->is_averaged = true;
	rank->doing = "averaging";
	return t->averaging->average_beside(t->averager, t->progress.epoch, t->samples,
					    at_ns + step_ns / ALL_PARTS * FORWARD_PARTS,
					    t->compute_end_ns, &t->beside, err);
}

/* Computes this rank's share of the target, which follows from the job alone. */
static int compute_share(struct loop *t, struct lh_error *err)
{
	int64_t at_ns = t->rank->epoch_begin_ns;
	uint64_t n = lh_progress_share(&t->progress, t->rank->self);
	int rc = 0;

	t->rank->doing = "computing";
	count_samples(t);
	while (rc == 0 && n > (has_overlap(t) ? 1 : 0)) {
		rc = compute_one(t, &at_ns, err);
		n--;
	}
	if (rc == 0 && n)
		rc = compute_and_average(t, at_ns, err);
	return rc;
}

/* Computes until all ranks together have done the target. */
static int compute_together(struct loop *t, struct lh_error *err)
{
	int rc = t->is_dynamic ? compute(t, err) : compute_share(t, err);

	if (rc == 0 && t->is_dynamic)
		rc = wait_for_group(t, err);
	return rc;
}

static int average_now(struct loop *t, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;
	int64_t now_ns = lh_clock_now_ns();
	int rc = write_computing(t, now_ns, now_ns, err);

	if (rc == 0)
		rc = rank->compute->begin_average(rank->computing, t->samples[rank->self], err);
	return rc || !t->averager ? rc : average(t, now_ns, err);
}

/* What was averaged beside the backward pass: communication is what has outlasted it. */
static int write_beside(struct loop *t, struct lh_error *err)
{
	int rc = write_computing(t, t->compute_end_ns, lh_clock_now_ns(), err);

	return rc ? rc
		  : lh_rank_write_average(t->rank, t->progress.epoch, t->compute_end_ns, &t->beside,
					  err);
}

static int run_epoch(struct loop *t, uint32_t epoch, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;
	uint64_t sum;
	int rc;

	lh_progress_begin_epoch(&t->progress, epoch, rank->epoch_begin_ns);
	t->matchmaking = (struct lh_matchmaking){.at_least_ns = t->job->settings.matchmaking_ns};
	t->n_micro_batches = 0;
	t->is_averaged = false;
	t->compute_end_ns = rank->epoch_begin_ns;
	t->told_ns = rank->epoch_begin_ns;
	t->read_ns = rank->epoch_begin_ns;
	if ((rc = compute_together(t, err)) ||
	    (rc = lh_rank_finish_late_update(t->rank, &t->late, err)))
		return rc;
	sum = count_samples(t);
	if ((rc = t->is_averaged ? write_beside(t, err) : average_now(t, err)) ||
	    (rc = apply(t, err)))
		return rc;
	return lh_rank_end_epoch(rank, epoch, sum, err);
}

static int finish(struct loop *t, struct lh_error *err)
{
	int rc = lh_rank_finish_late_update(t->rank, &t->late, err);

	t->rank->doing = "parting";
	t->control.failure_fd = -1;
	if (rc == 0 && t->is_dynamic)
		rc = lh_control_part(&t->control, err);
	return rc ? rc : lh_rank_finish(t->rank, err);
}

/* What this rank has with each peer: control only where counts are told. */
static int list_peers(const struct loop *t, uint64_t n_values, uint8_t *ret_wanted,
		      struct lh_error *err)
{
	uint32_t n = t->rank->n;
	lh_cleanup_free bool *has_data = calloc(n, sizeof(*has_data));
	int rc = 0;

	if (!has_data)
		return lh_fail(err, LH_ESYS, ENOMEM, "list peers");
	if (t->averaging->peers)
		rc = t->averaging->peers(t->rank, n_values, has_data, err);
	for (uint32_t peer = 0; peer < n; peer++) {
		ret_wanted[peer] = t->is_dynamic ? LH_MESH_CONTROL : 0;
		if (!t->averaging->peers || has_data[peer])
			ret_wanted[peer] |= LH_MESH_DATA;
	}
	return rc;
}

static int start(struct loop *t, struct lh_error *err)
{
	struct lh_rank *rank = t->rank;
	struct lh_averaged averaged = rank->compute->averaged(rank->computing);
	lh_cleanup_free uint8_t *wanted = calloc(rank->n, sizeof(*wanted));
	int rc;

	t->samples = calloc(rank->n, sizeof(*t->samples));
	if (!wanted || !t->samples)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a rank");
	if ((rc = list_peers(t, averaged.n, wanted, err)) ||
	    (rc = lh_rank_connect(rank, wanted, err)))
		return rc;
	lh_progress_init(&t->progress, t->job, rank->self);
	lh_control_init(&t->control, &rank->mesh, rank->traffic, &t->progress);
	if (rank->n > 1) {
		if ((rc = t->averaging->open(rank, averaged, &t->averager, err)))
			return rc;
		t->control.failure_fd = rank->comm ? lh_comm_failure_fd(rank->comm) : -1;
	}
	return lh_rank_write_connected(rank, err);
}

static int run(struct loop *t, struct lh_error *err)
{
	int rc = start(t, err);

	if (rc)
		return lh_error_prefix(err, "connecting");
	for (uint32_t epoch = 0; rc == 0 && epoch < t->job->epochs; epoch++)
		if ((rc = run_epoch(t, epoch, err)))
			lh_error_prefix(err, "epoch %" PRIu32 ", %s", epoch, t->rank->doing);
	if (rc == 0 && (rc = finish(t, err)))
		lh_error_prefix(err, "ending");
	return rc;
}

int lh_target_batch_run(struct lh_rank *rank, struct lh_error *err)
{
	struct loop *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a rank");
	t->rank = rank;
	t->job = rank->job;
	t->averaging = lh_compressing_averaging(rank->job);
	t->is_dynamic = rank->job->settings.balance == LH_BALANCE_DYNAMIC;
	rc = run(t, err);
	t->averaging->close(t->averager);
	free(t->samples);
	free(t);
	return rc;
}
