/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report page of a run: report.html, one file that needs nothing else (inline SVG and CSS,
 * no scripts): verdict, what was emulated, results, figures, tables, settings, how to repeat.
 */
#ifndef LH_PLOTS_REPORT_H
#define LH_PLOTS_REPORT_H

#include "collect/collect.h"
#include "core/error.h"
#include "scenarios/scenario.h"

/*
 * Writes run_dir/report.html from results and from what run_dir holds: figures (those that
 * lh_plots_make left), links.csv, engine.json. What is missing is left out. LH_EINPUT for a
 * malformed file, LH_ESYS.
 */
int lh_report_write(const char *run_dir, const struct lh_scenario *sc,
		    const struct lh_results *results, struct lh_error *err);

#endif
