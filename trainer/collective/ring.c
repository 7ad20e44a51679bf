/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective `ring`. Member i sends to member i + 1 alone. The vector is cut into n shards; in n -
 * 1 steps each travels once around and is added to at every member (reduce-scatter), in n - 1 more
 * the finished shards travel around (all-gather). A member sends 2 (n - 1)/n of the vector, give or
 * take shards of unequal size. A step needs what the step before has brought.
 *
 * A shard of several segments is passed on segment by segment: while one is under way the next
 * leaves, so that the links' delays and their serialisation overlap.
 *
 * Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
 * 2009.
 */
#include <inttypes.h>

#include "trainer/collective/build.h"
#include "trainer/strategy/shard.h"

static int check_segments(const struct lh_collective_form *form, struct lh_error *err)
{
	if (form->n_segments > LH_COLLECTIVE_SEGMENTS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " segments; expected 1 to %d",
			       form->n_segments, LH_COLLECTIVE_SEGMENTS_MAX);
	return 0;
}

/* The shard that member sends in a step. The all-gather begins with what the reduce-scatter ended
 * with, one further. */
static uint32_t shard_of(uint32_t n, uint32_t member, uint32_t step)
{
	return step < n - 1 ? (member + n - step) % n : (member + 1 + n - (step - (n - 1))) % n;
}

static void step_segment(struct lh_collective_builder *b, uint32_t n, uint32_t step,
			 uint32_t n_segments, uint32_t segment)
{
	uint32_t next = (b->member + 1) % n, previous = (b->member + n - 1) % n;
	uint32_t coming = shard_of(n, previous, step) * n_segments + segment;

	lh_collective_phase(b);
	lh_collective_send(b, next, shard_of(n, b->member, step) * n_segments + segment, 1);
	if (step >= n - 1) {
		lh_collective_copy(b, previous, coming, 1);
		return;
	}
	lh_collective_reduce(b, previous, coming, 1);
	if (step == n - 2)
		lh_collective_finish(b, coming, 1);
}

static int ring_make(const struct lh_collective_form *form, uint32_t self,
		     struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	uint32_t n = form->n, n_segments = form->n_segments ? form->n_segments : 1;
	struct lh_collective_builder b;
	uint64_t at = 0;
	int rc = check_segments(form, err);

	if (rc || (rc = lh_collective_begin(&b, form, self, LH_COLLECTIVE_ALL_REDUCE,
					    n * n_segments, err)))
		return rc;
	for (uint32_t shard = 0; shard < n; shard++) {
		uint64_t end = at + lh_shard_elements(form->elements, n, shard);

		lh_collective_cut(&b, shard * n_segments, n_segments, at, end);
		at = end;
	}
	if (n == 1) {
		lh_collective_phase(&b);
		lh_collective_finish(&b, 0, n_segments);
	}
	for (uint32_t step = 0; n > 1 && step < 2 * (n - 1); step++)
		for (uint32_t segment = 0; segment < n_segments; segment++)
			step_segment(&b, n, step, n_segments, segment);
	return lh_collective_end(&b, ret_plan, err);
}

const struct lh_collective_ops lh_collective_ring = {
	.name = "ring",
	.doc = "all-reduce around a ring, as data-parallel training does it",
	.make = ring_make,
};
