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
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/command.h"
#include "emulator/engine_internal.h"
#include "emulator/program.h"
#include "emulator/reports.h"
#include "emulator/variables.h"

enum {
	READ_BYTES = 65536,
	GRACE_S = 10,	 /* of the others, when one has failed */
	TIMED_OUT = 124, /* as timeout(1) ends */
	HOST_NAME_LENGTH_MAX = 64,
	IDLE_MAX = 9, /* seconds left out between two samples */
};

/* AWAY: its node is, or goes and it has left before. */
enum ending { RUNNING, ENDED, STOPPED, OUT_OF_TIME, STOPPED_AS_ASKED, AWAY };

static const char *const ending_names[] = {"running",	 "ended",      "stopped",
					   "time limit", "stop after", "preempted"};

/* One rank's program. */
struct job {
	size_t rank; /* of the scenario; among those that run it is its place in the list */
	char *host_name;
	struct lh_program program;
	int file_fds[LH_N_REPORT_STREAMS]; /* where what it says is kept */
	char *fifo;			   /* that its reports come through; NULL: none */
	int fifo_fd;			   /* -1: none */
	struct lh_reports *reports;
	enum ending ending;
	bool is_told; /* that its node goes away: if it ends, that is why */
	unsigned n_starts;
	int64_t begin_ns; /* of its last start */
	int64_t end_ns;
};

struct jobs {
	struct lh_engine *e;
	const struct lh_command *command;
	struct job *list;
	size_t n;
	char *hosts_path;
	char *report_path; /* in the nodes; NULL: none */
	bool has_made_report_file;
	char *doors_folder;	      /* NULL: none */
	struct lh_terminal *terminal; /* of the first job; NULL: none */
	struct pollfd *polled;	      /* one of each job's streams, the signals, the terminal's */
	int signal_fd;
	int heartbeat_fd; /* -1: nobody listens */
	int64_t beats;
	bool some_ended;   /* since one last looked */
	long first_failed; /* -1: none */
	int64_t deadline_ns;
	enum ending deadline_is;
};

static const char *const stream_names[] = {"stdout", "stderr", "jsonl"};

