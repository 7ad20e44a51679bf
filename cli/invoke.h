/* SPDX-License-Identifier: Apache-2.0 */
/* Running a scenario's command for a person: what exec and shell share. */
#ifndef LH_CLI_INVOKE_H
#define LH_CLI_INVOKE_H

#include <stdbool.h>
#include <stdint.h>

#include "emulator/terminal.h"
#include "scenarios/scenario.h"

struct lh_invocation {
	const struct lh_scenario *scenario;
	const char *node; /* NULL: the first */
	bool all;
	const char *out; /* keep what came of it there; NULL: nowhere */
	int64_t time_limit_ns;
	int64_t stuck_after_ns;
	bool keep_going;
	enum lh_terminal_kind terminal; /* our standard streams are its */
};

/* Runs it, passing on what it says; the exit status. */
int lh_invoke(const struct lh_invocation *invocation);

#endif
