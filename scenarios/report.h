/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may report of its progress: the groups of a pattern, the keys of a JSON line. */
#ifndef LH_SCENARIOS_REPORT_H
#define LH_SCENARIOS_REPORT_H

#include "scenarios/scenario.h"

enum lh_report_key {
	LH_REPORT_EPOCH,
	LH_REPORT_SAMPLES,	 /* since the last report */
	LH_REPORT_TOTAL_SAMPLES, /* since the begin */
	LH_REPORT_LOSS,
	LH_REPORT_CALC_S, /* as the next, since the last report, and as the program says */
	LH_REPORT_COMM_S,
	LH_N_REPORT_KEYS,
};

const char *lh_report_key_name(enum lh_report_key key);

/* Checks how the scenario's command reports progress. Faults go to diag. */
void lh_progress_check(const struct lh_scenario *scenario, struct lh_diag *diag);

#endif
