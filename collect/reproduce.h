/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A suite's results beside the published figures: one row per experiment, and how far off they
 * are on the whole. An error ratio is ours / published - 1.
 */
#ifndef LH_COLLECT_REPRODUCE_H
#define LH_COLLECT_REPRODUCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "collect/table.h"
#include "core/error.h"
#include "scenarios/scenario.h"

/* One experiment as run here. Strings are borrowed while the report is made. */
struct lh_reproduce_run {
	const char *id;
	const char *model;
	bool is_valid;
	double throughput_sps; /* NaN: not run, or not known; so the next two */
	double granularity;
	double comm_s;
	struct lh_published published; /* -1: unknown */
};

struct lh_reproduce {
	struct lh_table table; /* of experiments */
	struct lh_table bias;  /* per model, then `all`: bias and median error by metric */
	json_t *json;	       /* {"experiments": [...], "bias": {...}}, as for --json */
};

/*
 * Compares n runs with what was published. *ret_report is the caller's, for lh_reproduce_done.
 * Only valid runs count for the bias. LH_ESYS.
 */
int lh_reproduce_compare(const struct lh_reproduce_run *runs, size_t n_runs,
			 struct lh_reproduce *ret_report, struct lh_error *err);

void lh_reproduce_done(struct lh_reproduce *report);

#endif
