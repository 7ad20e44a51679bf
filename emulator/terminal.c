/* SPDX-License-Identifier: Apache-2.0 */
/* The node's side of a person's terminal. See terminal.h. */
#include "emulator/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/cleanup.h"

struct lh_terminal {
	enum lh_terminal_kind kind;
	int link_fd;
	int program_fd; /* the program's end */
	int own_fd;	/* ours: what is typed goes there, what is shown comes from there */
	uint8_t frames[2 * (LH_FRAME_HEAD_BYTES + LH_FRAME_MAX_BYTES)];
	size_t n_frames;
	uint8_t typed[LH_FRAME_MAX_BYTES]; /* not taken by the program yet */
	size_t n_typed;
	bool is_at_end;
};

static int open_tty(struct lh_terminal *t, struct lh_error *err)
{
	char name[64];

	t->own_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (t->own_fd < 0 || grantpt(t->own_fd) < 0 || unlockpt(t->own_fd) < 0 ||
	    ptsname_r(t->own_fd, name, sizeof(name)) != 0 ||
	    (t->program_fd = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0)
		return lh_fail(err, LH_ESYS, errno, "open a terminal");
	return 0;
}

static int open_pipe(struct lh_terminal *t, struct lh_error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return lh_fail(err, LH_ESYS, errno, "open a pipe");
	t->program_fd = ends[0];
	t->own_fd = ends[1];
	fcntl(t->own_fd, F_SETFL, O_NONBLOCK);
	return 0;
}

/* The link must change nothing that passes, where it is a terminal itself. */
static void make_raw(int fd)
{
	struct termios mode;

	if (tcgetattr(fd, &mode) < 0)
		return;
	cfmakeraw(&mode);
	tcsetattr(fd, TCSANOW, &mode);
}

int lh_terminal_open(enum lh_terminal_kind kind, int link_fd, struct lh_terminal **ret,
		     struct lh_error *err)
{
	struct lh_terminal *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return lh_fail(err, LH_ESYS, ENOMEM, "open a terminal");
	t->kind = kind;
	t->link_fd = link_fd;
	t->program_fd = t->own_fd = -1;
	make_raw(link_fd);
	fcntl(link_fd, F_SETFL, fcntl(link_fd, F_GETFL) | O_NONBLOCK);
	r = kind == LH_TERMINAL_TTY ? open_tty(t, err) : open_pipe(t, err);
	if (r < 0) {
		lh_terminal_close(t);
		return r;
	}
	*ret = t;
	return 0;
}

void lh_terminal_close(struct lh_terminal *t)
{
	if (!t)
		return;
	if (t->program_fd >= 0)
		close(t->program_fd);
	if (t->own_fd >= 0)
		close(t->own_fd);
	tcdrain(t->link_fd);
	free(t);
}

int lh_terminal_program_fd(const struct lh_terminal *t)
{
	return t->program_fd;
}

/* Writes all to the link, waiting where it is full. */
static int write_link(struct lh_terminal *t, const uint8_t *data, size_t n, struct lh_error *err)
{
	while (n) {
		ssize_t k = write(t->link_fd, data, n);
		struct pollfd fd = {.fd = t->link_fd, .events = POLLOUT};

		if (k < 0 && errno == EAGAIN)
			poll(&fd, 1, -1);
		else if (k < 0 && errno != EINTR)
			return lh_fail(err, LH_ESYS, errno, "write to the terminal");
		data += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
	return 0;
}

int lh_terminal_begin(struct lh_terminal *t, struct lh_error *err)
{
	const uint8_t begun = LH_TERMINAL_BEGUN;

	/* of a pipe, the program must see its end; a terminal's last words wait in it for us */
	if (t->kind == LH_TERMINAL_PIPE) {
		close(t->program_fd);
		t->program_fd = -1;
	}
	return write_link(t, &begun, 1, err);
}

void lh_terminal_poll(const struct lh_terminal *t, struct pollfd *fds)
{
	short out = t->n_typed ? POLLOUT : 0;

	/* what nobody has room for stays in the link */
	fds[0] = (struct pollfd){.fd = t->n_typed ? -1 : t->link_fd, .events = POLLIN};
	fds[1] =
		(struct pollfd){.fd = out || t->kind == LH_TERMINAL_TTY ? t->own_fd : -1,
				.events = (short)(t->kind == LH_TERMINAL_TTY ? out | POLLIN : out)};
}

/* Gives the program what was typed, as much as it takes. */
static void pass_typed(struct lh_terminal *t)
{
	ssize_t n = t->n_typed && t->own_fd >= 0 ? write(t->own_fd, t->typed, t->n_typed) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		n = (ssize_t)t->n_typed; /* it has closed its end */
	if (n <= 0)
		return;
	t->n_typed -= (size_t)n;
	memmove(t->typed, t->typed + n, t->n_typed);
}

static unsigned short two_bytes(const uint8_t *at)
{
	return (unsigned short)(at[0] << 8 | at[1]);
}

static void take_frame(struct lh_terminal *t, int kind, const uint8_t *data, size_t n)
{
	struct winsize size = {0};

	switch (kind) {
	case LH_FRAME_DATA:
		memcpy(t->typed, data, n);
		t->n_typed = n;
		pass_typed(t);
		break;
	case LH_FRAME_SIZE:
		if (n != 4 || t->kind != LH_TERMINAL_TTY)
			break;
		size.ws_row = two_bytes(data);
		size.ws_col = two_bytes(data + 2);
		ioctl(t->own_fd, TIOCSWINSZ, &size);
		break;
	case LH_FRAME_END:
		t->is_at_end = true;
		break;
	default:
		break;
	}
}

/* Takes whole frames, one after the other, until the program is to take what was typed first. */
static void take_frames(struct lh_terminal *t)
{
	size_t used = 0;

	while (!t->n_typed && t->n_frames - used >= LH_FRAME_HEAD_BYTES) {
		const uint8_t *head = t->frames + used;
		size_t n = two_bytes(head + 1);

		if (n > LH_FRAME_MAX_BYTES)
			n = 0;
		if (t->n_frames - used < LH_FRAME_HEAD_BYTES + n)
			break;
		take_frame(t, head[0], head + LH_FRAME_HEAD_BYTES, n);
		used += LH_FRAME_HEAD_BYTES + n;
	}
	t->n_frames -= used;
	memmove(t->frames, t->frames + used, t->n_frames);
}

/* Shows what the program has put on its terminal; 1 where there was something. */
static int show(struct lh_terminal *t, struct lh_error *err)
{
	uint8_t buf[LH_FRAME_MAX_BYTES];
	ssize_t n = read(t->own_fd, buf, sizeof(buf));
	int r = n > 0 ? write_link(t, buf, (size_t)n, err) : 0;

	return r < 0 ? r : n > 0;
}

int lh_terminal_serve(struct lh_terminal *t, struct lh_error *err)
{
	ssize_t n;
	int r = 0;

	pass_typed(t);
	do {
		take_frames(t);
		n = t->n_typed ? 0
			       : read(t->link_fd, t->frames + t->n_frames,
				      sizeof(t->frames) - t->n_frames);
		t->n_frames += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	if (t->is_at_end && !t->n_typed && t->own_fd >= 0 && t->kind == LH_TERMINAL_PIPE) {
		close(t->own_fd);
		t->own_fd = -1;
	}
	if (t->kind == LH_TERMINAL_TTY)
		while ((r = show(t, err)) > 0)
			;
	return r;
}
