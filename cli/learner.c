/* SPDX-License-Identifier: Apache-2.0 */
/* Running longhaul-learner. See learner.h. */
#include "cli/learner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/execute.h"
#include "core/cleanup.h"
#include "core/file.h"

enum { LINE_MAX_BYTES = 1 << 20, SAID_BYTES = 4096 };

struct child {
	const struct lh_learner_listener *listener;
	pid_t pid;
	int in, out, said; /* its standard input, output and error; -1: closed */
	int signals;
	int n_signals; /* that have come */
	bool has_said; /* something on standard error */
	char *line;    /* begun, of its output */
	size_t n_line;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- start ---------------------------------------------------------------------------------- */

/* In the child: never returns. */
static void exec_learner(const char *path, const char *option, const int *fds, pid_t parent)
{
	char *const argv[] = {(char *)(uintptr_t)path, (char *)(uintptr_t)option, NULL};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Threads that spin while they wait make each other wait on a machine that has other work:
	 * ten times slower at a load of four per processor. */
	setenv("GOMP_SPINCOUNT", "1000", 0);
	if (getppid() == parent && dup2(fds[0], 0) >= 0 && dup2(fds[1], 1) >= 0 &&
	    dup2(fds[2], 2) >= 0)
		execv(path, argv);
	_exit(127);
}

/* Three pipes: [0], [1] and [2] are the child's ends, [3], [4] and [5] ours. */
static int make_pipes(int *ret_fds, struct lh_error *err)
{
	for (int i = 0; i < 3; i++) {
		int fds[2];

		if (pipe2(fds, O_CLOEXEC) < 0) {
			for (int j = 0; j < i; j++) {
				close(ret_fds[j]);
				close(ret_fds[j + 3]);
			}
			return lh_fail(err, LH_ESYS, errno, "start the learner");
		}
		ret_fds[i] = fds[i == 0 ? 0 : 1];
		ret_fds[i + 3] = fds[i == 0 ? 1 : 0];
	}
	return 0;
}

static int start(struct child *c, const char *task, const char *device, struct lh_error *err)
{
	lh_cleanup_free char *path = NULL;
	lh_cleanup_free char *option = lh_strf("--%s", task);
	pid_t parent = getpid();
	sigset_t set = lh_block_signals(false);
	int fds[6];
	int r = lh_cli_learner_path(device, &path, err);

	if (r < 0)
		return r;
	c->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (c->signals < 0 || !option)
		return lh_fail(err, LH_ESYS, errno, "start the learner");
	if ((r = make_pipes(fds, err)) < 0)
		return r;
	fflush(stdout);
	c->pid = fork();
	if (c->pid == 0)
		exec_learner(path, option, fds, parent);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	c->in = fds[3];
	c->out = fds[4];
	c->said = fds[5];
	return c->pid < 0 ? lh_fail(err, LH_ESYS, errno, "start the learner") : 0;
}

/* A job is smaller than a pipe, which no one but the child reads. */
static int send_job(struct child *c, const json_t *job, struct lh_error *err)
{
	lh_cleanup_free char *text = job ? json_dumps(job, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0, sent = 0;

	if (job && !text)
		return lh_fail(err, LH_ESYS, ENOMEM, "send the job");
	while (sent < n) {
		ssize_t now = write(c->in, text + sent, n - sent);

		if (now < 0 && errno == EINTR)
			continue;
		if (now < 0)
			break; /* it is gone, and its status says more */
		sent += (size_t)now;
	}
	close_fd(&c->in);
	return 0;
}

/* ---- while it runs -------------------------------------------------------------------------- */

static int take_line(struct child *c, const char *text, size_t n, struct lh_error *err)
{
	lh_cleanup_json json_t *event = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);

	if (!event)
		return lh_fail(err, LH_ERUN, 0, "longhaul-learner wrote what is no event: %.200s",
			       text);
	return c->listener->event ? c->listener->event(c->listener->context, event, err) : 0;
}

/* Takes whole lines of what has come, and keeps the rest. */
static int take_lines(struct child *c, struct lh_error *err)
{
	char *begin = c->line, *end;
	int r = 0;

	while (r == 0 && (end = memchr(begin, '\n', c->n_line - (size_t)(begin - c->line)))) {
		*end = '\0';
		r = take_line(c, begin, (size_t)(end - begin), err);
		begin = end + 1;
	}
	c->n_line -= (size_t)(begin - c->line);
	memmove(c->line, begin, c->n_line);
	return r;
}

static int read_events(struct child *c, struct lh_error *err)
{
	ssize_t n = read(c->out, c->line + c->n_line, LINE_MAX_BYTES - c->n_line);

	if (n < 0)
		return errno == EINTR ? 0 : lh_fail(err, LH_ESYS, errno, "read the learner");
	if (n == 0)
		close_fd(&c->out);
	c->n_line += (size_t)n;
	if (c->n_line == LINE_MAX_BYTES && !memchr(c->line, '\n', c->n_line))
		return lh_fail(err, LH_ERUN, 0, "longhaul-learner wrote a line without end");
	return take_lines(c, err);
}

static void pass_on_said(struct child *c)
{
	char text[SAID_BYTES];
	ssize_t n = read(c->said, text, sizeof(text));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		close_fd(&c->said);
		return;
	}
	if (c->listener->before_message)
		c->listener->before_message(c->listener->context);
	c->has_said = true;
	fwrite(text, 1, (size_t)n, stderr);
}

