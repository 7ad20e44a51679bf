/* SPDX-License-Identifier: Apache-2.0 */
/* All members of a collective in one process, with messages that come in a random order. */
#ifndef LH_TESTS_UNIT_COLLECTIVE_WORLD_H
#define LH_TESTS_UNIT_COLLECTIVE_WORLD_H

#include "core/rng.h"
#include "trainer/collective/interpret.h"
#include "trainer/collective/numbers.h"

struct world {
	const struct lh_collective_form *form;
	const struct lh_codec_ops *codec;
	struct lh_collective_plan *plans;
	struct lh_collective_program *program;
	struct lh_collective_slices slices;
	struct lh_collective_numbers **numbers;
	float **values;	      /* by member; as they began */
	float **results;      /* by member */
	uint64_t *sent_bytes; /* by member */
};

/* Plans that fit together, and numbers in [-1, 1) for everyone; fails the test otherwise. */
void world_open(struct world *world, const struct lh_collective_ops *ops,
		const struct lh_collective_form *form, const struct lh_codec_ops *codec,
		uint64_t seed);

/* Runs all members until nothing moves any more; every message comes after all that its pair sent
 * before, else in an order drawn from rng. Fails the test unless all are done. */
void world_run(struct world *world, struct lh_rng *rng);

void world_close(struct world *world);

#endif
