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
#include "emulator/command.h"
#include "emulator/engine_internal.h"
#include "emulator/program.h"

enum {
	MASTER_PORT = 29500,
	READ_BYTES = 65536,
	GRACE_S = 10,	 /* of the others, when one has failed */
	TIMED_OUT = 124, /* as timeout(1) ends */
	OUR_VARIABLES_MAX = 24,
	HOST_NAME_LENGTH_MAX = 64,
	IDLE_MAX = 9, /* seconds left out between two samples */
};

enum ending { RUNNING, ENDED, STOPPED, OUT_OF_TIME };

static const char *const ending_names[] = {"running", "ended", "stopped", "time limit"};

/* One node's program. */
struct job {
	size_t node;
	char *host_name;
	struct lh_program program;
	int file_fds[2]; /* where its output is kept */
	enum ending ending;
	int64_t begin_ns;
	int64_t end_ns;
};

struct jobs {
	struct lh_engine *e;
	const struct lh_command *command;
	struct job *list;
	size_t n;
	struct pollfd *polled; /* two of each job, and the signals */
	int signal_fd;
	int heartbeat_fd; /* -1: nobody listens */
	int64_t beats;
	long first_failed; /* -1: none */
	int64_t deadline_ns;
	enum ending deadline_is;
};

static const char *const stream_names[] = {"stdout", "stderr"};

/* nodes/SITE-N.stdout and .stderr. */
static int open_files(struct job *job, const struct lh_engine *e, struct lh_error *err)
{
	for (int i = 0; i < 2; i++) {
		lh_cleanup_free char *path =
			lh_strf("%s/nodes/%s.%s", e->req->run_dir, job->host_name, stream_names[i]);

		job->file_fds[i] =
			path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
		if (job->file_fds[i] < 0)
			return lh_fail(err, LH_ESYS, errno, "create nodes/%s.%s", job->host_name,
				       stream_names[i]);
	}
	return 0;
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
	for (size_t i = 0; i < e->plan->n_nodes; i++) {
		lh_cleanup_free char *name = lh_host_name(e->plan->nodes[i].name);

		fprintf(f, "%s %s\n",
			lh_address_format(e->plan->nodes[i].address, address, sizeof(address)),
			name ? name : "");
	}
	return fflush(f) == 0 ? 0 : lh_fail(err, LH_ESYS, errno, "write hosts");
}

/* Host names of all nodes, with blanks between. Owned by the caller. */
static char *all_host_names(const struct lh_plan *plan)
{
	char *all = NULL;

	for (size_t i = 0; i < plan->n_nodes; i++) {
		lh_cleanup_free char *before = all;
		lh_cleanup_free char *name = lh_host_name(plan->nodes[i].name);

		all = lh_strf("%s%s%s", before ? before : "", before ? " " : "", name ? name : "");
	}
	return all;
}

struct variables {
	char *list[OUR_VARIABLES_MAX];
	size_t n;
};

static void add_variable(struct variables *v, char *text)
{
	if (text && v->n < OUR_VARIABLES_MAX)
		v->list[v->n++] = text;
	else
		free(text);
}

/* What launchers set, and who the node is. */
static void our_variables(const struct jobs *jobs, size_t rank, struct variables *v)
{
	const struct lh_plan *plan = jobs->e->plan;
	const struct job *job = &jobs->list[rank];
	const struct lh_plan_node *node = &plan->nodes[job->node];
	const struct lh_plan_node *master = &plan->nodes[jobs->list[0].node];
	lh_cleanup_free char *names = all_host_names(plan);
	char address[16];

	add_variable(v, lh_strf("RANK=%zu", rank));
	add_variable(v, lh_strf("WORLD_SIZE=%zu", jobs->n));
	add_variable(v, strdup("LOCAL_RANK=0"));
	add_variable(v, strdup("LOCAL_WORLD_SIZE=1"));
	add_variable(v, lh_strf("MASTER_ADDR=%s",
				lh_address_format(master->address, address, sizeof(address))));
	add_variable(v, lh_strf("MASTER_PORT=%d", MASTER_PORT));
	add_variable(v, strdup("NCCL_SOCKET_IFNAME==eth0"));
	add_variable(v, strdup("GLOO_SOCKET_IFNAME=eth0"));
	add_variable(v, lh_strf("NCCL_HOSTID=%s", job->host_name));
	add_variable(v, lh_strf("HOSTNAME=%s", job->host_name));
	add_variable(v, lh_strf("LONGHAUL_NODE=%s", node->name));
	add_variable(v,
		     lh_strf("LONGHAUL_SITE=%s", plan->scenario->network.sites[node->site].name));
	add_variable(v, lh_strf("LONGHAUL_RANK=%zu", job->node));
	add_variable(v, lh_strf("LONGHAUL_ADDRESS=%s",
				lh_address_format(node->address, address, sizeof(address))));
	add_variable(v, lh_strf("LONGHAUL_HOSTS=%s", names ? names : ""));
	add_variable(v,
		     lh_strf("LONGHAUL_CLOCK=%s",
			     plan->scenario->run.clock == LH_CLOCK_VIRTUAL ? "virtual" : "real"));
}

