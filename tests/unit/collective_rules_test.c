/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives refuse, plans that do not fit together, and the shares of a butterfly. */
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"
#include "trainer/collective/interpret.h"

/* What the slowest sends for, in vectors over bandwidth. */
static double slowest(const double *bandwidths, const double *shares, uint32_t n)
{
	double most = 0;

	for (uint32_t i = 0; i < n; i++)
		if (bandwidths[i] > 0)
			most = fmax(most, (1 + (n - 2) * shares[i]) / bandwidths[i]);
	return most;
}

static void test_shares_let_the_slowest_end_soonest(void **state)
{
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "shares");
	for (int round = 0; round < 2000; round++) {
		uint32_t n = 2 + (uint32_t)lh_rng_below(&rng, 9);
		double bandwidths[10], shares[10], best, sum = 0;

		for (uint32_t i = 0; i < n; i++)
			bandwidths[i] =
				i && lh_rng_below(&rng, 4) == 0 ? 0 : exp(lh_rng_normal(&rng));
		assert_int_equal(lh_collective_shares(bandwidths, n, shares, NULL), 0);
		best = slowest(bandwidths, shares, n);
		for (uint32_t i = 0; i < n; i++) {
			sum += shares[i];
			assert_true(shares[i] >= 0 && (bandwidths[i] > 0 || shares[i] <= 0));
		}
		assert_near(sum, 1, 1e-12);
		/* no other shares are better: moving some from anyone to anyone */
		for (uint32_t from = 0; from < n; from++)
			for (uint32_t to = 0; to < n; to++) {
				double moved = fmin(0.01, shares[from]);
				double other[10];

				if (from == to || bandwidths[to] <= 0)
					continue;
				memcpy(other, shares, sizeof(other));
				other[from] -= moved;
				other[to] += moved;
				assert_true(slowest(bandwidths, other, n) >= best - 1e-12);
			}
	}
}

