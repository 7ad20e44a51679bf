/* SPDX-License-Identifier: Apache-2.0 */
/* Trainers as children. See launch.h. */
#include "emulator/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/probe_internal.h"

enum { EXEC_FAILED = 127 };

void lh_children_prepare(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* What the child does; does not return. */
static void become(char *const argv[], int log_fd, pid_t parent)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXEC_FAILED);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	execv(argv[0], argv);
	dprintf(STDERR_FILENO, "cannot run %s\n", argv[0]);
	_exit(EXEC_FAILED);
}

int lh_child_start(const struct lh_net *net, size_t rank, char *const argv[], const char *log_path,
		   struct lh_child *ret_child, struct lh_error *err)
{
	lh_cleanup_close int log_fd =
		open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	pid_t self = getpid();
	struct lh_error ignored;
	pid_t pid;
	int r;

	if (log_fd < 0)
		return lh_fail(err, LH_ESYS, errno, "create %s", log_path);
	r = lh_net_enter_rank(net, rank, err);
	if (r < 0)
		return r;
	/* it shares our memory until it runs the program: to copy that takes milliseconds in the
	 * guest */
	pid = vfork();
	if (pid == 0)
		become(argv, log_fd, self);
	lh_net_leave(net, &ignored);
	if (pid < 0)
		return lh_fail(err, LH_ESYS, errno, "start %s", argv[0]);
	*ret_child = (struct lh_child){.pid = pid};
	return 0;
}

size_t lh_children_running(const struct lh_child *children, size_t n)
{
	size_t running = 0;

	for (size_t i = 0; i < n; i++)
		running += children[i].pid != 0;
	return running;
}

/* Reaps what has ended; how many still run. */
static size_t reap(struct lh_child *children, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (children[i].pid && waitpid(children[i].pid, &children[i].status, WNOHANG) > 0)
			children[i].pid = 0;
	return lh_children_running(children, n);
}

size_t lh_children_wait(struct lh_child *children, size_t n, int64_t until_ns)
{
	int64_t left = until_ns - lh_now_ns();
	struct timespec timeout;
	sigset_t set;

	if (left <= 0)
		return reap(children, n);
	timeout = (struct timespec){left / LH_NS_PER_S, left % LH_NS_PER_S};
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGALRM);
	/* who only wakes for a timer looks at no child: with many of them that is what takes time
	 */
	return sigtimedwait(&set, NULL, &timeout) == SIGALRM ? lh_children_running(children, n)
							     : reap(children, n);
}

void lh_child_ask(const struct lh_child *child)
{
	if (child->pid)
		kill(child->pid, SIGTERM);
}

void lh_children_kill(struct lh_child *children, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (children[i].pid)
			kill(children[i].pid, SIGKILL);
	for (size_t i = 0; i < n; i++) {
		if (!children[i].pid)
			continue;
		while (waitpid(children[i].pid, &children[i].status, 0) < 0 && errno == EINTR)
			;
		children[i].pid = 0;
	}
}
