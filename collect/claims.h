/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a paper claims beside what came of the experiments that speak to it: for each claim the
 * published range and ours. Runs that are not valid count for nothing.
 */
#ifndef LH_COLLECT_CLAIMS_H
#define LH_COLLECT_CLAIMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "collect/table.h"
#include "core/error.h"
#include "scenarios/scenario.h"

/* What came of one experiment; NaN where it is not known. */
struct lh_claim_run {
	const char *id; /* borrowed */
	bool is_valid;
	double throughput_sps;
	double wall_s;	      /* of all epochs */
	double cost_usd;      /* in all, by the price that summaries use */
	double test_accuracy; /* the last; 0 to 1 */
};

/* How a claim is measured. */
struct lh_measure {
	const char *name;
	const char *doc;  /* one line */
	const char *unit; /* behind a number: "x", "%" ... */
	int decimals;
	bool compares; /* against may not be NULL */
	double (*compute)(const struct lh_claim_run *of, const struct lh_claim_run *against);
};

/* All measures; ends with name NULL. */
extern const struct lh_measure lh_measures[];

struct lh_claims_report {
	struct lh_table claims;	 /* one row each */
	struct lh_table pairs;	 /* the comparisons behind them */
	struct lh_table unknown; /* settings */
	struct lh_table sweep;	 /* series, at, speedup, test_accuracy; no rows without one */
	json_t *json;		 /* {"claims": [...], "unknown": [...], "sweep": [...]} */
};

/* Compares the suite's claims with n runs. *ret_report is the caller's, for lh_claims_done.
 * LH_ESYS. */
int lh_claims_compare(const struct lh_suite *suite, const struct lh_claim_run *runs, size_t n_runs,
		      struct lh_claims_report *ret_report, struct lh_error *err);

void lh_claims_done(struct lh_claims_report *report);

/* Writes claims.csv, claim-pairs.csv, unknown.csv and, where there is one, sweep.csv into dir.
 * LH_ESYS. */
int lh_claims_write(const struct lh_claims_report *report, const char *dir, struct lh_error *err);

/* All of it as lines for a terminal of width columns (0: any), owned by the caller. LH_ESYS. */
int lh_claims_format(const struct lh_suite *suite, const struct lh_claims_report *report,
		     size_t width, char **ret_text, struct lh_error *err);

#endif
