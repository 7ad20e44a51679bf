/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce-scatter: each member sends each other its part of that one's share, directly, and finishes
 * its own. The first half of a butterfly, for methods that do something else with the shares.
 */
#include "trainer/collective/build.h"

static int scatter_make(const struct lh_collective_form *form, uint32_t self,
			struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	struct lh_collective_builder b;
	uint32_t n = form->n;
	int rc = lh_collective_begin(&b, form, self, LH_COLLECTIVE_REDUCE_SCATTER, n, err);

	if (rc)
		return rc;
	lh_collective_cut(&b, 0, n, 0, form->elements);
	lh_collective_phase(&b);
	for (uint32_t i = 1; i < n; i++)
		lh_collective_send(&b, (b.member + i) % n, (b.member + i) % n, 1);
	for (uint32_t m = 0; m < n; m++)
		if (m != b.member)
			lh_collective_reduce(&b, m, b.member, 1);
	lh_collective_finish(&b, b.member, 1);
	return lh_collective_end(&b, ret_plan, err);
}

const struct lh_collective_ops lh_collective_scatter_direct = {
	.name = "scatter-direct",
	.doc = "reduce-scatter, each to all others",
	.make = scatter_make,
};
