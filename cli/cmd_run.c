/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul run: a scenario file or an experiment, once or with several seeds. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/run_options.h"
#include "cli/training.h"
#include "core/cleanup.h"

static void print_help(void)
{
	printf("Usage: longhaul run [OPTION...] SCENARIO\n\n"
	       "Recreates the network of a scenario, measures it, runs the trainers or the "
	       "scenario's\n"
	       "command through it, and leaves tables, figures and a report. SCENARIO is a YAML "
	       "file,\n"
	       "or the id of an experiment that `longhaul list` shows (A-8-cv).\n\n");
	lh_options_print(lh_run_rows);
}

/* What both verbs do with the scenario that was read with result r, or not; frees it. */
static int carry_out(const struct lh_run_options *o, int r, struct lh_scenario *scenario,
		     struct lh_diag *diag, struct lh_error *err)
{
	int status;

	if (r == 0)
		r = lh_cli_check_training(scenario, diag, err);
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
	static const struct lh_options options = {"run", lh_run_rows, print_help, NULL};
	struct lh_run_options o = {0};
	struct lh_scenario *scenario = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status = lh_run_options_parse(&o, &options, argc, argv);

	if (status < 0) {
		int r = lh_scenario_read(o.target, lh_cli_catalog_dir(), o.overrides.list,
					 o.overrides.n, &scenario, &diag, &err);

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
	       "byte. A command runs in the same folder, with the current environment.\n\n");
	lh_options_print(lh_rerun_rows);
}

int lh_cmd_rerun(int argc, char **argv)
{
	static const struct lh_options options = {
		"rerun", lh_rerun_rows, print_rerun_help,
		"a run is repeated as it was: what changes it belongs to `longhaul run`"};
	lh_cleanup_free char *folder = NULL;
	struct lh_run_options o = {0};
	struct lh_scenario *scenario = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	int status = lh_run_options_parse(&o, &options, argc, argv);

	if (status < 0) {
		int r = lh_cli_read_run(o.target, &scenario, &folder, &diag, &err);

		o.folder = folder;
		status = carry_out(&o, r, scenario, &diag, &err);
	}
	lh_run_options_done(&o);
	return status;
}
