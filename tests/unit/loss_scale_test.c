/* SPDX-License-Identifier: Apache-2.0 */
/* Loss scales that grow, shrink and end. */
#include "trainer/optim/loss_scale.h"

#include "tests/unit/test.h"

static void update_n(struct lh_loss_scale *scale, bool is_finite, int n)
{
	while (n-- > 0)
		assert_true(lh_loss_scale_update(scale, is_finite));
}

static void test_it_doubles_after_enough_good_steps_in_a_row(void **state)
{
	struct lh_loss_scale scale;

	(void)state;
	lh_loss_scale_init(&scale);
	update_n(&scale, true, 1999);
	assert_near(scale.scale, 65536, 0);
	update_n(&scale, true, 1);
	assert_near(scale.scale, 131072, 0);
	update_n(&scale, true, 1999);
	assert_near(scale.scale, 131072, 0);
	update_n(&scale, false, 1);
	assert_near(scale.scale, 65536, 0);
	/* one bad step begins the row anew */
	update_n(&scale, true, 1999);
	assert_near(scale.scale, 65536, 0);
	update_n(&scale, true, 1);
	assert_near(scale.scale, 131072, 0);
	assert_true(scale.skipped_steps == 1);
}

static void test_it_stays_within_its_bounds(void **state)
{
	struct lh_loss_scale scale;

	(void)state;
	lh_loss_scale_init(&scale);
	update_n(&scale, true, 2000 * 40);
	assert_near(scale.scale, 16777216, 0);
	update_n(&scale, false, 24);
	assert_near(scale.scale, 1, 0);
	assert_false(lh_loss_scale_update(&scale, false));
	assert_near(scale.scale, 1, 0);
	assert_true(scale.skipped_steps == 25);
	update_n(&scale, true, 2000);
	assert_near(scale.scale, 2, 0);
}

static void test_none_is_one_for_good(void **state)
{
	struct lh_loss_scale scale;

	(void)state;
	lh_loss_scale_init_none(&scale);
	update_n(&scale, true, 100000);
	assert_near(scale.scale, 1, 0);
	assert_false(lh_loss_scale_update(&scale, false));
	assert_near(scale.scale, 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_doubles_after_enough_good_steps_in_a_row),
		cmocka_unit_test(test_it_stays_within_its_bounds),
		cmocka_unit_test(test_none_is_one_for_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
