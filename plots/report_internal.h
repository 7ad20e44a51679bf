/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind report.h share. */
#ifndef LH_PLOTS_REPORT_INTERNAL_H
#define LH_PLOTS_REPORT_INTERNAL_H

#include <stdio.h>

#include "plots/report.h"

/* Cost by scope and item, nodes added up. */
void lh_report_put_cost(FILE *f, const struct lh_results *results);

/* Bytes by directed pair of sites, seconds added up. LH_ESYS. */
int lh_report_put_traffic(FILE *f, const struct lh_results *results, struct lh_error *err);

/* Both matrices of links.csv, where there is one. LH_EINPUT, LH_ESYS. */
int lh_report_put_links(FILE *f, const char *run_dir, struct lh_error *err);

/* What engine.json says was pinned, where there is one. LH_EINPUT, LH_ESYS. */
int lh_report_put_settings(FILE *f, const char *run_dir, struct lh_error *err);

#endif
