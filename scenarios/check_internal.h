/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the checks of a scenario. See check.h. */
#ifndef LH_SCENARIOS_CHECK_INTERNAL_H
#define LH_SCENARIOS_CHECK_INTERNAL_H

#include "scenarios/bind.h"
#include "scenarios/scenario.h"

/* Speeds that a trainer takes, in samples/s, and how much a micro-batch may vary: three standard
 * deviations below the mean it still takes some time. */
#define LH_SPEED_MIN 1e-3
#define LH_SPEED_MAX 1e8
#define LH_VARIATION_MAX 0.33

/* A queue by itself: whether its keys go together. */
void lh_check_queue(const struct lh_queue_spec *queue, struct lh_pos pos, const char *key_path,
		    struct lh_diag *diag);

/* Cross traffic leaves some of a bottleneck's bandwidth. */
void lh_check_cross(const struct lh_cross_spec *cross, int64_t bandwidth_bps, const char *key_path,
		    struct lh_diag *diag);

/* The links that sites share, and the paths inside such sites. */
void lh_check_site_links(const struct lh_network *network, struct lh_diag *diag);

/* Fills path_at; complains of paths that stand twice. */
void lh_index_paths(struct lh_network *network, struct lh_diag *diag);

/*
 * The part of it about what changes in time: resolves traces and which attributes events set,
 * and checks them. count: nodes by site. Faults go to diag.
 */
void lh_timeline_check(struct lh_scenario *scenario, const int64_t *count, struct lh_diag *diag);

/* A workload that trains, or says how fast its nodes compute. */
void lh_train_check(const struct lh_scenario *scenario, struct lh_diag *diag);

/* Where data lie: whether the shares and sites are such, and whether the strategy heeds them. */
void lh_data_check(const struct lh_scenario *scenario, const int64_t *count, struct lh_diag *diag);

/* Of nodes that have no ranks yet: releases those that an elastic strategy does without, and gives
 * the others their shares of the target batch by where data lie. */
void lh_data_resolve(struct lh_scenario *scenario, struct lh_diag *diag);

/* What strategy and compressor need beside their own bounds, and their defaults that depend on the
 * nodes, which go into the tree. */
void lh_strategy_check(struct lh_scenario *scenario, struct lh_diag *diag);

/* The same by other sections than those of the schema, of the same structs. */
void lh_strategy_check_among(struct lh_scenario *scenario, const struct lh_section *strategies,
			     const struct lh_section *compressors, struct lh_diag *diag);

/* Complains that name, at pos, is no site; not where the network could not be read. */
void lh_say_unknown_site(const struct lh_network *network, const char *name, struct lh_pos pos,
			 const char *key_path, struct lh_diag *diag);

/* How many ranks a node of a machine type has. */
int64_t lh_ranks_of(const struct lh_scenario *scenario, const struct lh_machine *machine);

/* The ranks of all nodes as written; those of unknown machines have one. *ret_inside: those of a
 * node, where all have as many and more than one; else 0. */
int64_t lh_count_ranks(const struct lh_scenario *scenario, int64_t *ret_inside);

/* The machine of that name, or NULL. */
const struct lh_machine *lh_machine_find(const struct lh_scenario *scenario, const char *name);

/* Whether the machine of a kind of nodes (index: of nodes) can have them; complains where not. */
bool lh_check_ranks(const struct lh_scenario *scenario, size_t index,
		    const struct lh_machine *machine, struct lh_diag *diag);

/* Makes the ranks of all nodes, total of them; -1 where memory is out. */
int lh_add_ranks(struct lh_scenario *scenario, size_t total);

/* Index of the site called name, or -1. */
int lh_site_find(const struct lh_network *network, const char *name);

#endif
