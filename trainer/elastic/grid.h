/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moshpit's grid: peers with coordinates, of which those that agree in all but one form a group;
 * after a round a peer's index in its group is its new coordinate there, so that the next axis
 * brings other peers together. Pure functions.
 *
 * Source: Moshpit SGD, arXiv 2103.03239, algorithm 1 (the group's key is the last d - 1 indices;
 * here the coordinate that the key leaves out is the axis of the round).
 */
#ifndef LH_TRAINER_ELASTIC_GRID_H
#define LH_TRAINER_ELASTIC_GRID_H

#include <stdint.h>

#include "trainer/strategy/settings.h"

/* Where a peer stands. */
struct lh_grid_place {
	uint32_t at[LH_STRATEGY_DIMENSIONS_MAX];
};

/* Places the index-th peer: mixed radix, the first dimension running fastest. index is below the
 * dimensions' product. */
void lh_grid_place_init(struct lh_grid_place *place, uint32_t index, const uint32_t *dimensions,
			uint32_t n_dimensions);

/* The axis of a round. */
static inline uint32_t lh_grid_axis(uint32_t round, uint32_t n_dimensions)
{
	return round % n_dimensions;
}

/* Groups of n peers along an axis, numbered from 0 in the order of their first members. */
void lh_grid_group(const struct lh_grid_place *const *places, uint32_t n, uint32_t n_dimensions,
		   uint32_t axis, uint32_t *ret_groups);

/* After a round: each peer's index in its group becomes its coordinate along the axis. */
void lh_grid_move(struct lh_grid_place *const *places, uint32_t n, const uint32_t *groups,
		  uint32_t axis);

#endif
