/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between the parts of a scenario. Private to the scenario room. */
#ifndef LH_SCENARIOS_CHECK_H
#define LH_SCENARIOS_CHECK_H

#include "scenarios/scenario.h"

/*
 * Resolves names to what they name (fills nodes, n_nodes, model) and checks what no single
 * key can: sites, machines and profiles exist, every pair of sites in use has a path in
 * both directions, prices exist. Faults go to diag, with positions.
 */
void lh_scenario_check(struct lh_scenario *scenario, struct lh_diag *diag);

/*
 * The part of it about what changes in time: resolves traces and which attributes events set,
 * and checks them. count: nodes by site. Faults go to diag.
 */
void lh_timeline_check(struct lh_scenario *scenario, const int64_t *count, struct lh_diag *diag);

/* Complains that name, at pos, is no site; not where the network could not be read. */
void lh_say_unknown_site(const struct lh_network *network, const char *name, struct lh_pos pos,
			 const char *key_path, struct lh_diag *diag);

/* Index of the site called name, or -1. */
int lh_site_find(const struct lh_network *network, const char *name);

/* Room for the nodes of one scenario: addresses, classes and probes are sized for it. */
enum { LH_NODES_MAX = 128 };

#endif
