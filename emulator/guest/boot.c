/* SPDX-License-Identifier: Apache-2.0 */
/* Booting the guest and waiting for it. See guest.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/cable.h"
#include "emulator/guest/guest.h"
#include "emulator/guest/guest_internal.h"
#include "emulator/guest/watch.h"

enum {
	TICK_MS = 200,
	ARGS_MAX = 27 + LH_HOST_NODES_MAX,
	COMMAND_LINE_MAX = 4000, /* the kernel holds 4096 bytes */
	LOG_TAIL_BYTES = 600,
	ROOM_BYTES = 65536,
	EXEC_FAILED = 127,
	MIB = 1 << 20,
};

/* The guest's own folder, in the run's. */
#define UML_DIR ".guest"

/* So many readings move a fine clock by 1 ns: 256 ranks that send 1.2 Tbit/s each read it a
 * thousand times in the 437 ns of a super-packet. */
#define CLOCK_READS "256"

/* The guest's wall clock begins here, always: 2023-04-01 00:00:00 UTC. */
#define START_NS "1680307200000000000"

struct args {
	char *list[ARGS_MAX + 1];
	size_t n;
	size_t size;
	bool failed;
};

static void args_add(struct args *a, char *text)
{
	if (!text || a->n == ARGS_MAX) {
		a->failed = true;
		free(text);
		return;
	}
	a->size += strlen(text) + 1;
	a->list[a->n++] = text;
}

static void args_done(struct args *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->list[i]);
}

/*
 * Adds what stands on the guest's command line. The kernel splits it at blanks and quotes, and
 * an init that it cannot read there would be replaced by the host's: no word may have any.
 */
static void args_add_word(struct args *a, char *text)
{
	if (text && strpbrk(text, " \t\n\"")) {
		a->failed = true;
		free(text);
		return;
	}
	args_add(a, text);
}

static void add_guest_args(struct args *a, const struct lh_guest_request *r)
{
	lh_cleanup_free char *run_dir = lh_guest_encode(r->run_dir);
	lh_cleanup_free char *trainer =
		lh_guest_encode(r->command || r->wan ? LH_GUEST_NO_TRAINER : r->trainer_path);

	args_add(a, strdup(r->kernel_path));
	args_add(a, lh_strf("mem=%lldM", (long long)(r->memory_bytes / MIB)));
	args_add(a, strdup("root=none"));
	args_add(a, strdup("rootfstype=hostfs"));
	args_add(a, strdup("rootflags=/"));
	args_add(a, strdup("rw"));
	args_add(a, strdup("con=null"));
	args_add(a, strdup("con0=null,fd:1"));
	if (r->command && r->command->terminal)
		args_add(a, lh_strf(LH_GUEST_LINK_CONSOLE "=fd:%d", r->link_fd));
	args_add(a, strdup("uml_dir=" UML_DIR));
	args_add(a, strdup("umid=guest"));
	args_add(a, strdup("panic=-1"));
	args_add(a, strdup("noreboot"));
	args_add(a, strdup("quiet"));
	if (r->virtual_clock) {
		args_add(a, strdup(r->charge_cpu ? "time-travel" : "time-travel=inf-cpu"));
		args_add(a, strdup("time-travel-start=" START_NS));
		args_add(a, lh_strf("random_seed=%lld", (long long)r->seed));
		if (r->has_fine_clock)
			args_add(a, strdup("clock_reads=" CLOCK_READS));
	}
	if (r->wan)
		args_add(a, lh_strf("ssl0=fd:%d", r->wan->line_fd));
	for (size_t i = 0; r->wan && i < r->wan->n_cables; i++) {
		char tap[LH_CABLE_NAME_BYTES];

		lh_cable_tap_name(i, tap);
		/* with buffers that hold a super-packet */
		args_add(a, lh_strf("vec%zu:transport=tap,ifname=%s,gro=1", i, tap));
	}
	args_add(a, strchr(r->program_path, '"') ? NULL : lh_strf("init=\"%s\"", r->program_path));
	args_add(a, strdup("--"));
	args_add(a, strdup(LH_GUEST_INIT_VERB));
	args_add_word(a, run_dir ? strdup(run_dir) : NULL);
	args_add_word(a, trainer ? strdup(trainer) : NULL);
	args_add(a, strdup(r->wan	      ? LH_GUEST_WAN
			   : r->virtual_clock ? LH_GUEST_VIRTUAL
					      : LH_GUEST_REAL));
}

