/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a paper claims, as a suite lists it: each claim with its source and status, and the
 * experiments here that speak to it; the settings that the paper leaves unknown; a sweep that
 * becomes a figure. How ours comes of the experiments: collect/claims.h.
 */
#ifndef LH_SCENARIOS_CLAIMS_H
#define LH_SCENARIOS_CLAIMS_H

#include <stddef.h>

#include "core/error.h"
#include "core/units.h"

/* One experiment, compared with another where the measure does so. */
struct lh_claim_pair {
	char *of;
	char *against; /* NULL: none */
	struct lh_pos pos;
};

struct lh_claim {
	char *id;
	char *claim; /* in words */
	char *source;
	char *status;  /* "confirmed" where the source itself was read, else "unconfirmed" */
	char *measure; /* a name of lh_measures */
	double least;  /* published, in the measure's unit; -1: not given, as the next */
	double most;
	struct lh_claim_pair *pairs;
	size_t n_pairs;
};

struct lh_unknown_setting {
	char *setting;
	char *ours; /* in its stead */
};

struct lh_sweep_point {
	char *series;
	double at;
	char *run;
	struct lh_pos pos;
};

/* Speed-up and accuracy over something. */
struct lh_sweep {
	char *about;
	char *label; /* of the axis; NULL: there is no sweep */
	char *against;
	struct lh_sweep_point *points;
	size_t n_points;
	struct lh_pos pos;
};

#endif
