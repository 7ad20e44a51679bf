/* SPDX-License-Identifier: Apache-2.0 */
/* One trainer for every rank, until all have ended. See engine_internal.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/engine_internal.h"
#include "emulator/launch.h"

enum { PEER_LOSS_PATIENCE_S = 60 }; /* beyond what a trainer needs to notice a dead peer */

/* What is known of a rank beside its process. */
struct rank {
	bool was_started;
	bool is_told; /* that its node goes away: if it ends, that is why */
	bool is_lost; /* it has ended because its node goes, or is gone */
	bool is_done; /* it has ended by itself */
};

struct trainers {
	struct lh_engine *e;
	const char *job_path;
	size_t n;
	struct lh_child *children;
	struct rank *ranks;
	long first_failed; /* -1: none */
	bool is_over;	   /* one has come to the end of the training: no other begins it anew */
};

/* events/rank-R.jsonl of the first incarnation, events/rank-R.K.jsonl of those after it. */
static char *events_path(const struct lh_engine *e, size_t rank, unsigned incarnation)
{
	return incarnation
		       ? lh_strf("%s/events/rank-%zu.%u.jsonl", e->req->run_dir, rank, incarnation)
		       : lh_strf("%s/events/rank-%zu.jsonl", e->req->run_dir, rank);
}

static int start_trainer(struct trainers *t, size_t rank, unsigned incarnation,
			 struct lh_error *err)
{
	const struct lh_engine *e = t->e;
	lh_cleanup_free char *number = lh_strf("%zu", rank);
	lh_cleanup_free char *events = events_path(e, rank, incarnation);
	lh_cleanup_free char *log = lh_strf("%s/events/rank-%zu.log", e->req->run_dir, rank);
	lh_cleanup_free char *before = lh_strf("%u", incarnation);
	char *argv[] = {(char *)e->req->trainer_path,
			"--job",
			(char *)t->job_path,
			"--rank",
			number,
			"--events",
			events,
			incarnation ? "--incarnation" : NULL,
			before,
			NULL};

	if (!number || !events || !log || !before)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a trainer");
	t->ranks[rank] = (struct rank){.was_started = true};
	return lh_child_start(e->net, rank, argv, log, &t->children[rank], err);
}

/* ---- nodes that go and come -------------------------------------------------------------- */

/* The ranks of a node are [first, end). */
static void ranks_of(const struct trainers *t, size_t node, size_t *ret_first, size_t *ret_end)
{
	const struct lh_plan_node *n = &t->e->plan->nodes[node];

	*ret_first = n->first_rank;
	*ret_end = n->first_rank + n->n_ranks;
}

static bool is_done(void *context, size_t node)
{
	const struct trainers *t = context;
	size_t first, end;

	ranks_of(t, node, &first, &end);
	for (size_t i = first; i < end; i++)
		if (!t->ranks[i].is_done)
			return false;
	return true;
}

static int notify(void *context, size_t node, struct lh_error *err)
{
	struct trainers *t = context;
	size_t first, end;

	(void)err;
	ranks_of(t, node, &first, &end);
	for (size_t i = first; i < end; i++) {
		t->ranks[i].is_told = true;
		lh_child_ask(&t->children[i]);
	}
	return 0;
}

static int end_ranks(void *context, size_t node, struct lh_error *err)
{
	struct trainers *t = context;
	size_t first, end;

	(void)err;
	ranks_of(t, node, &first, &end);
	for (size_t i = first; i < end; i++)
		t->ranks[i].is_lost = true;
	lh_children_kill(&t->children[first], end - first);
	return 0;
}

static int start_ranks(void *context, size_t node, unsigned incarnation, struct lh_error *err)
{
	struct trainers *t = context;
	size_t first, end;
	int r = 0;

	if (t->is_over || t->first_failed >= 0)
		return 0;
	ranks_of(t, node, &first, &end);
	for (size_t i = first; r == 0 && i < end; i++)
		r = start_trainer(t, i, incarnation, err);
	return r;
}

static const struct lh_churn_ops churn_ops = {is_done, notify, end_ranks, start_ranks};

/* ---- their ends -------------------------------------------------------------------------- */

/* Notes which have ended, and why. Of those that failed together one that was killed counts as the
 * first: the others lost it. */
static void note_ends(struct trainers *t)
{
	long failed = t->first_failed;

	for (size_t i = 0; i < t->n; i++) {
		struct rank *rank = &t->ranks[i];
		int status = t->children[i].status;

		if (!rank->was_started || t->children[i].pid || rank->is_lost || rank->is_done)
			continue;
		rank->is_lost = rank->is_told;
		rank->is_done = !rank->is_told;
		if (rank->is_lost)
			continue;
		t->is_over |= status == 0;
		if (status && (failed < 0 || (t->first_failed < 0 && WIFSIGNALED(status) &&
					      !WIFSIGNALED(t->children[failed].status))))
			failed = (long)i;
	}
	t->first_failed = failed;
}