/* In the child: becomes the guest's kernel. Does not return. */
static void become(char *const argv[], const struct lh_guest_request *r, int log_fd, pid_t parent)
{
	char *const environment[] = {"HOME=/", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	sigset_t none;
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXEC_FAILED);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null_fd, STDIN_FILENO);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	if (r->link_fd)
		fcntl(r->link_fd, F_SETFD, 0);
	if (r->wan)
		fcntl(r->wan->line_fd, F_SETFD, 0);
	/* the guest's own folder is named relative to this one: see args_add_word */
	if (chdir(r->run_dir) == 0)
		execve(argv[0], argv, environment);
	dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(EXEC_FAILED);
}

enum outcome { GUEST_ENDED, GUEST_TO_STOP, GUEST_STUCK };

/* Waits, ticking, for the guest to end or for what ends it. */
static enum outcome wait_or_stop(const struct lh_guest_request *r, pid_t pid,
				 struct lh_watch *watch)
{
	lh_cleanup_close int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd fds[] = {{.fd = pidfd, .events = POLLIN},
			       {.fd = r->stop_fd, .events = POLLIN}};

	for (;;) {
		int n = poll(fds, 2, TICK_MS);

		if (n > 0 && fds[0].revents)
			return GUEST_ENDED;
		if (n > 0 && fds[1].revents)
			return GUEST_TO_STOP;
		if (pidfd < 0 &&
		    waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		    kill(pid, 0) < 0)
			return GUEST_ENDED;
		if (lh_watch_is_stuck(watch))
			return GUEST_STUCK;
		if (r->tick)
			r->tick(r->context);
	}
}

/* The last lines that the guest said, for a message. */
static char *log_tail(const char *log_path)
{
	struct lh_error ignored;
	char *text = NULL;
	size_t size = 0;

	if (lh_file_read(log_path, 64 * MIB, &text, &size, &ignored) < 0)
		return NULL;
	if (size > LOG_TAIL_BYTES)
		memmove(text, text + size - LOG_TAIL_BYTES, LOG_TAIL_BYTES + 1);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' && *c != '\n')
			*c = ' ';
	return text;
}

/* Whether all that the guest's init had to do was done: its kernel was halting. A timer's signal
 * that comes just then can end it badly, and that is of no matter. */
static bool was_halting(const char *log_path)
{
	lh_cleanup_free char *tail = log_tail(log_path);

	return tail && strstr(tail, "reboot: Power down");
}

static int say_stuck(const struct lh_guest_request *r, struct lh_error *err)
{
	return lh_fail(err, LH_ERUN, 0,
		       "the virtual clock stands still: the programs have computed for %.0f s and "
		       "not one virtual second has passed. Virtual time passes only while all of "
		       "them wait; one that spins, or polls without sleeping, stops it for good. "
		       "Run it with --charge-cpu, so that computing takes time, or with --clock "
		       "real; or, where it only computes for that long, allow more with "
		       "--stuck-after",
		       (double)r->stuck_after_ns / 1e9);
}

/* Starts the guest's kernel with these arguments. */
static int start(const struct lh_guest_request *r, struct args *args, pid_t *ret_pid,
		 struct lh_error *err)
{
	lh_cleanup_free char *log_path = lh_path_join(r->run_dir, LH_GUEST_LOG);
	lh_cleanup_close int log_fd =
		log_path ? open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666)
			 : -1;
	pid_t self = getpid();
	pid_t pid;

	if (log_fd < 0)
		return lh_fail(err, LH_ESYS, errno, "create %s/" LH_GUEST_LOG, r->run_dir);
	pid = fork();
	if (pid == 0)
		become(args->list, r, log_fd, self);
	if (pid < 0)
		return lh_fail(err, LH_ESYS, errno, "start the guest");
	*ret_pid = pid;
	return 0;
}

