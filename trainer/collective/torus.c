/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective `torus`: members on a grid of two or more dimensions. Rings along the first dimension
 * reduce and scatter the vector, rings along each further dimension what the one before has left;
 * then it is gathered back the same way. 2 (sum of (d - 1)) delays in place of a ring's 2 (n - 1),
 * and as many bytes.
 *
 * Source: Mikami and others, "Massively distributed SGD: ImageNet/ResNet-50 training in a flash",
 * arXiv 1811.05233 (2D-torus all-reduce).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "trainer/collective/levels.h"

static int check_dimensions(const struct lh_collective_form *form, struct lh_error *err)
{
	uint64_t product = 1;

	if (!form->dimensions || form->n_dimensions < 1 ||
	    form->n_dimensions > LH_COLLECTIVE_LEVELS_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "a torus of %" PRIu32 " dimensions; expected 1 to %d",
			       form->dimensions ? form->n_dimensions : 0, LH_COLLECTIVE_LEVELS_MAX);
	for (uint32_t d = 0; d < form->n_dimensions && product <= form->n; d++)
		product *= form->dimensions[d];
	if (product != form->n)
		return lh_fail(err, LH_EINPUT, 0,
			       "the dimensions' product is not %" PRIu32 ", the number of members",
			       form->n);
	return 0;
}

static int torus_make(const struct lh_collective_form *form, uint32_t self,
		      struct lh_collective_plan *ret_plan, struct lh_error *err)
{
	struct lh_collective_level levels[LH_COLLECTIVE_LEVELS_MAX];
	lh_cleanup_free uint32_t *group_of = NULL;
	uint32_t below = 1; /* members in a group of the level */
	int rc = check_dimensions(form, err);

	if (rc)
		return rc;
	group_of = calloc((size_t)form->n * form->n_dimensions, sizeof(*group_of));
	if (!group_of)
		return lh_fail(err, LH_ESYS, ENOMEM, "plan a torus");
	for (uint32_t d = 0; d < form->n_dimensions; d++) {
		uint32_t *of = group_of + (size_t)d * form->n;

		below *= form->dimensions[d];
		for (uint32_t m = 0; m < form->n; m++)
			of[m] = m / below;
		levels[d] = (struct lh_collective_level){of, LH_COLLECTIVE_AROUND};
	}
	return lh_collective_make_levels(form, levels, form->n_dimensions, self, ret_plan, err);
}

const struct lh_collective_ops lh_collective_torus = {
	.name = "torus",
	.doc = "rings along the dimensions of a grid",
	.make = torus_make,
};
