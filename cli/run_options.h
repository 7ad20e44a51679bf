/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the verbs that run scenarios, and running as they say. */
#ifndef LH_CLI_RUN_OPTIONS_H
#define LH_CLI_RUN_OPTIONS_H

#include <stdbool.h>

#include "scenarios/scenario.h"

enum { LH_OVERRIDES_MAX = 64 };

struct lh_run_options {
	const char *target; /* SCENARIO or RUN */
	const char *out;
	struct lh_override overrides[LH_OVERRIDES_MAX];
	size_t n_overrides;
	char *owned[LH_OVERRIDES_MAX]; /* copies that overrides point into */
	size_t n_owned;
	char *capture; /* words of --capture as a JSON array; NULL: none. Owned */
	int repeat;
	bool dry_run;
	bool json;
	bool quiet;
	bool no_figures;
};

/* Prints the lines of the help that explain the options. */
void lh_run_options_print(void);

/* Parses; returns -1 to go on, or the exit status (help, wrong usage). */
int lh_run_options_parse(struct lh_run_options *options, const char *verb, int argc, char **argv,
			 void (*print_help)(void));
void lh_run_options_done(struct lh_run_options *options);

/* Runs the scenario as often as the options say and prints what came out; the exit status. */
int lh_run_repeat(const struct lh_run_options *options, struct lh_scenario *scenario);

#endif
