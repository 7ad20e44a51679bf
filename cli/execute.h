/* SPDX-License-Identifier: Apache-2.0 */
/* A run from a scenario to a results folder. */
#ifndef LH_CLI_EXECUTE_H
#define LH_CLI_EXECUTE_H

#include <signal.h>

#include "cli/ending.h"
#include "collect/collect.h"
#include "core/error.h"
#include "emulator/command.h"
#include "scenarios/scenario.h"

/* When programs count as stuck, unless the user says otherwise. */
#define LH_STUCK_AFTER_NS INT64_C(60000000000)

struct lh_execution {
	const struct lh_scenario *scenario;
	const char *out; /* the results folder; must not exist */
	char *ret_out;	 /* PATH_MAX bytes or NULL: where they are in the end (out, or out-2 ...) */
	bool quiet;	 /* no progress */
	bool figures;	 /* draw figures and the report */
	const struct lh_command *command; /* of lh_execute_command: how the scenario's is run */
	const char *folder; /* of lh_execute: where a command runs that names none; NULL: here */
	int link_fd;	    /* of the command's terminal, where it has one */
	int64_t stuck_after_ns; /* of a command; see guest.h */
	bool keeps;		/* of a command: its files stay under out */
	bool verifies;		/* prove the network; no training, only verify.csv, .json */
	size_t sample;		/* of it: pairs of nodes, 0: all */
};

/*
 * Runs a scenario, its command in every node where it has one, and leaves its results under out:
 * all of them or, where nothing came of the run, none. *ret_results is the caller's when 0,
 * LH_EMEASURE (invalid), LH_EUNFIT or LH_ESIGNAL (stopped, with the epochs finished so far) is
 * returned and *ret_has_results is set. Blocks SIGINT, SIGTERM and SIGHUP while it runs.
 */
int lh_execute(const struct lh_execution *execution, struct lh_results *ret_results,
	       bool *ret_has_results, struct lh_error *err);

/*
 * Runs the scenario's command as execution->command says, passing on what it says, and leaves
 * its files under out. 0, LH_EMEASURE (the network missed its target), LH_EUNFIT, LH_ERUN, LH_EENV,
 * LH_ESIGNAL. ret_ending is filled in where the programs have ended by themselves.
 */
int lh_execute_command(const struct lh_execution *execution, struct lh_ending *ret_ending,
		       struct lh_error *err);

/* Blocks the signals that end a run, in this thread and those that it begins; which they are. A
 * command, whose output is passed on as it comes, ends when nobody reads it any more. */
sigset_t lh_block_signals(bool has_command);

/* results/NAME-seedN, or with -2, -3 ... where that exists; owned by the caller. */
char *lh_default_out(const struct lh_scenario *scenario);

#endif
