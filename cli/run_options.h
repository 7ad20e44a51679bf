/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the verbs that run scenarios, and running as they say. */
#ifndef LH_CLI_RUN_OPTIONS_H
#define LH_CLI_RUN_OPTIONS_H

#include <stdbool.h>

#include "cli/options.h"
#include "scenarios/scenario.h"

struct lh_run_options {
	const char *target; /* SCENARIO or RUN */
	char *out;
	struct lh_overrides overrides;
	int repeat;
	bool dry_run;
	bool json;
	bool quiet;
	bool no_figures;
	const char *folder; /* that a command runs in; NULL: the current one */
};

/* Of `run`, and of `rerun`, which changes nothing. */
extern const struct lh_option lh_run_rows[];
extern const struct lh_option lh_rerun_rows[];

/* Parses the options of a verb whose rows are one of the two; returns -1 to go on, or the exit
 * status (help, wrong usage). */
int lh_run_options_parse(struct lh_run_options *o, const struct lh_options *verb, int argc,
			 char **argv);
void lh_run_options_done(struct lh_run_options *options);

/* Runs the scenario as often as the options say and prints what came out; the exit status. */
int lh_run_repeat(const struct lh_run_options *options, struct lh_scenario *scenario);

#endif
