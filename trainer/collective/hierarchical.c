/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective `hierarchical`: reduce-scatter inside the smallest groups (nodes), all-reduce of every
 * part between them (across the site, then across sites), all-gather inside. What crosses the outer
 * level is one vector's worth of sums per group, whatever its size. See levels.h.
 *
 * Source: the scheme of NCCL's and Horovod's hierarchical all-reduces; for groups of equal size it
 * is that of torus.c.
 */
#include "trainer/collective/levels.h"

static int hierarchical_make(const struct lh_collective_form *form, uint32_t self,
			     struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	if (!form->levels)
		return lh_fail(err, LH_EINPUT, 0, "a hierarchy needs levels");
	return lh_collective_make_levels(form, form->levels, form->n_levels, self, ret_plan, err);
}

const struct lh_collective_ops lh_collective_hierarchical = {
	.name = "hierarchical",
	.doc = "inside the node, inside the site, across sites",
	.make = hierarchical_make,
};
