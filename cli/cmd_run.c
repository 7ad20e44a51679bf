/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul run: a scenario file or an experiment, once or with several seeds. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/run_options.h"

static void print_help(void)
{
	printf("Usage: longhaul run [OPTION...] SCENARIO\n\n"
	       "Recreates the network of a scenario, measures it, runs the trainers through it, "
	       "and\n"
	       "leaves tables, figures and a report. SCENARIO is a YAML file, or the id of an\n"
	       "experiment that `longhaul list` shows (A-8-cv).\n\n");
	lh_run_options_print();
}

/* What both verbs do with the scenario that was read with result r, or not; frees it. */
static int carry_out(const struct lh_run_options *o, int r, struct lh_scenario *scenario,
		     struct lh_diag *diag, const struct lh_error *err)
{
	int status;

	if (r < 0)
		status = lh_cli_fail(diag, err);
	else if (o->dry_run)
		status = lh_dry_run(scenario, o->json);
	else
		status = lh_run_repeat(o, scenario);
	lh_scenario_free(scenario);
	lh_diag_done(diag);
	return status;
}

int lh_cmd_run(int argc, char **argv)
{
	struct lh_run_options o = {0};
	struct lh_scenario *scenario = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status = lh_run_options_parse(&o, "run", argc, argv, print_help);

	if (status < 0) {
		int r = lh_scenario_read(o.target, lh_cli_catalog_dir(), o.overrides, o.n_overrides,
					 &scenario, &diag, &err);

		status = carry_out(&o, r, scenario, &diag, &err);
	}
	lh_run_options_done(&o);
	return status;
}

static void print_rerun_help(void)
{
	printf("Usage: longhaul rerun [OPTION...] RUN\n\n"
	       "Repeats a run from the run.json in its results folder: the same scenario, "
	       "catalogs\n"
	       "and seed as they were then. In virtual time the tables come out the same, byte "
	       "for\n"
	       "byte.\n\n");
	lh_run_options_print();
}

int lh_cmd_rerun(int argc, char **argv)
{
	struct lh_run_options o = {0};
	struct lh_scenario *scenario = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status = lh_run_options_parse(&o, "rerun", argc, argv, print_rerun_help);

	if (status < 0 && (o.n_overrides || o.repeat > 1))
		status = lh_cli_usage("rerun",
				      "a run is repeated as it was; --set, --seed, --repeat and "
				      "the like belong to `longhaul run`");
	if (status < 0) {
		int r = lh_cli_read_run(o.target, &scenario, &diag, &err);

		status = carry_out(&o, r, scenario, &diag, &err);
	}
	lh_run_options_done(&o);
	return status;
}
