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

/* Room for the nodes of one scenario, and for the ranks in them: addresses, classes and probes are
 * sized for it. */
enum { LH_NODES_MAX = 256, LH_RANKS_MAX = 512 };

#endif