static int fail_for_trainer(const struct trainers *t, struct lh_error *err)
{
	size_t rank = (size_t)t->first_failed;
	const char *node = t->e->plan->ranks[rank].name;
	int status = t->children[rank].status;
	lh_cleanup_free char *loss = lh_churn_describe_last(t->e->churn);
	const char *after = loss ? ", after " : "";

	if (WIFSIGNALED(status))
		return lh_fail(err, LH_ERUN, 0,
			       "the trainer of %s (rank %zu) was killed by signal %d%s%s", node,
			       rank, WTERMSIG(status), after, loss ? loss : "");
	return lh_fail(err, LH_ERUN, 0,
		       "the trainer of %s (rank %zu) ended with status %d%s%s; see "
		       "events/rank-%zu.log",
		       node, rank, WEXITSTATUS(status), after, loss ? loss : "", rank);
}

/* Whether a trainer that is not there now is still to come and matters. */
static bool is_awaited(const struct trainers *t)
{
	if (t->is_over || t->first_failed >= 0)
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (!t->ranks[i].is_done &&
		    lh_churn_will_start(t->e->churn, t->e->plan->ranks[i].node))
			return true;
	return false;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Waits for all trainers, at most until until_ns, while network and nodes change as planned; how
 * many still run, or an error. */
static long wait_until(struct trainers *t, int64_t until_ns, struct lh_error *err)
{
	struct lh_engine *e = t->e;

	for (;;) {
		int64_t due_ns =
			earlier(lh_timeline_due_ns(e->timeline), lh_churn_due_ns(e->churn));
		size_t running;
		int r;

		lh_children_wait(t->children, t->n, earlier(due_ns, until_ns));
		note_ends(t);
		r = lh_timeline_run(e->timeline, err);
		if (r == 0)
			r = lh_churn_run(e->churn, err);
		if (r < 0)
			return r;
		running = lh_children_running(t->children, t->n);
		if ((!running && !is_awaited(t)) || lh_now_ns() >= until_ns)
			return (long)running;
	}
}

/* Waits for all trainers, reading counters every second. */
static int wait_for_trainers(struct trainers *t, struct lh_error *err)
{
	struct lh_engine *e = t->e;
	int64_t deadline_ns = INT64_MAX;
	int64_t next_ns = e->begin_ns;

	for (;;) {
		long running;
		int r;

		next_ns += LH_SAMPLE_NS;
		running = wait_until(t, next_ns, err);
		r = running > 0 ? lh_engine_sample(e, err) : (int)running;
		if (r < 0)
			return r;
		if (deadline_ns == INT64_MAX && t->first_failed >= 0)
			deadline_ns = lh_now_ns() + lh_start_timeout_ns(e->plan) +
				      PEER_LOSS_PATIENCE_S * INT64_C(1000000000);
		if (!running && !is_awaited(t))
			break;
		if (lh_now_ns() > deadline_ns)
			lh_children_kill(t->children, t->n);
	}
	if (t->first_failed >= 0)
		return fail_for_trainer(t, err);
	return t->is_over
		       ? 0
		       : lh_fail(err, LH_ERUN, 0,
				 "all nodes were taken away before the training came to its end");
}

static int run_trainers(struct trainers *t, struct lh_error *err)
{
	struct lh_engine *e = t->e;
	int r;

	e->begin_ns = lh_now_ns();
	r = lh_engine_write_json(e, "trainer.json", lh_trainer_job(e->plan, e->begin_ns), err);
	if (r == 0)
		r = lh_engine_begin_timeline(e, err);
	if (r == 0)
		r = lh_engine_begin_churn(e, &churn_ops, t, err);
	for (size_t i = 0; i < t->n && r == 0; i++)
		if (!lh_churn_is_away(e->churn, e->plan->ranks[i].node))
			r = start_trainer(t, i, 0, err);
	if (r == 0)
		r = wait_for_trainers(t, err);
	e->end_ns = lh_now_ns();
	lh_children_kill(t->children, t->n);
	return r;
}

int lh_run_trainers(struct lh_engine *e, struct lh_error *err)
{
	size_t n = e->plan->n_ranks;
	lh_cleanup_free char *job = lh_engine_path(e, "trainer.json");
	lh_cleanup_free char *events = lh_engine_path(e, "events");
	lh_cleanup_free struct lh_child *children = calloc(n, sizeof(*children));
	lh_cleanup_free struct rank *ranks = calloc(n, sizeof(*ranks));
	struct trainers t = {.e = e,
			     .job_path = job,
			     .n = n,
			     .children = children,
			     .ranks = ranks,
			     .first_failed = -1};
	int r;

	if (!job || !events || !children || !ranks)
		return lh_fail(err, LH_ESYS, ENOMEM, "start the trainers");
	r = lh_dir_make(events, err);
	if (r == 0)
		r = run_trainers(&t, err);
	if (r == 0)
		r = lh_engine_sample(e, err);
	return r < 0 ? r : 0;
}