/* Whether one of ours has the name of this NAME=VALUE. */
static bool is_replaced(const struct variables *ours, const char *variable)
{
	size_t n = strcspn(variable, "=") + 1;

	for (size_t i = 0; i < ours->n; i++)
		if (strncmp(ours->list[i], variable, n) == 0)
			return true;
	return false;
}

/* The user's environment with ours in it; the array is the caller's, its strings are not. */
static char **merge_environment(char *const *user, const struct variables *ours)
{
	size_t n = 0, used = 0;
	char **all;

	while (user[n])
		n++;
	all = calloc(n + ours->n + 1, sizeof(*all));
	if (!all)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!is_replaced(ours, user[i]))
			all[used++] = user[i];
	memcpy(all + used, ours->list, ours->n * sizeof(*all));
	return all;
}

static int start_job(struct jobs *jobs, size_t rank, const char *hosts_path, struct lh_error *err)
{
	struct lh_engine *e = jobs->e;
	struct job *job = &jobs->list[rank];
	struct variables ours = {.n = 0};
	lh_cleanup_free char **environment = NULL;
	struct lh_program_spec spec = {
		.argv = e->req->scenario->workload.command,
		.cwd = jobs->command->cwd,
		.host_name = job->host_name,
		.hosts_path = hosts_path,
	};
	lh_cleanup_free char **argv =
		calloc(e->req->scenario->workload.n_command + 1, sizeof(*argv));
	int r;

	our_variables(jobs, rank, &ours);
	environment = merge_environment(jobs->command->environment, &ours);
	spec.environment = environment;
	if (argv)
		memcpy(argv, spec.argv, e->req->scenario->workload.n_command * sizeof(*argv));
	spec.argv = argv;
	r = environment && argv ? open_files(job, e, err)
				: lh_fail(err, LH_ESYS, ENOMEM, "start a program");
	job->begin_ns = lh_now_ns();
	if (r == 0)
		r = lh_program_start(e->net, job->node, &spec, &job->program, err);
	for (size_t i = 0; i < ours.n; i++)
		free(ours.list[i]);
	return r < 0 ? lh_error_prefix(err, "node %s", e->plan->nodes[job->node].name) : 0;
}

/* Moves what a program has said into its file; 1 where there was something, 0 at its end or
 * where there is nothing now. */
