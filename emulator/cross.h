/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross traffic: what others send through a path's or a site's bottleneck. A process of the
 * engine sends UDP packets before the bottleneck, in flows that begin by chance (Poisson), have
 * sizes by chance (exponential) and one rate each, and do not react to losses. They are taken out
 * behind the bottleneck and counted, and never reach a program.
 */
#ifndef LH_EMULATOR_CROSS_H
#define LH_EMULATOR_CROSS_H

#include <jansson.h>

#include "emulator/network.h"

struct lh_cross;

/* Starts the cross traffic of a network, if its plan has any; *ret_cross is NULL otherwise. It
 * depends on the scenario's seed alone. Main thread only. */
int lh_cross_start(struct lh_net *net, const struct lh_plan *plan, struct lh_cross **ret_cross,
		   struct lh_error *err);

/* Ends it; what it sent can still be read. */
void lh_cross_stop(struct lh_cross *cross);
void lh_cross_free(struct lh_cross *cross);

/* What it has sent so far and what of it has passed (cross_traffic of engine.json); owned by the
 * caller. An empty list where cross is NULL. */
json_t *lh_cross_to_json(const struct lh_cross *cross);

#endif
