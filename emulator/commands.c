/* SPDX-License-Identifier: Apache-2.0 */
/* A program in one or all nodes, until all have ended. See engine_internal.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/commands_internal.h"

enum {
	READ_BYTES = 65536,
	GRACE_S = 10,	 /* of the others, when one has failed */
	TIMED_OUT = 124, /* as timeout(1) ends */
	IDLE_MAX = 9,	 /* seconds left out between two samples */
};

static const char *const ending_names[] = {"running",	 "ended",      "stopped",
					   "time limit", "stop after", "preempted"};

/* Where a stream of a program is read from; -1: nowhere. */
static int fd_of(const struct lh_command_job *job, size_t stream)
{
	return stream == LH_REPORT_FILE ? job->fifo_fd : job->program.out_fds[stream];
}

/* Moves what a program has said into its file; 1 where there was something, 0 at its end or
 * where there is nothing now. */
static int drain(struct lh_command_jobs *jobs, struct lh_command_job *job, size_t stream,
		 struct lh_error *err)
{
	char buf[READ_BYTES];
	ssize_t n = read(fd_of(job, stream), buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 && stream == LH_REPORT_FILE)
		return lh_fail(err, LH_ESYS, errno, "read the reports of %s", job->host_name);
	if (n <= 0) {
		close(job->program.out_fds[stream]);
		job->program.out_fds[stream] = -1;
		return 0;
	}
	for (ssize_t done = 0, k; done < n; done += k) {
		k = write(job->file_fds[stream], buf + done, (size_t)(n - done));
		if (k < 0)
			return lh_fail(err, LH_ESYS, errno, "keep what %s said", job->host_name);
	}
	/* the guest would keep it to itself for a while */
	if (jobs->e->req->owns_kernel)
		sync_file_range(job->file_fds[stream], 0, 0,
				SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
	n = lh_reports_take(job->reports, (enum lh_report_stream)stream, buf, (size_t)n,
			    lh_now_ns(), err);
	return n < 0 ? (int)n : 1;
}

static void set_deadline(struct lh_command_jobs *jobs, int64_t deadline_ns,
			 enum lh_command_ending is)
{
	if (deadline_ns >= jobs->deadline_ns)
		return;
	jobs->deadline_ns = deadline_ns;
	jobs->deadline_is = is;
}

static int status_of(const struct lh_command_job *job)
{
	if (job->ending == LH_COMMAND_STOPPED_AS_ASKED || job->ending == LH_COMMAND_AWAY)
		return 0;
	return job->ending == LH_COMMAND_OUT_OF_TIME ? TIMED_OUT : lh_program_status(&job->program);
}

/* Takes all that a program has still said. */
static int drain_all(struct lh_command_jobs *jobs, struct lh_command_job *job, struct lh_error *err)
{
	for (size_t i = 0; i < LH_N_REPORT_STREAMS; i++) {
		int r = 1;

		while (fd_of(job, i) >= 0 && r > 0)
			r = drain(jobs, job, i, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Of a program whose node has gone, or that has left because it goes. */
static int note_loss(struct lh_command_jobs *jobs, struct lh_command_job *job, struct lh_error *err)
{
	int r;

	job->end_ns = lh_now_ns();
	job->ending = LH_COMMAND_AWAY;
	r = drain_all(jobs, job, err);
	if (r == 0)
		r = lh_reports_break_off(job->reports, job->end_ns, err);
	lh_reports_free(job->reports);
	job->reports = NULL;
	lh_program_done(&job->program);
	return r;
}

static int note_end(struct lh_command_jobs *jobs, struct lh_command_job *job,
		    enum lh_command_ending ending, struct lh_error *err)
{
	int r;

	if (ending == LH_COMMAND_ENDED && job->is_told)
		return note_loss(jobs, job, err);
	job->end_ns = lh_now_ns();
	job->ending = ending;
	r = drain_all(jobs, job, err);
	if (r == 0)
		r = lh_reports_end(job->reports, job->end_ns, err);
	if (r == 0 && jobs->terminal && job == jobs->list)
		r = lh_terminal_serve(jobs->terminal, err);
	if (r < 0)
		return r;
	if (jobs->first_failed < 0 && status_of(job) != 0) {
		jobs->first_failed = (long)(job - jobs->list);
		if (!jobs->command->keep_going)
			set_deadline(jobs, job->end_ns + GRACE_S * (int64_t)LH_NS_PER_S,
				     LH_COMMAND_STOPPED);
	}
	return 0;
}

static size_t node_of(const struct lh_command_jobs *jobs, const struct lh_command_job *job)
{
	return jobs->e->plan->ranks[job->rank].node;
}

/* Whether a program that is away comes back in time. */
static bool is_awaited(const struct lh_command_jobs *jobs, const struct lh_command_job *job,
		       bool is_over)
{
	return job->ending == LH_COMMAND_AWAY && !is_over &&
	       lh_churn_will_start(jobs->e->churn, node_of(jobs, job));
}

/* Notes those that have ended; returns how many still run or are still to come. */
static int look_at_all(struct lh_command_jobs *jobs, size_t *ret_running, struct lh_error *err)
{
	bool is_over = lh_now_ns() >= jobs->deadline_ns;
	int r = 0;

	*ret_running = 0;
	for (size_t i = 0; i < jobs->n && r == 0; i++) {
		struct lh_command_job *job = &jobs->list[i];

		*ret_running += is_awaited(jobs, job, is_over);
		if (job->ending != LH_COMMAND_RUNNING)
			continue;
		if (jobs->some_ended && lh_program_has_ended(&job->program)) {
			r = note_end(jobs, job, LH_COMMAND_ENDED, err);
			*ret_running += is_awaited(jobs, job, is_over);
		} else if (is_over) {
			lh_program_kill(&job->program);
			r = note_end(jobs, job, jobs->deadline_is, err);
		} else {
			++*ret_running;
		}
	}
	jobs->some_ended = false;
	return r;
}

/* Waits until something happens, at most until until_ns, and takes what was said. */
static int wait_and_take(struct lh_command_jobs *jobs, int64_t until_ns, struct lh_error *err)
{
	int64_t left_ns = until_ns - lh_now_ns();
	struct timespec timeout = {left_ns > 0 ? left_ns / LH_NS_PER_S : 0,
				   left_ns > 0 ? left_ns % LH_NS_PER_S : 0};
	struct signalfd_siginfo info;
	size_t each = LH_N_REPORT_STREAMS, n = each * jobs->n;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		jobs->polled[i] = (struct pollfd){.fd = fd_of(&jobs->list[i / each], i % each),
						  .events = POLLIN};
	jobs->polled[n] = (struct pollfd){.fd = jobs->signal_fd, .events = POLLIN};
	if (jobs->terminal)
		lh_terminal_poll(jobs->terminal, &jobs->polled[n + 1]);
	if (ppoll(jobs->polled, n + 1 + (jobs->terminal ? LH_TERMINAL_POLLS : 0), &timeout, NULL) <=
	    0)
		return 0;
	while (read(jobs->signal_fd, &info, sizeof(info)) > 0)
		jobs->some_ended |= info.ssi_signo == SIGCHLD;
	if (jobs->terminal)
		r = lh_terminal_serve(jobs->terminal, err);
	for (size_t i = 0; i < n && r >= 0; i++)
		if (jobs->polled[i].revents)
			r = drain(jobs, &jobs->list[i / each], i % each, err);
	return r < 0 ? r : 0;
}

/* For whoever watches from outside whether time passes. */
static void beat(struct lh_command_jobs *jobs)
{
	if (jobs->heartbeat_fd >= 0)
		(void)!ftruncate(jobs->heartbeat_fd, ++jobs->beats);
}

static int wait_for_all(struct lh_command_jobs *jobs, struct lh_error *err)
{
	int64_t next_ns = jobs->e->begin_ns + LH_SAMPLE_NS;
	/* where nothing passes one looks less often, unless rates of a second are judged */
	bool is_real = jobs->e->plan->scenario->run.clock == LH_CLOCK_REAL;
	int n_idle = 0;

	for (;;) {
		int64_t until_ns = next_ns < jobs->deadline_ns ? next_ns : jobs->deadline_ns;
		size_t running = 0;
		int r = wait_and_take(jobs, until_ns, err);

		if (r == 0)
			r = lh_timeline_run(jobs->e->timeline, err);
		if (r == 0)
			r = lh_churn_run(jobs->e->churn, err);
		if (r == 0)
			r = look_at_all(jobs, &running, err);
		if (r < 0 || !running)
			return r;
		if (lh_now_ns() < next_ns)
			continue;
		beat(jobs);
		r = lh_engine_sample(jobs->e, err);
		if (r < 0)
			return r;
		n_idle = r || is_real ? 0 : n_idle < IDLE_MAX ? n_idle + 1 : IDLE_MAX;
		next_ns += (1 + n_idle) * (int64_t)LH_SAMPLE_NS;
	}
}

static json_t *job_to_json(const struct lh_command_jobs *jobs, size_t rank)
{
	const struct lh_command_job *job = &jobs->list[rank];
	const struct lh_plan_rank *node = &jobs->e->plan->ranks[job->rank];
	int sig = job->ending == LH_COMMAND_ENDED ? lh_program_signal(&job->program) : 0;
	char address[16];
	json_t *doc = json_pack("{s:s, s:s, s:s, s:I, s:s, s:i, s:I, s:I}", "node", node->name,
				"host", job->host_name, "address",
				lh_address_format(node->address, address, sizeof(address)), "rank",
				(json_int_t)rank, "ending", ending_names[job->ending], "status",
				status_of(job), "begin_ns", (json_int_t)job->begin_ns, "end_ns",
				(json_int_t)job->end_ns);

	if (sig)
		json_object_set_new(doc, "signal", json_integer(sig));
	if (jobs->e->churn)
		json_object_set_new(doc, "starts", json_integer(job->n_starts));
	return doc;
}

static int write_result(const struct lh_command_jobs *jobs, struct lh_error *err)
{
	const struct lh_workload *w = &jobs->e->req->scenario->workload;
	json_t *command = json_array(), *nodes = json_array();
	const struct lh_command_job *failed =
		jobs->first_failed < 0 ? NULL : &jobs->list[jobs->first_failed];
	json_t *doc;

	for (size_t i = 0; i < w->n_command; i++)
		json_array_append_new(command, json_string(w->command[i]));
	for (size_t i = 0; i < jobs->n; i++)
		json_array_append_new(nodes, job_to_json(jobs, i));
	doc = json_pack("{s:s, s:o, s:i, s:s*, s:o}", "format", "longhaul-exec/1", "command",
			command, "status", failed ? status_of(failed) : 0, "first_failed",
			failed ? jobs->e->plan->ranks[failed->rank].name : NULL, "nodes", nodes);
	return lh_engine_write_json(jobs->e, "exec.json", doc, err);
}

/* ---- nodes that go and come -------------------------------------------------------------- */

/* The next job in a node, after one (NULL: the first); NULL where there is no more. */
static struct lh_command_job *next_in(struct lh_command_jobs *jobs, size_t node,
				      struct lh_command_job *job)
{
	for (job = job ? job + 1 : jobs->list; job < jobs->list + jobs->n; job++)
		if (node_of(jobs, job) == node)
			return job;
	return NULL;
}

static bool is_done(void *context, size_t node)
{
	struct lh_command_job *job = next_in(context, node, NULL);
	bool has_any = job;

	for (; job; job = next_in(context, node, job))
		if (job->ending == LH_COMMAND_RUNNING || job->ending == LH_COMMAND_AWAY)
			return false;
	return has_any;
}

static int notify(void *context, size_t node, struct lh_error *err)
{
	(void)err;
	for (struct lh_command_job *job = NULL; (job = next_in(context, node, job));) {
		job->is_told = true;
		lh_program_ask(&job->program);
	}
	return 0;
}

static int end_jobs(void *context, size_t node, struct lh_error *err)
{
	int r = 0;

	for (struct lh_command_job *job = NULL; r == 0 && (job = next_in(context, node, job));) {
		if (job->ending != LH_COMMAND_RUNNING)
			continue;
		lh_program_kill(&job->program);
		r = note_loss(context, job, err);
	}
	return r;
}

static int start_again(void *context, size_t node, unsigned incarnation, struct lh_error *err)
{
	struct lh_command_jobs *jobs = context;
	int r = 0;

	(void)incarnation;
	if (lh_now_ns() >= jobs->deadline_ns)
		return 0;
	for (struct lh_command_job *job = NULL; r == 0 && (job = next_in(context, node, job));)
		r = lh_command_start(jobs, (size_t)(job - jobs->list), err);
	return r;
}

static const struct lh_churn_ops churn_ops = {is_done, notify, end_jobs, start_again};

int lh_run_commands(struct lh_engine *e, struct lh_error *err)
{
	const struct lh_command *command = e->req->command;
	const struct lh_workload *workload = &e->req->scenario->workload;
	lh_cleanup_free char *hosts = lh_engine_path(e, "hosts");
	struct lh_command_jobs jobs = {.e = e,
				       .hosts_path = hosts,
				       .command = command,
				       .n = command->n_ranks,
				       .signal_fd = -1,
				       .heartbeat_fd = -1,
				       .first_failed = -1,
				       .deadline_ns = INT64_MAX};
	int r = hosts ? lh_command_prepare(&jobs, err)
		      : lh_fail(err, LH_ESYS, ENOMEM, "start programs");

	e->begin_ns = lh_now_ns();
	if (r == 0)
		r = lh_engine_begin_timeline(e, err);
	if (r == 0)
		r = lh_engine_begin_churn(e, &churn_ops, &jobs, err);
	if (command->time_limit_ns)
		set_deadline(&jobs, e->begin_ns + command->time_limit_ns, LH_COMMAND_OUT_OF_TIME);
	if (workload->time_limit_ns > 0)
		set_deadline(&jobs, e->begin_ns + workload->time_limit_ns, LH_COMMAND_OUT_OF_TIME);
	if (workload->stop_after_ns > 0)
		set_deadline(&jobs, e->begin_ns + workload->stop_after_ns,
			     LH_COMMAND_STOPPED_AS_ASKED);
	for (size_t i = 0; i < jobs.n && r == 0; i++)
		if (!lh_churn_is_away(e->churn, node_of(&jobs, &jobs.list[i])))
			r = lh_command_start(&jobs, i, err);
	if (r == 0)
		r = wait_for_all(&jobs, err);
	e->end_ns = lh_now_ns();
	if (r == 0)
		r = write_result(&jobs, err);
	lh_command_jobs_done(&jobs);
	if (r == 0)
		r = lh_engine_sample(e, err);
	return r < 0 ? r : 0;
}
