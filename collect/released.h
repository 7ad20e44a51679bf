/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that an elastic strategy did without, and what they would have cost. */
#ifndef LH_COLLECT_RELEASED_H
#define LH_COLLECT_RELEASED_H

#include "collect/cost.h"
#include "collect/notes.h"
#include "collect/table.h"
#include "scenarios/scenario.h"

/*
 * Fills *ret_table (released.csv): a row for each released node with what it would have cost over
 * wall_ns, in micro-dollars, where there is a price; and says in notes what was released and, by
 * the prices that summaries use, what VMs cost with and without. *ret_table is the caller's, with
 * no rows where nothing was released.
 */
void lh_released_compute(const struct lh_scenario *sc, int64_t wall_ns, const struct lh_cost *cost,
			 struct lh_table *ret_table, struct lh_notes *notes);

#endif
