/* SPDX-License-Identifier: Apache-2.0 */
/* Moshpit's grid. See grid.h. */
#include "trainer/elastic/grid.h"

#include <stdbool.h>

void lh_grid_place_init(struct lh_grid_place *place, uint32_t index, const uint32_t *dimensions,
			uint32_t n_dimensions)
{
	*place = (struct lh_grid_place){0};
	for (uint32_t d = 0; d < n_dimensions; d++) {
		place->at[d] = index % dimensions[d];
		index /= dimensions[d];
	}
}

static bool agree(const struct lh_grid_place *a, const struct lh_grid_place *b,
		  uint32_t n_dimensions, uint32_t axis)
{
	for (uint32_t d = 0; d < n_dimensions; d++)
		if (d != axis && a->at[d] != b->at[d])
			return false;
	return true;
}

void lh_grid_group(const struct lh_grid_place *const *places, uint32_t n, uint32_t n_dimensions,
		   uint32_t axis, uint32_t *ret_groups)
{
	uint32_t n_groups = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = 0;

		while (j < i && !agree(places[i], places[j], n_dimensions, axis))
			j++;
		ret_groups[i] = j < i ? ret_groups[j] : n_groups++;
	}
}

void lh_grid_move(struct lh_grid_place *const *places, uint32_t n, const uint32_t *groups,
		  uint32_t axis)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = 0;

		for (uint32_t j = 0; j < i; j++)
			index += groups[j] == groups[i];
		places[i]->at[axis] = index;
	}
}