static void pass_on_signal(struct child *c)
{
	struct signalfd_siginfo info;

	if (read(c->signals, &info, sizeof(info)) != sizeof(info))
		return;
	kill(c->pid, c->n_signals++ ? SIGKILL : (int)info.ssi_signo);
}

static int listen_to(struct child *c, struct lh_error *err)
{
	int r = 0;

	while (r == 0 && (c->out >= 0 || c->said >= 0)) {
		struct pollfd fds[] = {
			{c->out, POLLIN, 0}, {c->said, POLLIN, 0}, {c->signals, POLLIN, 0}};

		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			return lh_fail(err, LH_ESYS, errno, "wait for the learner");
		if (fds[2].revents)
			pass_on_signal(c);
		if (fds[1].revents)
			pass_on_said(c);
		if (fds[0].revents)
			r = read_events(c, err);
	}
	return r;
}

/* ---- the end -------------------------------------------------------------------------------- */

static int reap(struct child *c, int outcome, int *ret_status, struct lh_error *err)
{
	int status = 0;

	if (outcome < 0)
		kill(c->pid, SIGKILL);
	while (waitpid(c->pid, &status, 0) < 0)
		if (errno != EINTR)
			return lh_fail(err, LH_ESYS, errno, "wait for the learner");
	if (outcome < 0)
		return outcome;
	if (WIFSIGNALED(status) && c->n_signals > 1)
		return lh_fail(err, LH_ESIGNAL, SIGINT, "killed by the second signal");
	if (WIFSIGNALED(status))
		return lh_fail(err, LH_ERUN, 0, "longhaul-learner was ended by signal %d (%s)",
			       WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) && !c->has_said)
		return lh_fail(err, LH_ERUN, 0,
			       "longhaul-learner ended with status %d and did not say why",
			       WEXITSTATUS(status));
	*ret_status = WEXITSTATUS(status);
	return 0;
}

int lh_cli_learner_run(const char *task, const char *device, const json_t *job,
		       const struct lh_learner_listener *listener, int *ret_status,
		       struct lh_error *err)
{
	lh_cleanup_free char *line = malloc(LINE_MAX_BYTES);
	struct child c = {.listener = listener,
			  .pid = -1,
			  .in = -1,
			  .out = -1,
			  .said = -1,
			  .signals = -1,
			  .line = line};
	void (*before)(int) = signal(SIGPIPE, SIG_IGN);
	int r = line ? start(&c, task, device, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "start the learner");

	if (r == 0)
		r = send_job(&c, job, err);
	if (r == 0)
		r = listen_to(&c, err);
	if (c.pid > 0)
		r = reap(&c, r, ret_status, err);
	close_fd(&c.in);
	close_fd(&c.out);
	close_fd(&c.said);
	close_fd(&c.signals);
	signal(SIGPIPE, before);
	return r;
}
