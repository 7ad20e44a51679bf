/* SPDX-License-Identifier: Apache-2.0 */
/* longhaul plot: figures and report of a finished run, made anew. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "collect/collect.h"
#include "core/cleanup.h"
#include "core/file.h"
#include "plots/plots.h"
#include "plots/report.h"

static bool is_proof(const char *dir)
{
	lh_cleanup_free char *path = lh_path_join(dir, "verify.json");

	return path && lh_path_exists(path);
}

static int plot(const char *dir, bool *ret_is_proof, struct lh_diag *diag, struct lh_error *err)
{
	struct lh_scenario *scenario = NULL;
	struct lh_results results;
	int r;

	*ret_is_proof = is_proof(dir);
	if (*ret_is_proof)
		return lh_plots_make_proof(dir, lh_cli_plot_dir(), err);
	r = lh_cli_read_run(dir, &scenario, NULL, diag, err);
	if (r < 0)
		return r;
	r = lh_collect_run(dir, scenario, &results, err);
	if (r == 0) {
		r = lh_plots_make(dir, lh_cli_plot_dir(), err);
		if (r == 0)
			r = lh_report_write(dir, scenario, &results, err);
		lh_results_done(&results);
	}
	lh_scenario_free(scenario);
	return r;
}

int lh_cmd_plot(int argc, char **argv)
{
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	bool is_of_proof = false;
	int status = 0;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("Usage: longhaul plot RUN\n\n"
		       "Makes the tables, figures and report of the results folder RUN anew from "
		       "its\n"
		       "raw files; of a folder of longhaul verify the figures.\n");
		return 0;
	}
	if (argc != 2)
		return lh_cli_usage("plot", "takes one results folder");
	if (plot(argv[1], &is_of_proof, &diag, &err) < 0)
		status = lh_cli_fail(&diag, &err);
	else if (is_of_proof)
		printf("%s/figures is new\n", argv[1]);
	else
		printf("%s/report.html and %s/figures are new\n", argv[1], argv[1]);
	lh_diag_done(&diag);
	return status;
}
