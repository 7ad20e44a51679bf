/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which packets run.capture names. The same words stand in YAML and on the command line:
 *   all      every node's link
 *   SITE/N   one node's link
 *   A,B      between two sites or nodes, at the links of both; A,A: inside a site
 */
#ifndef LH_SCENARIOS_CAPTURE_H
#define LH_SCENARIOS_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "scenarios/scenario.h"

enum lh_capture_extent {
	LH_CAPTURE_NOTHING,
	LH_CAPTURE_PEERS, /* what is exchanged with some nodes */
	LH_CAPTURE_EVERYTHING,
};

/* What is captured at the link of a node of a resolved scenario. ret_peers, n_nodes long, says with
 * which nodes where LH_CAPTURE_PEERS is returned. */
enum lh_capture_extent lh_capture_extent_at(const struct lh_scenario *scenario, size_t node,
					    bool *ret_peers);

/* Complains about words that name nothing. */
void lh_capture_check(const struct lh_scenario *scenario, struct lh_diag *diag);

#endif
