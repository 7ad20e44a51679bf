/* SPDX-License-Identifier: Apache-2.0 */
/* A program in a node. See program.h. */
#include "emulator/program.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/doors.h"

enum { CANNOT_RUN = 126, NOT_FOUND = 127, SIGNAL_BASE = 128 };

/* Says on the program's standard error what went wrong before it could run. */
static _Noreturn void give_up(int status, const char *what, const char *on)
{
	dprintf(STDERR_FILENO, "longhaul: %s %s: %s\n", what, on, strerror(errno));
	_exit(status);
}

/* Turns the node's namespaces into a host: its name, its names of others, its processes, its
 * links in /sys, its own shared memory. */
static void become_host(const struct lh_program_spec *spec)
{
	if (sethostname(spec->host_name, strlen(spec->host_name)) < 0)
		give_up(CANNOT_RUN, "set host name", spec->host_name);
	if (mount(spec->hosts_path, "/etc/hosts", NULL, MS_BIND, NULL) < 0)
		give_up(CANNOT_RUN, "bind names of nodes on", "/etc/hosts");
	if (mount("none", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		give_up(CANNOT_RUN, "mount", "/proc");
	if (mount("none", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		give_up(CANNOT_RUN, "mount", "/sys");
	if (mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, NULL) < 0)
		give_up(CANNOT_RUN, "mount", "/dev/shm");
}

/* Puts the pipe for reports where the program writes them. */
static void bind_reports(const struct lh_program_spec *spec)
{
	lh_cleanup_close int fd =
		open(spec->report_path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);

	if (fd < 0 || mount(spec->report_fifo, spec->report_path, NULL, MS_BIND, NULL) < 0)
		give_up(CANNOT_RUN, "make the file for reports", spec->report_path);
}

static _Noreturn void become_program(const struct lh_program_spec *spec)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setsid();
	setrlimit(RLIMIT_NOFILE, spec->file_limit);
	if (spec->is_terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
		give_up(CANNOT_RUN, "take", "the terminal");
	if (chdir(spec->cwd) < 0)
		give_up(CANNOT_RUN, "enter folder", spec->cwd);
	environ = (char **)spec->environment;
	execvp(spec->argv[0], spec->argv);
	give_up(errno == ENOENT ? NOT_FOUND : CANNOT_RUN, "run", spec->argv[0]);
}

/* Reaps whatever ends until the program does; its status. A signal that asks the node to end goes
 * on to all that runs in it, as when a host shuts down: the first process of a node gets those
 * alone that it takes. */
static int wait_for_program(pid_t program, const sigset_t *signals)
{
	int status, number;
	pid_t pid;

	for (;;) {
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == program)
				return status;
		if (pid < 0 && errno != EINTR)
			_exit(CANNOT_RUN);
		if (sigwait(signals, &number) == 0 && number == SIGTERM)
			kill(-1, SIGTERM);
	}
}

/* The first process of a node: starts the program and reaps whatever is left to it. When it
 * ends, the kernel ends all others of the node. Does not return. */
static _Noreturn void be_first(const struct lh_net *net, const struct lh_program_spec *spec,
			       int *result, int go_fd)
{
	struct lh_error err;
	sigset_t signals;
	pid_t program;
	char go;

	/* the parent, seen from here, has no number: whether it lives is told by the pipe */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(go_fd, &go, 1) != 1)
		_exit(CANNOT_RUN);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		give_up(CANNOT_RUN, "make mounts private below", "/");
	if (spec->doors_folder && lh_doors_make(net, spec->doors_folder, &err) < 0) {
		errno = err.sys;
		give_up(CANNOT_RUN, "make ways into other nodes in", spec->doors_folder);
	}
	/* of ours, no end of a pipe may live on here */
	close_range(STDERR_FILENO + 1, ~0U, 0);
	become_host(spec);
	if (spec->report_fifo)
		bind_reports(spec);
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	/* what is shared until it becomes the program need not be copied: in the guest that takes
	 * milliseconds */
	program = vfork();
	if (program == 0)
		become_program(spec);
	if (program < 0)
		give_up(CANNOT_RUN, "run", spec->argv[0]);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	*result = wait_for_program(program, &signals);
	_exit(0);
}

struct ends {
	int out[2], error[2], go[2];
};

static void close_pair(int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int open_ends(struct ends *ends, struct lh_error *err)
{
	if (pipe2(ends->out, O_CLOEXEC) == 0 && pipe2(ends->error, O_CLOEXEC) == 0 &&
	    pipe2(ends->go, O_CLOEXEC) == 0)
		return 0;
	return lh_fail(err, LH_ESYS, errno, "open a pipe");
}

/* As fork, into namespaces of its own. */
static pid_t fork_host(void)
{
	return (pid_t)syscall(SYS_clone,
			      CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | SIGCHLD,
			      NULL, NULL, NULL, 0);
}

static _Noreturn void be_child(const struct lh_net *net, const struct lh_program_spec *spec,
			       const struct ends *ends, int *result)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(ends->go[1]);
	dup2(spec->input_fd ? spec->input_fd : null_fd, STDIN_FILENO);
	dup2(spec->is_terminal ? spec->input_fd : ends->out[1], STDOUT_FILENO);
	dup2(spec->is_terminal ? spec->input_fd : ends->error[1], STDERR_FILENO);
	close_pair((int *)ends->out);
	close_pair((int *)ends->error);
	be_first(net, spec, result, ends->go[0]);
}

int lh_program_start(const struct lh_net *net, size_t rank, const struct lh_program_spec *spec,
		     struct lh_program *ret, struct lh_error *err)
{
	struct ends ends = {{-1, -1}, {-1, -1}, {-1, -1}};
	int *result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct lh_error ignored;
	pid_t pid = -1;
	int r = result == MAP_FAILED ? lh_fail(err, LH_ESYS, errno, "share memory")
				     : open_ends(&ends, err);

	if (r == 0)
		r = lh_net_enter_rank(net, rank, err);
	if (r == 0) {
		*result = CANNOT_RUN << 8; /* where it is not reached */
		pid = fork_host();
		if (pid == 0)
			be_child(net, spec, &ends, result);
		if (pid < 0)
			r = lh_fail(err, LH_ESYS, errno, "start %s", spec->argv[0]);
		lh_net_leave(net, &ignored);
	}
	if (r < 0) {
		close_pair(ends.out);
		close_pair(ends.error);
		close_pair(ends.go);
		if (result != MAP_FAILED)
			munmap(result, sizeof(*result));
		return r;
	}
	(void)!write(ends.go[1], "", 1);
	close_pair(ends.go);
	close(ends.out[1]);
	close(ends.error[1]);
	fcntl(ends.out[0], F_SETFL, O_NONBLOCK);
	fcntl(ends.error[0], F_SETFL, O_NONBLOCK);
	*ret = (struct lh_program){pid, result, {ends.out[0], ends.error[0]}};
	return 0;
}

bool lh_program_has_ended(struct lh_program *p)
{
	int status;

	if (p->pid && waitpid(p->pid, &status, WNOHANG) > 0) {
		if (WIFSIGNALED(status))
			*p->result = status;
		p->pid = 0;
	}
	return p->pid == 0;
}

int lh_program_signal(const struct lh_program *p)
{
	return WIFSIGNALED(*p->result) ? WTERMSIG(*p->result) : 0;
}

int lh_program_status(const struct lh_program *p)
{
	int sig = lh_program_signal(p);

	return sig ? SIGNAL_BASE + sig : WEXITSTATUS(*p->result);
}

void lh_program_ask(const struct lh_program *p)
{
	if (p->pid)
		kill(p->pid, SIGTERM);
}

void lh_program_kill(struct lh_program *p)
{
	int status;

	if (!p->pid)
		return;
	kill(p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	*p->result = SIGKILL;
	p->pid = 0;
}

void lh_program_done(struct lh_program *p)
{
	lh_program_kill(p);
	close_pair(p->out_fds);
	if (p->result)
		munmap(p->result, sizeof(*p->result));
	*p = LH_PROGRAM_NONE;
}