/* The pipe that a program writes its reports into, held open so that it never ends. */
static int open_fifo(struct job *job, const struct lh_engine *e, struct lh_error *err)
{
	job->fifo = lh_strf("%s/nodes/%s.fifo", e->req->run_dir, job->host_name);
	if (!job->fifo || mkfifo(job->fifo, 0600) < 0 || chmod(job->fifo, 0666) < 0 ||
	    (job->fifo_fd = open(job->fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0)
		return lh_fail(err, LH_ESYS, errno, "make nodes/%s.fifo", job->host_name);
	return 0;
}

/* nodes/SITE-N.stdout, .stderr and, where the program reports into a file, .jsonl. */
static int open_files(struct job *job, const struct jobs *jobs, struct lh_error *err)
{
	const struct lh_engine *e = jobs->e;

	for (int i = 0; i < (jobs->report_path ? LH_N_REPORT_STREAMS : LH_REPORT_FILE); i++) {
		lh_cleanup_free char *path =
			lh_strf("%s/nodes/%s.%s", e->req->run_dir, job->host_name, stream_names[i]);

		job->file_fds[i] =
			path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
		if (job->file_fds[i] < 0)
			return lh_fail(err, LH_ESYS, errno, "create nodes/%s.%s", job->host_name,
				       stream_names[i]);
	}
	return jobs->report_path ? open_fifo(job, e, err) : 0;
}

static int open_reports(struct jobs *jobs, size_t rank, struct lh_error *err)
{
	const struct lh_engine *e = jobs->e;
	struct job *job = &jobs->list[rank];
	const struct lh_reports_spec spec = {&e->req->scenario->workload.progress,
					     e->plan->ranks[job->rank].name, rank, jobs->n,
					     e->req->owns_kernel};
	unsigned before = job->n_starts;
	lh_cleanup_free char *path =
		before ? lh_strf("%s/events/rank-%zu.%u.jsonl", e->req->run_dir, rank, before)
		       : lh_strf("%s/events/rank-%zu.jsonl", e->req->run_dir, rank);

	return path ? lh_reports_open(path, &spec, job->begin_ns, &job->reports, err)
		    : lh_fail(err, LH_ESYS, ENOMEM, "read reports");
}

/* Names and addresses of all nodes, for /etc/hosts. */
static int write_hosts(const struct lh_engine *e, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_engine_path(e, "hosts");
	lh_cleanup_fclose FILE *f = path ? fopen(path, "we") : NULL;
	char address[16];

	if (!f)
		return lh_fail(err, LH_ESYS, errno, "create hosts");
	fputs("127.0.0.1 localhost\n", f);
	for (size_t i = 0; i < e->plan->n_ranks; i++) {
		lh_cleanup_free char *name = lh_host_name(e->plan->ranks[i].name);

		fprintf(f, "%s %s\n",
			lh_address_format(e->plan->ranks[i].address, address, sizeof(address)),
			name ? name : "");
	}
	return fflush(f) == 0 ? 0 : lh_fail(err, LH_ESYS, errno, "write hosts");
}

/* Starts a node's program, for the first time or again: then without the terminal, whose other end
 * belongs to the one that was killed. */
static int start_job(struct jobs *jobs, size_t rank, struct lh_error *err)
{
	struct lh_engine *e = jobs->e;
	struct job *job = &jobs->list[rank];
	bool has_terminal = rank == 0 && jobs->terminal && !job->n_starts;
	const struct lh_variables_spec of = {.member = job->rank,
					     .rank = rank,
					     .n_ranks = jobs->n,
					     .master = jobs->list[0].rank,
					     .report_path = jobs->report_path,
					     .doors_folder = jobs->doors_folder,
					     .incarnation = job->n_starts};
	struct lh_variables ours;
	lh_cleanup_free char **environment = NULL;
	struct lh_program_spec spec = {
		.argv = e->req->scenario->workload.command,
		.cwd = jobs->command->cwd,
		.host_name = job->host_name,
		.hosts_path = jobs->hosts_path,
		.file_limit = &e->file_limit,
		.report_path = jobs->report_path,
		.doors_folder = jobs->doors_folder,
		.input_fd = has_terminal ? lh_terminal_program_fd(jobs->terminal) : 0,
		.is_terminal = has_terminal && jobs->command->terminal == LH_TERMINAL_TTY,
	};
	lh_cleanup_free char **argv =
		calloc(e->req->scenario->workload.n_command + 1, sizeof(*argv));
	int r;

	lh_variables_make(e->plan, &of, jobs->command->environment, &ours);
	environment = lh_variables_merge(jobs->command->environment, &ours);
	spec.environment = environment;
	if (argv)
		memcpy(argv, spec.argv, e->req->scenario->workload.n_command * sizeof(*argv));
	spec.argv = argv;
	r = environment && argv ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "start a program");
	if (r == 0 && !job->n_starts)
		r = open_files(job, jobs, err);
	spec.report_fifo = job->fifo;
	job->begin_ns = lh_now_ns();
	if (r == 0)
		r = open_reports(jobs, rank, err);
	if (r == 0)
		r = lh_program_start(e->net, job->rank, &spec, &job->program, err);
	if (r == 0 && spec.input_fd)
		r = lh_terminal_begin(jobs->terminal, err);
	lh_variables_done(&ours);
	job->n_starts++;
	job->ending = RUNNING;
	job->is_told = false;
	return r < 0 ? lh_error_prefix(err, "node %s", e->plan->ranks[job->rank].name) : 0;
}

/* Where a stream of a program is read from; -1: nowhere. */
static int fd_of(const struct job *job, size_t stream)
{
	return stream == LH_REPORT_FILE ? job->fifo_fd : job->program.out_fds[stream];
}

/* Moves what a program has said into its file; 1 where there was something, 0 at its end or
 * where there is nothing now. */
static int drain(struct jobs *jobs, struct job *job, size_t stream, struct lh_error *err)
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

static void set_deadline(struct jobs *jobs, int64_t deadline_ns, enum ending is)
{
	if (deadline_ns >= jobs->deadline_ns)
		return;
	jobs->deadline_ns = deadline_ns;
	jobs->deadline_is = is;
}

static int status_of(const struct job *job)
{
	if (job->ending == STOPPED_AS_ASKED || job->ending == AWAY)
		return 0;
	return job->ending == OUT_OF_TIME ? TIMED_OUT : lh_program_status(&job->program);
}

/* Takes all that a program has still said. */
static int drain_all(struct jobs *jobs, struct job *job, struct lh_error *err)
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
static int note_loss(struct jobs *jobs, struct job *job, struct lh_error *err)
{
	int r;

	job->end_ns = lh_now_ns();
	job->ending = AWAY;
	r = drain_all(jobs, job, err);
	if (r == 0)
		r = lh_reports_break_off(job->reports, job->end_ns, err);
	lh_reports_free(job->reports);
	job->reports = NULL;
	lh_program_done(&job->program);
	return r;
}

static int note_end(struct jobs *jobs, struct job *job, enum ending ending, struct lh_error *err)
{
	int r;

	if (ending == ENDED && job->is_told)
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
			set_deadline(jobs, job->end_ns + GRACE_S * (int64_t)LH_NS_PER_S, STOPPED);
	}
	return 0;
}

static size_t node_of(const struct jobs *jobs, const struct job *job)
{
	return jobs->e->plan->ranks[job->rank].node;
}

