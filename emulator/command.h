/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program is started with beside its words, which stand in the scenario: where, in
 * which folder, with which environment, and for how long. It may hold secrets (the
 * environment), so that it goes to the guest in a file of the user's alone, which the guest
 * removes, and never into results.
 */
#ifndef LH_EMULATOR_COMMAND_H
#define LH_EMULATOR_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "emulator/terminal.h"

struct lh_command {
	char **environment; /* NAME=VALUE; ends with NULL */
	char *cwd;
	size_t *ranks; /* that run it, in order */
	size_t n_ranks;
	int64_t time_limit_ns;		/* of the run's clock; 0: none */
	bool keep_going;		/* others go on when one has failed */
	enum lh_terminal_kind terminal; /* of the first rank's program */
};

/* Writes it to path, readable by the user alone; the file must not exist. */
int lh_command_write(const char *path, const struct lh_command *command, struct lh_error *err);

/* Reads what lh_command_write wrote, and removes the file; release with lh_command_done. */
int lh_command_take(const char *path, struct lh_command *ret_command, struct lh_error *err);

void lh_command_done(struct lh_command *command);

/* The host name of the node called SITE/N: SITE-N. Owned by the caller. */
char *lh_host_name(const char *node);

#endif
