/* SPDX-License-Identifier: Apache-2.0 */
/* The outer optimizer and fragments against what is worked out by hand; the helper beside. */
#include "trainer/strategy/outer.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/test.h"
#include "trainer/strategy/beside.h"
#include "trainer/strategy/fragments.h"

/* lr 0.7, momentum 0.9, start 1, gradients 1/2, 1/4, -1:
 *   v = 0.5                  way 0.5 + 0.45 = 0.95             start 1 - 0.665 = 0.335
 *   v = 0.45 + 0.25 = 0.7    way 0.25 + 0.63 = 0.88            start 0.335 - 0.616 = -0.281
 *   v = 0.63 - 1 = -0.37     way -1 - 0.333 = -1.333           start -0.281 + 0.9331 = 0.6521 */
static void test_nesterov_steps_as_worked_out_by_hand(void **state)
{
	static const float gradients[] = {0.5f, 0.25f, -1.0f};
	static const double expected[] = {0.335, -0.281, 0.6521};
	float start = 1, velocity = 0;
	struct lh_outer outer = {1, &start, &velocity, 0.7, 0.9};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(gradients); i++) {
		lh_outer_step(&outer, &gradients[i]);
		assert_near(start, expected[i], 1e-7);
	}
	assert_near(velocity, -0.37, 1e-7);
}

static void test_without_momentum_the_step_is_the_mean(void **state)
{
	float start[] = {1, -2, 0.1f}, weights[] = {0.25f, -2, 0.3f}, gradient[3],
	      own[3] = {9, 9, 9};
	struct lh_outer outer = {3, start, NULL, 1, 0};

	(void)state;
	lh_outer_take(&outer, weights, gradient);
	assert_near(gradient[0], 0.75, 0);
	lh_outer_step(&outer, gradient);
	lh_outer_merge(&outer, 0, own);
	for (size_t i = 0; i < 3; i++)
		assert_near(own[i], weights[i], 1e-8);
	own[0] = 1.25f;
	lh_outer_merge(&outer, 0.25, own);
	assert_near(own[0], 0.25 * 1.25 + 0.75 * 0.25, 1e-8);
}

static void test_fragments_are_parts_of_the_whole(void **state)
{
	struct lh_fragments f;
	struct lh_error err = {0};
	float flat[11], values[11], back[11] = {0};
	uint64_t n = 0;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(flat); i++)
		flat[i] = (float)i + 1;
	assert_int_equal(lh_fragments_cut(11, 4, NULL, 0, &f, &err), 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(f.fragments[i].n == 2 || f.fragments[i].n == 3);
		n += f.fragments[i].n;
		lh_fragment_gather(&f.fragments[i], flat, values);
		lh_fragment_scatter(&f.fragments[i], values, back);
	}
	assert_true(n == 11);
	assert_memory_equal(flat, back, sizeof(flat));
	lh_fragments_done(&f);
	assert_int_equal(lh_fragments_cut(3, 4, NULL, 0, &f, &err), LH_EINPUT);
}

/* Layers of 3, 1, 2, 4 and 2 values, the last not where they follow one another; two fragments: the
 * first has layers 0, 2 and of 4 the first value, the second the rest of it, 1 and 3. */