static void test_two_equal_bandwidths_share_equally(void **state)
{
	const double equal[] = {7, 7, 7, 7}, nobody[] = {0, 0}, bad[] = {1, -1};
	double shares[4];

	(void)state;
	assert_int_equal(lh_collective_shares(equal, 4, shares, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_near(shares[i], 0.25, 1e-15);
	assert_int_equal(lh_collective_shares(nobody, 2, shares, NULL), LH_EINPUT);
	assert_int_equal(lh_collective_shares(bad, 2, shares, NULL), LH_EINPUT);
}

static void test_what_does_not_fit_is_refused(void **state)
{
	static const uint32_t twice[] = {1, 1}, pair[] = {1, 2}, crossed[] = {0, 0, 1, 1},
			      above[] = {0, 1, 1, 0}, three[] = {3};
	static const struct lh_collective_level nested[] = {{crossed, LH_COLLECTIVE_AROUND},
							    {above, LH_COLLECTIVE_AROUND},
							    {NULL, LH_COLLECTIVE_AROUND}};
	static const struct {
		const struct lh_collective_ops *ops;
		struct lh_collective_form form;
		uint32_t self;
	} cases[] = {
		{&lh_collective_ring, {.n = 0}, 0},
		{&lh_collective_ring, {.n = LH_COLLECTIVE_MEMBERS_MAX + 1}, 0},
		{&lh_collective_ring, {.n = 2}, 2},
		{&lh_collective_ring, {.n = 2, .members = twice}, 1},
		{&lh_collective_ring, {.n = 2, .members = pair}, 0},
		{&lh_collective_ring, {.n = 2, .n_segments = LH_COLLECTIVE_SEGMENTS_MAX + 1}, 0},
		{&lh_collective_tree, {.n = 2, .n_segments = LH_COLLECTIVE_SEGMENTS_MAX + 1}, 0},
		{&lh_collective_torus, {.n = 4}, 0},
		{&lh_collective_torus, {.n = 4, .dimensions = three, .n_dimensions = 1}, 0},
		{&lh_collective_hierarchical, {.n = 4}, 0},
		{&lh_collective_hierarchical, {.n = 4, .levels = nested, .n_levels = 3}, 0},
		{&lh_collective_hierarchical, {.n = 4, .levels = nested, .n_levels = 1}, 0},
		{&lh_collective_gather_ring, {.n = 4}, 0},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_collective_plan plan;
		struct lh_error err = {0};

		assert_int_equal(cases[i].ops->make(&cases[i].form, cases[i].self, &plan, &err),
				 LH_EINPUT);
		assert_true(err.message[0]);
	}
}

/* Each breaks a rule somewhere in a member's plan. */
static void break_plan(struct lh_collective_plan *plan, int how, struct lh_rng *rng)
{
	struct lh_collective_move *send = &plan->sends[lh_rng_below(rng, plan->n_sends)];
	struct lh_collective_move *receive = &plan->receives[lh_rng_below(rng, plan->n_receives)];

	switch (how) {
	case 0:
		send->first_chunk += send->first_chunk ? -1U : 1;
		break;
	case 1:
		send->peer = plan->self;
		break;
	case 2:
		receive->peer = 1 << 20;
		break;
	case 3:
		receive->is_reduced = !receive->is_reduced;
		break;
	case 4: /* finishes nothing; of a ring each member has a chunk */
		for (uint32_t p = 0; p < plan->n_phases; p++)
			plan->phases[p].n_finished = 0;
		break;
	case 5: /* finishes all at once */
		plan->phases[0].first_finished = 0;
		plan->phases[0].n_finished = plan->n_chunks;
		break;
	case 6:
		plan->phases[plan->n_phases - 1].n_sends = 0;
		break;
	case 7:
		plan->n_receives--;
		break;
	case 8:
		plan->at[1]++;
		break;
	case 9:
		plan->self = plan->self ? 0 : 1;
		break;
	case 10: /* what is received last is sent first */
		*plan->sends = plan->sends[plan->n_sends - 1];
		break;
	default:
		plan->kind = LH_COLLECTIVE_REDUCE_SCATTER;
	}
}

static void test_plans_that_do_not_fit_are_found(void **state)
{
	const struct lh_collective_ops *const all[] = {&lh_collective_ring,
						       &lh_collective_butterfly};
	const struct lh_collective_form form = {.elements = 500, .n = 5};
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "broken");
	for (size_t i = 0; i < N_ELEMENTS(all); i++)
		for (int how = 0; how <= 11; how++)
			for (int round = 0; round < 20; round++) {
				struct lh_collective_program *program;
				struct lh_collective_plan *plans;
				struct lh_error err = {0};

				assert_int_equal(
					lh_collective_plans_make(all[i], &form, &plans, NULL), 0);
				break_plan(&plans[lh_rng_below(&rng, 5)], how, &rng);
				if (lh_collective_program_build(plans, 5, &program, &err) !=
				    LH_EINPUT)
					fail_msg("%s, broken by %d, is accepted", all[i]->name,
						 how);
				assert_true(err.message[0]);
				lh_collective_plans_free(plans, 5);
			}
}

/* Two members that each send only what the other has finished: nobody begins. */
static void test_waiting_for_each_other_is_found(void **state)
{
	const struct lh_collective_form form = {.elements = 2, .n = 2};
	struct lh_collective_program *program;
	struct lh_collective_plan *plans;
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_collective_plans_make(&lh_collective_butterfly, &form, &plans, NULL),
			 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct lh_collective_move first = plans[i].sends[0];

		plans[i].sends[0] = plans[i].sends[1];
		plans[i].sends[1] = first;
		first = plans[i].receives[0];
		plans[i].receives[0] = plans[i].receives[1];
		plans[i].receives[1] = first;
		plans[i].phases[0].n_finished = 0;
	}
	assert_int_equal(lh_collective_program_build(plans, 2, &program, &err), LH_EINPUT);
	lh_collective_plans_free(plans, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares_let_the_slowest_end_soonest),
		cmocka_unit_test(test_two_equal_bandwidths_share_equally),
		cmocka_unit_test(test_what_does_not_fit_is_refused),
		cmocka_unit_test(test_plans_that_do_not_fit_are_found),
		cmocka_unit_test(test_waiting_for_each_other_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
