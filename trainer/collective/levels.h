/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchies of groups: what `hierarchical` and `torus` are made of. Inside a group of the lowest
 * level the vector is reduced and scattered; then what members of several groups own is reduced and
 * scattered between them, level by level; at the top every part is complete at one member. The
 * parts are gathered the same way back.
 *
 * Groups need not be of equal size. A level joins groups, each of which has cut the vector in its
 * own way among its members; wherever one of these cuts lies, the level cuts, too. Between two cuts
 * (a "cell") each group has one owner, and these owners share it. With groups of equal size the
 * cells are the groups' own parts, and the owners the members of equal local rank.
 */
#ifndef LH_TRAINER_COLLECTIVE_LEVELS_H
#define LH_TRAINER_COLLECTIVE_LEVELS_H

#include "trainer/collective/plan.h"

/* Makes the plan for form->n members by levels, innermost first; the last has all members in one
 * group. LH_EINPUT where a group of a level is not inside one of the next. LH_ESYS. */
int lh_collective_make_levels(const struct lh_collective_form *form,
			      const struct lh_collective_level *levels, uint32_t n_levels,
			      uint32_t self, struct lh_collective_plan *ret_plan,
			      struct lh_error *err);

#endif
