/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A person's terminal (or a pipe of commands) for a program in a node, through a link to the
 * process outside that has it. Into the node go frames: a byte what it is, two bytes how long,
 * big endian, then so many bytes. Out of it comes LH_TERMINAL_BEGUN, then what the terminal shows.
 */
#ifndef LH_EMULATOR_TERMINAL_H
#define LH_EMULATOR_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* What a frame is. */
enum lh_terminal_frame {
	LH_FRAME_DATA = 'd', /* was typed */
	LH_FRAME_SIZE = 's', /* rows and columns, two bytes each, big endian */
	LH_FRAME_END = 'e',  /* nothing more will come */
};

enum {
	LH_FRAME_HEAD_BYTES = 3,
	LH_FRAME_MAX_BYTES = 4096, /* after the head */
	LH_TERMINAL_BEGUN = 1,	   /* the program has been started */
	LH_TERMINAL_POLLS = 2,
};

enum lh_terminal_kind {
	LH_TERMINAL_NONE,
	LH_TERMINAL_PIPE, /* only standard input goes through the link */
	LH_TERMINAL_TTY,
};

struct lh_terminal;

/* Makes a terminal behind link_fd, which stays the caller's. LH_ESYS. */
int lh_terminal_open(enum lh_terminal_kind kind, int link_fd, struct lh_terminal **ret_terminal,
		     struct lh_error *err);
void lh_terminal_close(struct lh_terminal *terminal);

/* What the program gets: its standard input and, of a tty, all its standard streams. */
int lh_terminal_program_fd(const struct lh_terminal *terminal);

/* The program has been started. */
int lh_terminal_begin(struct lh_terminal *terminal, struct lh_error *err);

/* What is to be waited for: LH_TERMINAL_POLLS entries. */
void lh_terminal_poll(const struct lh_terminal *terminal, struct pollfd *ret_fds);

/* Passes on what there is, both ways, without waiting. */
int lh_terminal_serve(struct lh_terminal *terminal, struct lh_error *err);

#endif
