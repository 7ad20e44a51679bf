/* SPDX-License-Identifier: Apache-2.0 */
/* What `longhaul reproduce` says of a suite of claims. */
#ifndef LH_CLI_REPRODUCE_CLAIMS_H
#define LH_CLI_REPRODUCE_CLAIMS_H

#include "collect/claims.h"
#include "collect/collect.h"
#include "scenarios/scenario.h"

/* Takes over what claims need of a run's results; id stays. */
void lh_cli_claim_run_fill(const struct lh_scenario *sc, const struct lh_results *results,
			   struct lh_claim_run *ret_run);

/* Writes tables and figure into dir, and prints the claims beside ours, or JSON. Returns an exit
 * status. */
int lh_cli_report_claims(const struct lh_suite *suite, const struct lh_claim_run *runs,
			 size_t n_runs, const char *dir, bool as_json);

#endif
