/* SPDX-License-Identifier: Apache-2.0 */
/* Claims of a suite, for a terminal and in files. See reproduce_claims.h. */
#include "cli/reproduce_claims.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "core/cleanup.h"
#include "core/log.h"
#include "plots/plots.h"

void lh_cli_claim_run_fill(const struct lh_scenario *sc, const struct lh_results *results,
			   struct lh_claim_run *ret_run)
{
	const struct lh_cost_sum *cost = &results->cost.scopes[sc->pricing.vm];

	ret_run->is_valid = results->is_valid;
	ret_run->throughput_sps = results->summary.throughput_sps;
	ret_run->wall_s = (double)results->summary.wall_ns * 1e-9;
	ret_run->cost_usd = cost->is_complete ? (double)cost->total_usd_micro * 1e-6 : NAN;
	ret_run->test_accuracy = results->summary.test_accuracy;
}

static double accuracy_of(const struct lh_claim_run *runs, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(runs[i].id, id) == 0 && runs[i].is_valid)
			return runs[i].test_accuracy;
	return NAN;
}

/* A missing gnuplot costs the figure alone. */
static void draw(const struct lh_suite *suite, const struct lh_claim_run *runs, size_t n_runs,
		 const char *dir)
{
	const struct lh_plot_sweep sweep = {
		.about = suite->sweep.about,
		.label = suite->sweep.label,
		.base = suite->sweep.against,
		.base_accuracy = suite->sweep.against
					 ? accuracy_of(runs, n_runs, suite->sweep.against)
					 : NAN,
	};
	struct lh_error err = {0};

	if (suite->sweep.label && lh_plots_make_sweep(dir, lh_cli_plot_dir(), &sweep, &err) < 0)
		lh_log(LH_LOG_WARNING, "no figure: %s", err.message);
}

int lh_cli_report_claims(const struct lh_suite *suite, const struct lh_claim_run *runs,
			 size_t n_runs, const char *dir, bool as_json)
{
	lh_cleanup_free char *text = NULL;
	struct lh_claims_report report;
	struct lh_error err = {0};
	int r = lh_claims_compare(suite, runs, n_runs, &report, &err);

	if (r < 0)
		return lh_cli_fail(NULL, &err);
	r = lh_claims_write(&report, dir, &err);
	if (r == 0)
		draw(suite, runs, n_runs, dir);
	if (r == 0 && as_json) {
		json_dumpf(report.json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
		putchar('\n');
	} else if (r == 0) {
		r = lh_claims_format(suite, &report, lh_cli_width(), &text, &err);
		if (r == 0)
			fputs(text, stdout);
	}
	lh_claims_done(&report);
	return r < 0 ? lh_cli_fail(NULL, &err) : 0;
}
