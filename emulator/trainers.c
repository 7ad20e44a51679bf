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

static int start_trainer(const struct lh_engine *e, size_t rank, const char *job,
			 struct lh_child *ret_child, struct lh_error *err)
{
	lh_cleanup_free char *number = lh_strf("%zu", rank);
	lh_cleanup_free char *events = lh_strf("%s/events/rank-%zu.jsonl", e->req->run_dir, rank);
	lh_cleanup_free char *log = lh_strf("%s/events/rank-%zu.log", e->req->run_dir, rank);
	char *argv[] = {(char *)e->req->trainer_path,
			"--job",
			(char *)job,
			"--rank",
			number,
			"--events",
			events,
			NULL};

	if (!number || !events || !log)
		return lh_fail(err, LH_ESYS, ENOMEM, "start a trainer");
	return lh_child_start(e->net, rank, argv, log, ret_child, err);
}

/* A trainer that ended badly, or -1: one that was killed before those that lost it. */
static long first_failed(const struct lh_child *children, size_t n)
{
	long failed = -1;

	for (size_t i = 0; i < n; i++) {
		if (children[i].pid || !children[i].status)
			continue;
		if (WIFSIGNALED(children[i].status))
			return (long)i;
		if (failed < 0)
			failed = (long)i;
	}
	return failed;
}

static int fail_for_trainer(const struct lh_engine *e, size_t rank, int status,
			    struct lh_error *err)
{
	const char *node = e->plan->ranks[rank].name;

	if (WIFSIGNALED(status))
		return lh_fail(err, LH_ERUN, 0,
			       "the trainer of %s (rank %zu) was killed by signal "
			       "%d",
			       node, rank, WTERMSIG(status));
	return lh_fail(err, LH_ERUN, 0,
		       "the trainer of %s (rank %zu) ended with status %d; see "
		       "events/rank-%zu.log",
		       node, rank, WEXITSTATUS(status), rank);
}

/* Waits for all trainers, at most until until_ns, while the network changes as planned; how many
 * still run, or an error. */
static long wait_until(struct lh_engine *e, struct lh_child *children, int64_t until_ns,
		       struct lh_error *err)
{
	for (;;) {
		int64_t due_ns = lh_timeline_due_ns(e->timeline);
		size_t running = lh_children_wait(children, e->plan->n_ranks,
						  due_ns < until_ns ? due_ns : until_ns);
		int r = lh_timeline_run(e->timeline, err);

		if (r < 0)
			return r;
		if (!running || lh_now_ns() >= until_ns)
			return (long)running;
	}
}

/* Waits for all trainers, reading counters every second. */
static int wait_for_trainers(struct lh_engine *e, struct lh_child *children, struct lh_error *err)
{
	size_t n = e->plan->n_ranks;
	long first = -1;
	int64_t deadline_ns = INT64_MAX;
	int64_t next_ns = e->begin_ns;

	for (;;) {
		long running;
		int r;

		next_ns += LH_SAMPLE_NS;
		running = wait_until(e, children, next_ns, err);
		r = running > 0 ? lh_engine_sample(e, err) : (int)running;
		if (r < 0)
			return r;
		if (first < 0 && (first = first_failed(children, n)) >= 0)
			deadline_ns = lh_now_ns() + lh_start_timeout_ns(e->plan) +
				      PEER_LOSS_PATIENCE_S * INT64_C(1000000000);
		if (!running)
			break;
		if (lh_now_ns() > deadline_ns)
			lh_children_kill(children, n);
	}
	return first < 0 ? 0 : fail_for_trainer(e, (size_t)first, children[first].status, err);
}

int lh_run_trainers(struct lh_engine *e, struct lh_error *err)
{
	size_t n = e->plan->n_ranks;
	lh_cleanup_free char *job = lh_engine_path(e, "trainer.json");
	lh_cleanup_free char *events = lh_engine_path(e, "events");
	lh_cleanup_free struct lh_child *children = calloc(n, sizeof(*children));
	int r;

	if (!job || !events || !children)
		return lh_fail(err, LH_ESYS, ENOMEM, "start the trainers");
	r = lh_dir_make(events, err);
	if (r == 0)
		r = lh_engine_write_json(e, "trainer.json", lh_trainer_job(e->plan), err);
	e->begin_ns = lh_now_ns();
	if (r == 0)
		r = lh_engine_begin_timeline(e, err);
	for (size_t i = 0; i < n && r == 0; i++)
		r = start_trainer(e, i, job, &children[i], err);
	if (r == 0)
		r = wait_for_trainers(e, children, err);
	e->end_ns = lh_now_ns();
	lh_children_kill(children, n);
	if (r == 0)
		r = lh_engine_sample(e, err);
	return r < 0 ? r : 0;
}
