/* SPDX-License-Identifier: Apache-2.0 */
/* Preparing and starting programs in nodes. See commands_internal.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/commands_internal.h"
#include "emulator/variables.h"

enum { HOST_NAME_LENGTH_MAX = 64 };

static const char *const stream_names[] = {"stdout", "stderr", "jsonl"};

/* The pipe that a program writes its reports into, held open so that it never ends. */
static int open_fifo(struct lh_command_job *job, const struct lh_engine *e, struct lh_error *err)
{
	job->fifo = lh_strf("%s/nodes/%s.fifo", e->req->run_dir, job->host_name);
	if (!job->fifo || mkfifo(job->fifo, 0600) < 0 || chmod(job->fifo, 0666) < 0 ||
	    (job->fifo_fd = open(job->fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0)
		return lh_fail(err, LH_ESYS, errno, "make nodes/%s.fifo", job->host_name);
	return 0;
}

/* nodes/SITE-N.stdout, .stderr and, where the program reports into a file, .jsonl. */
static int open_files(struct lh_command_job *job, const struct lh_command_jobs *jobs,
		      struct lh_error *err)
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

static int open_reports(struct lh_command_jobs *jobs, size_t rank, struct lh_error *err)
{
	const struct lh_engine *e = jobs->e;
	struct lh_command_job *job = &jobs->list[rank];
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

int lh_command_start(struct lh_command_jobs *jobs, size_t rank, struct lh_error *err)
{
	struct lh_engine *e = jobs->e;
	struct lh_command_job *job = &jobs->list[rank];
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
	job->ending = LH_COMMAND_RUNNING;
	job->is_told = false;
	return r < 0 ? lh_error_prefix(err, "node %s", e->plan->ranks[job->rank].name) : 0;
}

/* The folders for what is said and reported. */
static int make_folders(struct lh_command_jobs *jobs, struct lh_error *err)
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

int lh_command_prepare(struct lh_command_jobs *jobs, struct lh_error *err)
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
		struct lh_command_job *job = &jobs->list[i];
		const char *node;

		*job = (struct lh_command_job){.rank = jobs->command->ranks[i],
					       .program = LH_PROGRAM_NONE,
					       .ending = LH_COMMAND_AWAY,
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

void lh_command_jobs_done(struct lh_command_jobs *jobs)
{
	for (size_t i = 0; jobs->list && i < jobs->n; i++) {
		struct lh_command_job *job = &jobs->list[i];

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
