/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of the small scenario. For unit tests. */
#ifndef LH_TESTS_UNIT_PLAN_FIXTURE_H
#define LH_TESTS_UNIT_PLAN_FIXTURE_H

#include "emulator/plan.h"
#include "tests/unit/scenario_fixture.h"

enum { WIRE_BYTES = 1514, SEGMENT_BYTES = 1448 };

/* A plan and the scenario under it. */
struct planned {
	struct lh_scenario *sc;
	struct lh_plan *plan;
};

static inline struct planned plan_of(const struct lh_override *overrides, size_t n)
{
	struct planned p = {fixture_read_ok(small_scenario, overrides, n), NULL};
	struct lh_error err = {0};

	assert_int_equal(lh_plan_build(p.sc, &p.plan, &err), 0);
	return p;
}

static inline void planned_done(struct planned *p)
{
	lh_plan_free(p->plan);
	lh_scenario_free(p->sc);
}

/* Ranks of the small scenario. */
enum { EAST_0, EAST_1, WEST_0 };

/* The path from the first node of one site to the other, as changed; pointers in it hang. */
static inline struct lh_plan_path path_with(const struct lh_override *overrides, size_t n)
{
	struct planned p = plan_of(overrides, n);
	struct lh_plan_path path = *lh_plan_path_at(p.plan, EAST_0, WEST_0);

	planned_done(&p);
	return path;
}

#endif
