/* SPDX-License-Identifier: Apache-2.0 */
/* A run from a scenario to a results folder. */
#ifndef LH_CLI_EXECUTE_H
#define LH_CLI_EXECUTE_H

#include "collect/collect.h"
#include "core/error.h"
#include "scenarios/scenario.h"

struct lh_execution {
	const struct lh_scenario *scenario;
	const char *out; /* the results folder; must not exist */
	bool quiet;	 /* no progress */
	bool figures;	 /* draw figures and the report */
	bool verifies;	 /* prove the network; no training, no results but verify.csv and .json */
	size_t sample;	 /* of it: pairs of nodes, 0: all */
};

/*
 * Runs a scenario and leaves its results under out: all of them or, where nothing came of
 * the run, none. *ret_results is the caller's when 0, LH_EMEASURE (invalid) or LH_ESIGNAL
 * (stopped, with the epochs finished so far) is returned and *ret_has_results is set.
 * Blocks SIGINT, SIGTERM and SIGHUP while it runs.
 */
int lh_execute(const struct lh_execution *execution, struct lh_results *ret_results,
	       bool *ret_has_results, struct lh_error *err);

/* results/NAME-seedN, or with -2, -3 ... where that exists; owned by the caller. */
char *lh_default_out(const struct lh_scenario *scenario);

#endif
