/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of every YAML file. Private to the scenario room. */
#ifndef LH_SCENARIOS_SCHEMA_H
#define LH_SCENARIOS_SCHEMA_H

#include "scenarios/bind.h"
#include "scenarios/claims.h"

/* Reading a suite: what its file says, before placements and workloads are combined. */
struct lh_suite_file {
	char *name;
	char *about;
	char *source;
	struct lh_yaml *base; /* borrowed from the tree, as the next three */
	struct lh_yaml *workloads;
	struct lh_yaml *groups;
	struct lh_yaml *published;
	struct lh_claim *claims;
	size_t n_claims;
	struct lh_unknown_setting *unknown;
	size_t n_unknown;
	struct lh_sweep sweep;
};

/* A catalog file that holds one named thing, with its format version. */
extern const struct lh_section lh_network_section;   /* struct lh_network */
extern const struct lh_section lh_machine_section;   /* struct lh_machine */
extern const struct lh_section lh_model_section;     /* struct lh_model */
extern const struct lh_section lh_profile_section;   /* struct lh_profile */
extern const struct lh_section lh_prices_section;    /* struct lh_prices */
extern const struct lh_section lh_scenario_section;  /* struct lh_scenario */
extern const struct lh_section lh_suite_section;     /* struct lh_suite_file */
extern const struct lh_section lh_published_section; /* struct lh_published */
extern const struct lh_section lh_claim_section;     /* struct lh_claim */
extern const struct lh_section lh_unknown_section;   /* struct lh_unknown_setting */
extern const struct lh_section lh_sweep_section;     /* struct lh_sweep */
extern const struct lh_section lh_event_section;     /* struct lh_event */
extern const struct lh_section lh_trace_section;     /* struct lh_trace */
extern const struct lh_section lh_spot_section;	     /* struct lh_spot_spec */

#endif