/* Whether a program that is away comes back in time. */
static bool is_awaited(const struct jobs *jobs, const struct job *job, bool is_over)
{
	return job->ending == AWAY && !is_over &&
	       lh_churn_will_start(jobs->e->churn, node_of(jobs, job));
}

/* Notes those that have ended; returns how many still run or are still to come. */
static int look_at_all(struct jobs *jobs, size_t *ret_running, struct lh_error *err)
{
	bool is_over = lh_now_ns() >= jobs->deadline_ns;
	int r = 0;

	*ret_running = 0;
	for (size_t i = 0; i < jobs->n && r == 0; i++) {
		struct job *job = &jobs->list[i];

		*ret_running += is_awaited(jobs, job, is_over);
		if (job->ending != RUNNING)
			continue;
		if (jobs->some_ended && lh_program_has_ended(&job->program)) {
			r = note_end(jobs, job, ENDED, err);
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
static int wait_and_take(struct jobs *jobs, int64_t until_ns, struct lh_error *err)
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
static void beat(struct jobs *jobs)
{
	if (jobs->heartbeat_fd >= 0)
		(void)!ftruncate(jobs->heartbeat_fd, ++jobs->beats);
}

static int wait_for_all(struct jobs *jobs, struct lh_error *err)
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

static json_t *job_to_json(const struct jobs *jobs, size_t rank)
{
	const struct job *job = &jobs->list[rank];
	const struct lh_plan_rank *node = &jobs->e->plan->ranks[job->rank];
	int sig = job->ending == ENDED ? lh_program_signal(&job->program) : 0;
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

static int write_result(const struct jobs *jobs, struct lh_error *err)
{
	const struct lh_workload *w = &jobs->e->req->scenario->workload;
	json_t *command = json_array(), *nodes = json_array();
	const struct job *failed = jobs->first_failed < 0 ? NULL : &jobs->list[jobs->first_failed];
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

/* The folders for what is said and reported. */
static int make_folders(struct jobs *jobs, struct lh_error *err)
{
	const char *file = jobs->e->req->scenario->workload.progress.file;
	lh_cleanup_free char *nodes = lh_engine_path(jobs->e, "nodes");
	lh_cleanup_free char *events = lh_engine_path(jobs->e, "events");
	int r = nodes && events ? lh_dir_make(nodes, err)
				: lh_fail(err, LH_ESYS, ENOMEM, "start programs");

	if (r == 0)
		r = lh_dir_make(events, err);
	if (r == 0 && file && !(jobs->report_path = lh_path_join(jobs->command->cwd, file)))
		r = lh_fail(err, LH_ESYS, ENOMEM, "start programs");
	if (r == 0 && jobs->command->terminal) {
		jobs->doors_folder = lh_engine_path(jobs->e, "doors");
		r = jobs->doors_folder ? lh_dir_make(jobs->doors_folder, err)
				       : lh_fail(err, LH_ESYS, ENOMEM, "start programs");
	}
	jobs->has_made_report_file = jobs->report_path && !lh_path_exists(jobs->report_path);
	return r;
}

static int prepare(struct jobs *jobs, struct lh_error *err)
{
	const struct lh_engine_request *req = jobs->e->req;
	sigset_t set;
	int r = make_folders(jobs, err);

	if (r == 0)
		r = write_hosts(jobs->e, err);
	if (r < 0)
		return r;
	jobs->list = calloc(jobs->n, sizeof(*jobs->list));
	jobs->polled = calloc(LH_N_REPORT_STREAMS * jobs->n + 1 + LH_TERMINAL_POLLS,
			      sizeof(*jobs->polled));
	if (!jobs->list || !jobs->polled)
		return lh_fail(err, LH_ESYS, ENOMEM, "start programs");
	for (size_t i = 0; i < jobs->n; i++) {
		struct job *job = &jobs->list[i];
		const char *node;

		*job = (struct job){.rank = jobs->command->ranks[i],
				    .program = LH_PROGRAM_NONE,
				    .ending = AWAY,
				    .file_fds = {-1, -1, -1},
				    .fifo_fd = -1};
		node = jobs->e->plan->ranks[job->rank].name;
		job->host_name = lh_host_name(node);
		if (!job->host_name || strlen(job->host_name) > HOST_NAME_LENGTH_MAX)
			return lh_fail(err, LH_ERUN, 0,
				       "the name of node %s is too long for a host's (%d)", node,
				       HOST_NAME_LENGTH_MAX);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGALRM); /* of the timeline */
	jobs->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (jobs->signal_fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open a signal descriptor");
	if (jobs->command->terminal &&
	    (r = lh_terminal_open(jobs->command->terminal, req->link_fd, &jobs->terminal, err)) < 0)
		return r;
	if (req->heartbeat_path)
		jobs->heartbeat_fd =
			open(req->heartbeat_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return 0;
}

static void jobs_done(struct jobs *jobs)
{
	for (size_t i = 0; jobs->list && i < jobs->n; i++) {
		struct job *job = &jobs->list[i];

		lh_program_done(&job->program);
		for (int k = 0; k < LH_N_REPORT_STREAMS; k++)
			if (job->file_fds[k] >= 0)
				close(job->file_fds[k]);
		if (job->fifo_fd >= 0)
			close(job->fifo_fd);
		if (job->fifo)
			unlink(job->fifo);
		lh_reports_free(job->reports);
		free(job->fifo);
		free(job->host_name);
	}
	/* the pipes stood over it: nothing was written into it */
	if (jobs->has_made_report_file)
		unlink(jobs->report_path);
	free(jobs->report_path);
	free(jobs->doors_folder);
	lh_terminal_close(jobs->terminal);
	free(jobs->list);
	free(jobs->polled);
	if (jobs->signal_fd >= 0)
		close(jobs->signal_fd);
	if (jobs->heartbeat_fd >= 0)
		close(jobs->heartbeat_fd);
}

/* ---- nodes that go and come -------------------------------------------------------------- */

/* The next job in a node, after one (NULL: the first); NULL where there is no more. */
static struct job *next_in(struct jobs *jobs, size_t node, struct job *job)
{
	for (job = job ? job + 1 : jobs->list; job < jobs->list + jobs->n; job++)
		if (node_of(jobs, job) == node)
			return job;
	return NULL;
}

static bool is_done(void *context, size_t node)
{
	struct job *job = next_in(context, node, NULL);
	bool has_any = job;

	for (; job; job = next_in(context, node, job))
		if (job->ending == RUNNING || job->ending == AWAY)
			return false;
	return has_any;
}

static int notify(void *context, size_t node, struct lh_error *err)
{
	(void)err;
	for (struct job *job = NULL; (job = next_in(context, node, job));) {
		job->is_told = true;
		lh_program_ask(&job->program);
	}
	return 0;
}

static int end_jobs(void *context, size_t node, struct lh_error *err)
{
	int r = 0;

	for (struct job *job = NULL; r == 0 && (job = next_in(context, node, job));) {
		if (job->ending != RUNNING)
			continue;
		lh_program_kill(&job->program);
		r = note_loss(context, job, err);
	}
	return r;
}

static int start_again(void *context, size_t node, unsigned incarnation, struct lh_error *err)
{
	struct jobs *jobs = context;
	int r = 0;

	(void)incarnation;
	if (lh_now_ns() >= jobs->deadline_ns)
		return 0;
	for (struct job *job = NULL; r == 0 && (job = next_in(context, node, job));)
		r = start_job(jobs, (size_t)(job - jobs->list), err);
	return r;
}

static const struct lh_churn_ops churn_ops = {is_done, notify, end_jobs, start_again};

int lh_run_commands(struct lh_engine *e, struct lh_error *err)
{
	const struct lh_command *command = e->req->command;
	const struct lh_workload *workload = &e->req->scenario->workload;
	lh_cleanup_free char *hosts = lh_engine_path(e, "hosts");
	struct jobs jobs = {.e = e,
			    .hosts_path = hosts,
			    .command = command,
			    .n = command->n_ranks,
			    .signal_fd = -1,
			    .heartbeat_fd = -1,
			    .first_failed = -1,
			    .deadline_ns = INT64_MAX};
	int r = hosts ? prepare(&jobs, err) : lh_fail(err, LH_ESYS, ENOMEM, "start programs");

	e->begin_ns = lh_now_ns();
	if (r == 0)
		r = lh_engine_begin_timeline(e, err);
	if (r == 0)
		r = lh_engine_begin_churn(e, &churn_ops, &jobs, err);
	if (command->time_limit_ns)
		set_deadline(&jobs, e->begin_ns + command->time_limit_ns, OUT_OF_TIME);
	if (workload->time_limit_ns > 0)
		set_deadline(&jobs, e->begin_ns + workload->time_limit_ns, OUT_OF_TIME);
	if (workload->stop_after_ns > 0)
		set_deadline(&jobs, e->begin_ns + workload->stop_after_ns, STOPPED_AS_ASKED);
	for (size_t i = 0; i < jobs.n && r == 0; i++)
		if (!lh_churn_is_away(e->churn, node_of(&jobs, &jobs.list[i])))
			r = start_job(&jobs, i, err);
	if (r == 0)
		r = wait_for_all(&jobs, err);
	e->end_ns = lh_now_ns();
	if (r == 0)
		r = write_result(&jobs, err);
	jobs_done(&jobs);
	if (r == 0)
		r = lh_engine_sample(e, err);
	return r < 0 ? r : 0;
}
