/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run would have cost: VM time, egress and loading of samples, in whole micro-dollars.
 * Each row is rounded once, half up, from exact integers; totals are sums of rows, so they
 * can be recomputed from the table. Spot and on-demand prices give one scope each.
 */
#ifndef LH_COLLECT_COST_H
#define LH_COLLECT_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/notes.h"
#include "collect/table.h"
#include "core/error.h"
#include "scenarios/scenario.h"

enum { LH_N_COST_SCOPES = 2 }; /* indexed by enum lh_vm_pricing */

/* What was used. Arrays are borrowed. */
struct lh_cost_usage {
	int64_t wall_ns;	     /* of the training */
	int64_t samples;	     /* of all nodes; -1: not known */
	const int64_t *node_samples; /* n_nodes; NULL: not known */
	const int64_t *away_ns;	   /* n_nodes: of wall_ns, a node's VM was not there; NULL: none */
	const int64_t *wire_bytes; /* [from node x n_nodes + to node]; NULL: not known */
};

/* The sums of one scope. usd_per_ are NaN where is_complete is false. */
struct lh_cost_sum {
	bool is_complete; /* everything used has a price here; else there is no total */
	int64_t vm_usd_micro;
	int64_t egress_usd_micro;
	int64_t data_usd_micro;
	int64_t total_usd_micro;
	double total_usd_per_hour;
	double total_usd_per_million_samples;
};

struct lh_cost {
	struct lh_table table; /* the rows of cost.csv */
	struct lh_cost_sum scopes[LH_N_COST_SCOPES];
	struct lh_notes notes; /* what has no price */
};

/* "spot" or "on-demand". */
const char *lh_cost_scope_name(int scope);

/* A price per hour over a time, in micro-dollars, rounded half up; -1 where it does not fit. */
int64_t lh_cost_of_time(int64_t usd_micro_per_h, int64_t time_ns);

/* A price per data over bytes, in micro-dollars, rounded half up; -1 where it does not fit. */
int64_t lh_cost_of_bytes(const struct lh_byte_price *price, int64_t bytes);

/*
 * Fills *ret_cost, the caller's, for lh_cost_done. What has no price leaves its row out of a
 * scope, and the scope without a total; notes say so. LH_EINPUT where an amount does not fit or
 * the catalog lacks the data store; LH_ESYS.
 */
int lh_cost_compute(const struct lh_scenario *sc, const struct lh_cost_usage *usage,
		    struct lh_cost *ret_cost, struct lh_error *err);

void lh_cost_done(struct lh_cost *cost);

#endif
