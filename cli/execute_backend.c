/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a run: a process of this host, or a guest. See execute_internal.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/execute_internal.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "core/log.h"
#include "emulator/engine.h"
#include "emulator/guest/guest.h"
#include "emulator/wan.h"

enum { TICK_MS = 200 };

/* Nodes on the host, and their network in a guest. */
static bool is_split(const struct lh_run *run)
{
	return run->backend == LH_BACKEND_GUEST && run->ex->scenario->run.nodes == LH_NODES_HOST;
}

/* nohup and the like ignore a signal for us: then it is not ours to take. */
static void add_unless_ignored(sigset_t *set, int number)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
		sigaddset(set, number);
}

sigset_t lh_block_signals(bool has_command)
{
	sigset_t set;

	sigemptyset(&set);
	add_unless_ignored(&set, SIGINT);
	add_unless_ignored(&set, SIGTERM);
	add_unless_ignored(&set, SIGHUP);
	if (has_command)
		sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return set;
}

int lh_run_open_signals(bool has_command, int *ret_fd, struct lh_error *err)
{
	sigset_t set = lh_block_signals(has_command);

	*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_fd < 0 ? lh_fail(err, LH_ESYS, errno, "open a signal descriptor") : 0;
}

/* Which signal was it? */
static void take_signal(struct lh_run *run)
{
	struct signalfd_siginfo info;

	if (read(run->stop_fd, &info, sizeof(info)) == sizeof(info))
		run->stop_signal = (int)info.ssi_signo;
}

/* On the host: the engine in a child, so that all that it holds ends with it. */
static int run_on_host(struct lh_run *run, struct lh_error *err)
{
	lh_cleanup_free char *program = NULL;
	struct lh_wan_request wan = {
		.kernel_path = run->kernel,
		.memory_bytes = run->ex->scenario->run.guest_memory_bytes,
		.seed = run->ex->scenario->run.seed,
	};
	struct lh_engine_request request = {
		.wan = is_split(run) ? &wan : NULL,
		.scenario = run->ex->scenario,
		.run_dir = run->dir,
		.trainer_path = run->trainer,
		.command = run->command,
		.link_fd = run->ex->link_fd,
		.verifies = run->ex->verifies,
		.verify_sample = run->ex->sample,
	};
	pid_t self = getpid();
	lh_cleanup_close int pidfd = -1;
	int status = 0;
	pid_t pid;

	if (lh_cli_program_path(&program, err) < 0)
		return err->code;
	wan.program_path = program;
	pid = fork();

	if (pid < 0)
		return lh_fail(err, LH_ESYS, errno, "start the engine");
	if (pid == 0) {
		struct lh_error failed = {0};
		int r;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != self)
			_exit(1);
		r = lh_engine_run(&request, &failed);
		if (r < 0)
			lh_log(LH_LOG_ERROR, "%s", failed.message);
		_exit(r < 0);
	}
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	for (;;) {
		struct pollfd fds[] = {{.fd = pidfd, .events = POLLIN},
				       {.fd = run->stop_fd, .events = POLLIN}};

		if (poll(fds, 2, TICK_MS) > 0) {
			if (fds[1].revents)
				kill(pid, SIGKILL);
			break;
		}
		run->tick(run->context);
	}
	waitpid(pid, &status, 0);
	lh_engine_clear_stale();
	if (WIFSIGNALED(status))
		return lh_fail(err, LH_ESIGNAL, SIGINT, "stopped");
	return status ? lh_fail(err, LH_ERUN, 0, "the engine failed") : 0;
}

static int run_in_guest(struct lh_run *run, struct lh_error *err)
{
	const struct lh_run_spec *spec = &run->ex->scenario->run;
	lh_cleanup_free char *program = NULL;
	struct lh_guest_request request = {
		.kernel_path = run->kernel,
		.trainer_path = run->trainer,
		.run_dir = run->dir,
		.memory_bytes = spec->guest_memory_bytes,
		.seed = spec->seed,
		.virtual_clock = spec->clock == LH_CLOCK_VIRTUAL,
		.charge_cpu = spec->charge_cpu,
		.has_fine_clock = run->ex->scenario->n_ranks > run->ex->scenario->n_nodes,
		.command = run->command,
		.link_fd = run->ex->link_fd,
		.stuck_after_ns = run->ex->stuck_after_ns,
		.stop_fd = run->stop_fd,
		.tick = run->tick,
		.context = run->context,
	};
	int r = lh_cli_program_path(&program, err);

	request.program_path = program;
	return r < 0 ? r : lh_guest_run(&request, err);
}

/* What engine.json says: 0, LH_EMEASURE, LH_EUNFIT, LH_EENV or LH_ERUN. */
static int read_verdict(const struct lh_run *run, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run->dir, "engine.json");
	lh_cleanup_json json_t *doc = NULL;
	const char *status, *message;
	struct lh_error env = {.code = LH_EENV};
	int code = LH_ERUN;
	int r = lh_json_read(path, &doc, err);

	if (r < 0)
		return r;
	status = json_string_value(json_object_get(doc, "status"));
	message = json_string_value(json_object_get(doc, "message"));
	if (status && strcmp(status, "done") == 0)
		return 0;
	if (status && strcmp(status, "invalid") == 0)
		code = LH_EMEASURE;
	else if (status && strcmp(status, "unfit") == 0)
		code = LH_EUNFIT;
	else if (json_integer_value(json_object_get(doc, "exit_status")) ==
		 lh_error_exit_status(&env))
		code = LH_EENV;
	return lh_fail(err, code, 0, "%s", message ? message : "the run failed");
}

int lh_run_backend(struct lh_run *run, struct lh_error *err)
{
	int r = run->backend == LH_BACKEND_HOST || is_split(run) ? run_on_host(run, err)
								 : run_in_guest(run, err);

	if (r == LH_ESIGNAL) {
		take_signal(run);
		err->sys = run->stop_signal ? run->stop_signal : SIGINT;
	}
	return r < 0 ? r : read_verdict(run, err);
}
