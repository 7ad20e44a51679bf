/* SPDX-License-Identifier: Apache-2.0 */
/* The person's side of a terminal in a node (emulator/terminal.h): our standard streams. */
#ifndef LH_CLI_TERMINAL_H
#define LH_CLI_TERMINAL_H

#include "core/error.h"
#include "emulator/terminal.h"

struct lh_relay;

/* LH_TERMINAL_TTY where standard input and output are terminals, else LH_TERMINAL_PIPE. */
enum lh_terminal_kind lh_relay_kind(void);

/*
 * Begins to pass on, in a thread of its own, between our standard streams and *ret_link_fd, which
 * is for the node's side and belongs to the relay. A terminal is raw from when the program in
 * the node has begun. Call it where the signals that end us are blocked already. LH_ESYS.
 */
int lh_relay_start(enum lh_terminal_kind kind, struct lh_relay **ret_relay, int *ret_link_fd,
		   struct lh_error *err);

/* Passes on what is left, ends, and gives the terminal back as it was. NULL is nothing. */
void lh_relay_stop(struct lh_relay *relay);

#endif
