/* SPDX-License-Identifier: Apache-2.0 */
/* The person's side of a terminal in a node. See terminal.h. */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

struct lh_relay {
	enum lh_terminal_kind kind;
	pthread_t thread;
	int link_fd; /* ours */
	int node_fd;
	int stop_fd;
	int size_fd; /* tells that the window has changed; -1: no window */
	bool has_begun;
	bool is_raw;
	bool is_at_end; /* of what is typed */
	struct termios before;
	unsigned char frame[LH_FRAME_HEAD_BYTES + LH_FRAME_MAX_BYTES];
	size_t n_frame; /* on its way to the node */
	size_t n_sent;
};

enum lh_terminal_kind lh_relay_kind(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? LH_TERMINAL_TTY : LH_TERMINAL_PIPE;
}

static void put_frame(struct lh_relay *r, int kind, size_t n)
{
	r->frame[0] = (unsigned char)kind;
	r->frame[1] = (unsigned char)(n >> 8);
	r->frame[2] = (unsigned char)n;
	r->n_frame = LH_FRAME_HEAD_BYTES + n;
	r->n_sent = 0;
}

static void put_size(struct lh_relay *r)
{
	unsigned char *data = r->frame + LH_FRAME_HEAD_BYTES;
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
		return;
	data[0] = (unsigned char)(size.ws_row >> 8);
	data[1] = (unsigned char)size.ws_row;
	data[2] = (unsigned char)(size.ws_col >> 8);
	data[3] = (unsigned char)size.ws_col;
	put_frame(r, LH_FRAME_SIZE, 4);
}

static void put_typed(struct lh_relay *r)
{
	ssize_t n = read(STDIN_FILENO, r->frame + LH_FRAME_HEAD_BYTES, LH_FRAME_MAX_BYTES);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	r->is_at_end = n <= 0;
	put_frame(r, n > 0 ? LH_FRAME_DATA : LH_FRAME_END, n > 0 ? (size_t)n : 0);
}

static void send_frame(struct lh_relay *r)
{
	ssize_t n = send(r->link_fd, r->frame + r->n_sent, r->n_frame - r->n_sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		n = (ssize_t)(r->n_frame - r->n_sent); /* the node is gone: said by its end */
	r->n_sent += n > 0 ? (size_t)n : 0;
	if (r->n_sent == r->n_frame)
		r->n_frame = 0;
}

/* From now on the node's terminal makes of keys what they mean. */
static void begin(struct lh_relay *r)
{
	struct termios raw;

	r->has_begun = true;
	if (r->kind != LH_TERMINAL_TTY || tcgetattr(STDIN_FILENO, &r->before) < 0)
		return;
	raw = r->before;
	cfmakeraw(&raw);
	r->is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
	put_size(r);
}

/* Shows what has come; false where there is nothing, now or ever. */
static bool show(struct lh_relay *r)
{
	char buf[16384];
	ssize_t n = recv(r->link_fd, buf, sizeof(buf), MSG_DONTWAIT);
	ssize_t done = 0;

	if (n <= 0)
		return false;
	if (!r->has_begun) {
		begin(r);
		done = 1;
	}
	while (done < n) {
		ssize_t k = write(STDOUT_FILENO, buf + done, (size_t)(n - done));

		if (k < 0 && errno != EINTR)
			return false;
		done += k > 0 ? k : 0;
	}
	return true;
}

static void *relay(void *context)
{
	struct lh_relay *r = context;
	struct signalfd_siginfo info;

	for (;;) {
		bool takes = r->has_begun && !r->n_frame;
		struct pollfd fds[] = {
			{.fd = r->stop_fd, .events = POLLIN},
			{.fd = r->link_fd,
			 .events = (short)(r->n_frame ? POLLIN | POLLOUT : POLLIN)},
			{.fd = takes ? r->size_fd : -1, .events = POLLIN},
			{.fd = takes && !r->is_at_end ? STDIN_FILENO : -1, .events = POLLIN},
		};

		if (poll(fds, 4, -1) < 0 && errno != EINTR)
			return NULL;
		if (fds[0].revents)
			break;
		if (fds[1].revents & POLLOUT)
			send_frame(r);
		if (fds[1].revents & ~POLLOUT && !show(r))
			fds[0].revents = (short)poll(fds, 1, -1); /* the node is gone */
		if (fds[2].revents && read(r->size_fd, &info, sizeof(info)) > 0)
			put_size(r);
		else if (fds[3].revents)
			put_typed(r);
	}
	while (show(r))
		;
	return NULL;
}

/* Opens what the relay waits for. */
static int open_all(struct lh_relay *r, struct lh_error *err)
{
	int ends[2];
	sigset_t set;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return lh_fail(err, LH_ESYS, errno, "open a link to the node");
	r->link_fd = ends[0];
	r->node_fd = ends[1];
	fcntl(r->link_fd, F_SETFL, O_NONBLOCK);
	r->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (r->kind == LH_TERMINAL_TTY) {
		sigemptyset(&set);
		sigaddset(&set, SIGWINCH);
		sigprocmask(SIG_BLOCK, &set, NULL);
		r->size_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	}
	return r->stop_fd < 0 ? lh_fail(err, LH_ESYS, errno, "open a link to the node") : 0;
}

static void close_all(struct lh_relay *r)
{
	const int fds[] = {r->link_fd, r->node_fd, r->stop_fd, r->size_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(r);
}

int lh_relay_start(enum lh_terminal_kind kind, struct lh_relay **ret, int *ret_link_fd,
		   struct lh_error *err)
{
	struct lh_relay *r = calloc(1, sizeof(*r));
	int code;

	if (!r)
		return lh_fail(err, LH_ESYS, ENOMEM, "open a link to the node");
	r->kind = kind;
	r->link_fd = r->node_fd = r->stop_fd = r->size_fd = -1;
	code = open_all(r, err);
	if (code == 0 && (errno = pthread_create(&r->thread, NULL, relay, r)) != 0)
		code = lh_fail(err, LH_ESYS, errno, "start a thread");
	if (code < 0) {
		close_all(r);
		return code;
	}
	*ret_link_fd = r->node_fd;
	*ret = r;
	return 0;
}

void lh_relay_stop(struct lh_relay *r)
{
	if (!r)
		return;
	eventfd_write(r->stop_fd, 1);
	pthread_join(r->thread, NULL);
	if (r->is_raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &r->before);
	close_all(r);
}