static int drain(struct jobs *jobs, struct job *job, int stream, struct lh_error *err)
{
	char buf[READ_BYTES];
	ssize_t n = read(job->program.out_fds[stream], buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
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
	return 1;
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
	return job->ending == OUT_OF_TIME ? TIMED_OUT : lh_program_status(&job->program);
}

static int note_end(struct jobs *jobs, struct job *job, enum ending ending, struct lh_error *err)
{
	job->end_ns = lh_now_ns();
	job->ending = ending;
	for (int i = 0; i < 2; i++) {
		int r = 1;

		while (job->program.out_fds[i] >= 0 && r > 0)
			r = drain(jobs, job, i, err);
		if (r < 0)
			return r;
	}
	if (jobs->first_failed < 0 && status_of(job) != 0) {
		jobs->first_failed = (long)(job - jobs->list);
		if (!jobs->command->keep_going)
			set_deadline(jobs, job->end_ns + GRACE_S * (int64_t)LH_NS_PER_S, STOPPED);
	}
	return 0;
}

/* Notes those that have ended; returns how many still run. */
static int look_at_all(struct jobs *jobs, size_t *ret_running, struct lh_error *err)
{
	bool is_over = lh_now_ns() >= jobs->deadline_ns;
	int r = 0;

	*ret_running = 0;
	for (size_t i = 0; i < jobs->n && r == 0; i++) {
		struct job *job = &jobs->list[i];

		if (job->ending != RUNNING)
			continue;
		if (lh_program_has_ended(&job->program)) {
			r = note_end(jobs, job, ENDED, err);
		} else if (is_over) {
			lh_program_kill(&job->program);
			r = note_end(jobs, job, jobs->deadline_is, err);
		} else {
			++*ret_running;
		}
	}
	return r;
}

/* Waits until something happens, at most until until_ns, and takes what was said. */
static int wait_and_take(struct jobs *jobs, int64_t until_ns, struct lh_error *err)
{
	int64_t left_ns = until_ns - lh_now_ns();
	struct timespec timeout = {left_ns > 0 ? left_ns / LH_NS_PER_S : 0,
				   left_ns > 0 ? left_ns % LH_NS_PER_S : 0};
	struct signalfd_siginfo info;
	size_t n = 2 * jobs->n;

	for (size_t i = 0; i < n; i++)
		jobs->polled[i] = (struct pollfd){.fd = jobs->list[i / 2].program.out_fds[i % 2],
						  .events = POLLIN};
	jobs->polled[n] = (struct pollfd){.fd = jobs->signal_fd, .events = POLLIN};
	if (ppoll(jobs->polled, n + 1, &timeout, NULL) <= 0)
		return 0;
	while (read(jobs->signal_fd, &info, sizeof(info)) > 0)
		;
	for (size_t i = 0; i < n; i++) {
		int r = jobs->polled[i].revents ? drain(jobs, &jobs->list[i / 2], i % 2, err) : 0;

		if (r < 0)
			return r;
	}
	return 0;
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
		size_t running;
		int r = wait_and_take(jobs, until_ns, err);

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
	const struct lh_plan_node *node = &jobs->e->plan->nodes[job->node];
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
			failed ? jobs->e->plan->nodes[failed->node].name : NULL, "nodes", nodes);
	return lh_engine_write_json(jobs->e, "exec.json", doc, err);
}

static int prepare(struct jobs *jobs, struct lh_error *err)
{
	const struct lh_engine_request *req = jobs->e->req;
	lh_cleanup_free char *nodes = lh_engine_path(jobs->e, "nodes");
	sigset_t set;
	int r = nodes ? lh_dir_make(nodes, err) : lh_fail(err, LH_ESYS, ENOMEM, "start programs");

	if (r == 0)
		r = write_hosts(jobs->e, err);
	if (r < 0)
		return r;
	jobs->list = calloc(jobs->n, sizeof(*jobs->list));
	jobs->polled = calloc(2 * jobs->n + 1, sizeof(*jobs->polled));
	if (!jobs->list || !jobs->polled)
		return lh_fail(err, LH_ESYS, ENOMEM, "start programs");
	for (size_t i = 0; i < jobs->n; i++) {
		struct job *job = &jobs->list[i];
		const char *node;

		*job = (struct job){.node = jobs->command->nodes[i],
				    .program = LH_PROGRAM_NONE,
				    .file_fds = {-1, -1}};
		node = jobs->e->plan->nodes[job->node].name;
		job->host_name = lh_host_name(node);
		if (!job->host_name || strlen(job->host_name) > HOST_NAME_LENGTH_MAX)
			return lh_fail(err, LH_ERUN, 0,
				       "the name of node %s is too long for a host's (%d)", node,
				       HOST_NAME_LENGTH_MAX);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	jobs->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (jobs->signal_fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open a signal descriptor");
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
		for (int k = 0; k < 2; k++)
			if (job->file_fds[k] >= 0)
				close(job->file_fds[k]);
		free(job->host_name);
	}
	free(jobs->list);
	free(jobs->polled);
	if (jobs->signal_fd >= 0)
		close(jobs->signal_fd);
	if (jobs->heartbeat_fd >= 0)
		close(jobs->heartbeat_fd);
}

int lh_run_commands(struct lh_engine *e, struct lh_error *err)
{
	const struct lh_command *command = e->req->command;
	lh_cleanup_free char *hosts = lh_engine_path(e, "hosts");
	struct jobs jobs = {.e = e,
			    .command = command,
			    .n = command->n_nodes,
			    .signal_fd = -1,
			    .heartbeat_fd = -1,
			    .first_failed = -1,
			    .deadline_ns = INT64_MAX};
	int r = hosts ? prepare(&jobs, err) : lh_fail(err, LH_ESYS, ENOMEM, "start programs");

	e->begin_ns = lh_now_ns();
	if (command->time_limit_ns)
		set_deadline(&jobs, e->begin_ns + command->time_limit_ns, OUT_OF_TIME);
	for (size_t i = 0; i < jobs.n && r == 0; i++)
		r = start_job(&jobs, i, hosts, err);
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
