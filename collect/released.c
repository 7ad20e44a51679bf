/* SPDX-License-Identifier: Apache-2.0 */
/* Released nodes. See released.h. */
#include "collect/released.h"

#include <stdio.h>
#include <string.h>

static const struct lh_column columns_of_released[] = {
	{"node", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"site", NULL, LH_CELL_TEXT, 0, 0, 2},
	{"machine", NULL, LH_CELL_TEXT, 0, 0, 1},
	{"spot_usd_micro", "spot micro-USD", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"on_demand_usd_micro", "on-demand micro-USD", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
};

/* What a node would have cost, in micro-dollars; -1: there is no price. */
static int64_t cost_of(const struct lh_scenario *sc, const struct lh_node *node, int scope,
		       int64_t wall_ns)
{
	const struct lh_vm_price *vm =
		sc->pricing.catalog.name
			? lh_vm_price_find(&sc->pricing.catalog, node->machine->name,
					   sc->network.sites[node->site].name)
			: NULL;
	int64_t per_hour = -1;

	if (vm)
		per_hour = scope == LH_VM_SPOT ? vm->spot_usd_micro_per_h
					       : vm->on_demand_usd_micro_per_h;
	return per_hour < 0 ? -1 : lh_cost_of_time(per_hour, wall_ns);
}

static void put_row(struct lh_table *table, const struct lh_scenario *sc,
		    const struct lh_node *node, int64_t wall_ns)
{
	lh_table_row(table);
	lh_table_put_text(table, node->name);
	lh_table_put_text(table, sc->network.sites[node->site].name);
	lh_table_put_text(table, node->machine->name);
	for (int scope = 0; scope < LH_N_COST_SCOPES; scope++) {
		int64_t usd_micro = cost_of(sc, node, scope, wall_ns);

		if (usd_micro < 0)
			lh_table_skip(table);
		else
			lh_table_put_int(table, usd_micro);
	}
}

/* What all of them would have cost; -1 where a price is missing. */
static int64_t add_up(const struct lh_scenario *sc, int scope, int64_t wall_ns)
{
	int64_t sum = 0;

	for (size_t i = 0; i < sc->n_released; i++) {
		int64_t usd_micro = cost_of(sc, &sc->released[i], scope, wall_ns);

		if (usd_micro < 0)
			return -1;
		sum += usd_micro;
	}
	return sum;
}

void lh_released_compute(const struct lh_scenario *sc, int64_t wall_ns, const struct lh_cost *cost,
			 struct lh_table *ret_table, struct lh_notes *notes)
{
	const struct lh_cost_sum *kept = &cost->scopes[sc->pricing.vm];
	int64_t released = add_up(sc, sc->pricing.vm, wall_ns);
	double with = (double)kept->vm_usd_micro, without = with + (double)released;

	lh_table_init(ret_table, columns_of_released,
		      sizeof(columns_of_released) / sizeof(columns_of_released[0]));
	for (size_t i = 0; i < sc->n_released; i++)
		put_row(ret_table, sc, &sc->released[i], wall_ns);
	if (!sc->workload.strategy.elastic)
		return;
	if (!kept->is_complete || released < 0 || without <= 0)
		lh_notes_add(notes, "elastic: %zu of %zu nodes were released", sc->n_released,
			     sc->n_nodes + sc->n_released);
	else
		lh_notes_add(
			notes,
			"elastic: %zu of %zu nodes were released: VMs cost %.4f USD, %.4f with "
			"them (%s): %.1f %% less",
			sc->n_released, sc->n_nodes + sc->n_released, with * 1e-6, without * 1e-6,
			lh_cost_scope_name(sc->pricing.vm), 100 * (1 - with / without));
}
