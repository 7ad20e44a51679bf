/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gathers of blocks of any sizes, one a member: what sparse methods exchange. `gather-ring`:
 * each block travels once around; `gather-direct`: each member sends its block to all others.
 * Either way every member receives all blocks but its own.
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
 * MPICH", 2005 (ring); the direct one is plain.
 */
#include <errno.h>

#include "trainer/collective/build.h"

/* A chunk for each member's block, which is finished at once. */
static int begin(struct lh_collective_builder *b, const struct lh_collective_form *form,
		 uint32_t self, struct lh_error *err)
{
	int rc;

	if (!form->block_elements)
		return lh_fail(err, LH_EINPUT, 0, "an all-gather needs the blocks' sizes");
	rc = lh_collective_begin(b, form, self, LH_COLLECTIVE_ALL_GATHER, form->n, err);
	if (rc)
		return rc;
	for (uint32_t m = 0; m < form->n; m++) {
		if (form->block_elements[m] > UINT64_MAX - b->plan.at[m]) {
			lh_collective_plan_done(&b->plan);
			return lh_fail(err, LH_EINPUT, 0, "blocks of more than 2^64 elements");
		}
		b->plan.at[m + 1] = b->plan.at[m] + form->block_elements[m];
	}
	lh_collective_phase(b);
	lh_collective_finish(b, b->member, 1);
	return 0;
}

static int ring_make(const struct lh_collective_form *form, uint32_t self,
		     struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	struct lh_collective_builder b;
	uint32_t n = form->n;
	int rc = begin(&b, form, self, err);

	if (rc)
		return rc;
	for (uint32_t step = 0; step + 1 < n; step++) {
		lh_collective_phase(&b);
		lh_collective_send(&b, (b.member + 1) % n, (b.member + n - step) % n, 1);
		lh_collective_copy(&b, (b.member + n - 1) % n, (b.member + n - 1 - step) % n, 1);
	}
	return lh_collective_end(&b, ret_plan, err);
}

static int direct_make(const struct lh_collective_form *form, uint32_t self,
		       struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	struct lh_collective_builder b;
	uint32_t n = form->n;
	int rc = begin(&b, form, self, err);

	if (rc)
		return rc;
	lh_collective_phase(&b);
	for (uint32_t i = 1; i < n; i++)
		lh_collective_send(&b, (b.member + i) % n, b.member, 1);
	for (uint32_t m = 0; m < n; m++)
		if (m != b.member)
			lh_collective_copy(&b, m, m, 1);
	return lh_collective_end(&b, ret_plan, err);
}

const struct lh_collective_ops lh_collective_gather_ring = {
	.name = "gather-ring",
	.doc = "all-gather of blocks around a ring",
	.make = ring_make,
};

const struct lh_collective_ops lh_collective_gather_direct = {
	.name = "gather-direct",
	.doc = "all-gather of blocks, each to all others",
	.make = direct_make,
};