static void test_fragments_take_layers_in_strides_and_are_as_long(void **state)
{
	static const struct lh_layer_run layers[] = {{{0, 2}, 0}, {{10, 1}, 0}, {{2, 1}, 1},
						     {{3, 2}, 2}, {{5, 4}, 3},	{{9, 1}, 4},
						     {{11, 1}, 4}};
	static const float expected[2][6] = {{0, 1, 10, 3, 4, 9}, {11, 2, 5, 6, 7, 8}};
	struct lh_fragments f;
	struct lh_error err = {0};
	float flat[12], values[12];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(flat); i++)
		flat[i] = (float)i;
	assert_int_equal(lh_fragments_cut(12, 2, layers, N_ELEMENTS(layers), &f, &err), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(f.fragments[i].n == 6);
		lh_fragment_gather(&f.fragments[i], flat, values);
		assert_memory_equal(values, expected[i], sizeof(expected[i]));
	}
	lh_fragments_done(&f);
	/* one layer is cut in the middle */
	assert_int_equal(lh_fragments_cut(12, 5, layers, N_ELEMENTS(layers), &f, &err), 0);
	for (uint32_t i = 0; i < 5; i++) {
		float back[12] = {0};

		assert_true(f.fragments[i].n == (i < 2 ? 3 : 2));
		lh_fragment_gather(&f.fragments[i], flat, values);
		lh_fragment_scatter(&f.fragments[i], values, back);
		for (uint64_t j = 0; j < f.fragments[i].n; j++)
			assert_true(back[(size_t)values[j]] == values[j]);
	}
	lh_fragments_done(&f);
}

static void test_every_fragment_has_its_turn_once_in_a_period(void **state)
{
	(void)state;
	for (uint32_t period = 1; period <= 9; period++)
		for (uint32_t n = 1; n <= period; n++)
			for (uint32_t i = 0; i < n; i++) {
				uint32_t turns = 0, in_epoch = 0;

				for (uint32_t epoch = 0; epoch < 3 * period; epoch++)
					turns += lh_fragment_is_due(i, n, period, epoch);
				assert_int_equal(turns, 3);
				for (uint32_t j = 0; j < n; j++)
					in_epoch +=
						lh_fragment_is_due(j, n, period, 2 * period + i);
				assert_true(in_epoch <= 1);
			}
	assert_true(lh_fragment_is_due(0, 3, 6, 5));
	assert_true(lh_fragment_is_due(1, 3, 6, 1));
	assert_true(lh_fragment_is_due(2, 3, 6, 3));
}

static int add_digit(void *arg, struct lh_error *err)
{
	int *digits = arg;

	if (digits[0] < 0)
		return lh_fail(err, LH_ERUN, 0, "a digit below 0");
	digits[1] = digits[0] + 1;
	return 0;
}

static void test_tasks_are_done_in_order_until_one_fails(void **state)
{
	int digits[4][2] = {{1, 0}, {2, 0}, {-1, 0}, {4, 0}};
	struct lh_beside_task tasks[4];
	struct lh_beside *beside = NULL;
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_beside_open(&beside, &err), 0);
	for (int i = 0; i < 4; i++)
		tasks[i] = (struct lh_beside_task){.run = add_digit, .arg = digits[i]};
	lh_beside_post(beside, &tasks[0]);
	lh_beside_post(beside, &tasks[1]);
	assert_int_equal(lh_beside_wait(beside, &tasks[1], INT64_MAX, &err), 0);
	assert_true(lh_beside_has_ended(beside, &tasks[0]));
	assert_int_equal(digits[0][1] * 10 + digits[1][1], 23);
	assert_true(tasks[0].end_ns <= tasks[1].end_ns);
	assert_int_equal(lh_beside_check(beside, &err), 0);
	lh_beside_post(beside, &tasks[2]);
	lh_beside_post(beside, &tasks[3]);
	assert_int_equal(lh_beside_wait(beside, &tasks[3], INT64_MAX, &err), LH_ERUN);
	assert_string_equal(err.message, "a digit below 0");
	assert_int_equal(digits[3][1], 0);
	assert_int_equal(lh_beside_check(beside, &err), LH_ERUN);
	lh_beside_close(beside);
	lh_beside_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesterov_steps_as_worked_out_by_hand),
		cmocka_unit_test(test_without_momentum_the_step_is_the_mean),
		cmocka_unit_test(test_fragments_are_parts_of_the_whole),
		cmocka_unit_test(test_fragments_take_layers_in_strides_and_are_as_long),
		cmocka_unit_test(test_every_fragment_has_its_turn_once_in_a_period),
		cmocka_unit_test(test_tasks_are_done_in_order_until_one_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