int lh_guest_start(const struct lh_guest_request *r, pid_t *ret_pid, struct lh_error *err)
{
	lh_cleanup_free char *uml_dir = lh_path_join(r->run_dir, LH_GUEST_FOLDER);
	lh_cleanup_free char *command = lh_path_join(r->run_dir, LH_GUEST_COMMAND);
	struct args args = {.n = 0};
	int code;

	if (access(r->kernel_path, X_OK) < 0)
		return lh_fail(err, LH_EENV, errno,
			       "guest kernel %s (./bootstrap build makes it, or set "
			       "LONGHAUL_GUEST_KERNEL)",
			       r->kernel_path);
	add_guest_args(&args, r);
	if (args.failed || args.size > COMMAND_LINE_MAX)
		code = lh_fail(err, LH_ERUN, 0,
			       "the guest cannot be told these paths: they are too long, or the "
			       "program's has a quote in it");
	else
		code = lh_dir_make(uml_dir, err);
	if (code == 0 && r->command)
		code = lh_command_write(command, r->command, err);
	if (code == 0)
		code = start(r, &args, ret_pid, err);
	args_done(&args);
	return code;
}

void lh_guest_clear(const char *run_dir)
{
	lh_cleanup_free char *uml_dir = lh_path_join(run_dir, LH_GUEST_FOLDER);
	struct lh_error ignored;

	if (uml_dir)
		lh_dir_remove(uml_dir, &ignored);
}

/* Waits for the guest, until it ends or something ends it. */
static int wait_for(const struct lh_guest_request *r, pid_t pid, struct lh_error *err)
{
	lh_cleanup_free char *heartbeat = lh_path_join(r->run_dir, LH_GUEST_HEARTBEAT);
	lh_cleanup_free char *log_path = lh_path_join(r->run_dir, LH_GUEST_LOG);
	struct lh_watch watch = {.heartbeat_path = heartbeat,
				 .limit_ns = heartbeat && r->virtual_clock ? r->stuck_after_ns : 0,
				 .kernel = pid};
	enum outcome outcome = wait_or_stop(r, pid, &watch);
	int status = 0;

	if (outcome != GUEST_ENDED)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (outcome == GUEST_STUCK)
		return say_stuck(r, err);
	if (outcome == GUEST_TO_STOP)
		return lh_fail(err, LH_ESIGNAL, SIGINT, "stopped");
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXEC_FAILED)
		return lh_fail(err, LH_EENV, 0, "cannot run the guest kernel %s", r->kernel_path);
	return WIFSIGNALED(status) && !was_halting(log_path)
		       ? lh_fail(err, LH_ERUN, 0, "the guest was killed by signal %d",
				 WTERMSIG(status))
		       : 0;
}

/* A full disk leaves no trace in the log, which is on it. */
int lh_guest_explain(const char *run_dir, struct lh_error *err)
{
	static const char zeros[ROOM_BYTES];
	lh_cleanup_free char *room = lh_path_join(run_dir, "room");
	lh_cleanup_free char *log_path = lh_path_join(run_dir, LH_GUEST_LOG);
	lh_cleanup_free char *tail = NULL;
	int code = lh_file_write(room, zeros, sizeof(zeros), err);

	if (code < 0)
		return code;
	unlink(room);
	tail = log_tail(log_path);
	return lh_fail(err, LH_ERUN, 0, "the guest ended without a verdict; it said:\n%s",
		       tail ? tail : "nothing");
}

int lh_guest_run(const struct lh_guest_request *r, struct lh_error *err)
{
	lh_cleanup_free char *verdict = lh_path_join(r->run_dir, "engine.json");
	pid_t pid = 0;
	int code = lh_guest_start(r, &pid, err);

	if (code == 0)
		code = wait_for(r, pid, err);
	lh_guest_clear(r->run_dir);
	if (code == 0 && !lh_path_exists(verdict))
		code = lh_guest_explain(r->run_dir, err);
	return code;
}
