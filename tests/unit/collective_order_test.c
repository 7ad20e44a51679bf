/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a ring: against all orders, and against what is known to be best. */
#include "trainer/collective/order.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

enum { N_MAX = 256 };

static double round_trip(const double *costs, uint32_t n, const uint32_t *order)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += costs[order[i] * n + order[(i + 1) % n]];
	return n > 1 ? sum : 0;
}

/* All orders of places k and on. */
static double best_of_all(const double *costs, uint32_t n, uint32_t *order, uint32_t k)
{
	double best = k >= n ? round_trip(costs, n, order) : INFINITY;

	for (uint32_t i = k; i < n; i++) {
		uint32_t kept = order[k];

		order[k] = order[i];
		order[i] = kept;
		best = fmin(best, best_of_all(costs, n, order, k + 1));
		order[i] = order[k];
		order[k] = kept;
	}
	return best;
}

static void draw(struct lh_rng *rng, double *costs, uint32_t n)
{
	for (uint32_t i = 0; i < n * n; i++)
		costs[i] = lh_rng_uniform(rng);
}

static double find(const double *costs, uint32_t n, uint32_t *order)
{
	bool is_there[N_MAX] = {false};
	double cost;

	assert_int_equal(lh_collective_order(costs, n, 1, order, &cost, NULL), 0);
	assert_int_equal(order[0], 0);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(order[i] < n && !is_there[order[i]]);
		is_there[order[i]] = true;
	}
	assert_near(cost, round_trip(costs, n, order), 1e-9);
	return cost;
}

static void test_up_to_eight_are_exact(void **state)
{
	double costs[64];
	uint32_t order[8], all[8];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "order");
	for (uint32_t n = 1; n <= 8; n++)
		for (int round = 0; round < (n < 8 ? 20 : 5); round++) {
			draw(&rng, costs, n);
			for (uint32_t i = 0; i < n; i++)
				all[i] = i;
			assert_near(find(costs, n, order), best_of_all(costs, n, all, 1), 1e-12);
		}
}

/* A hidden cheap ring among dear links. */
static void test_a_hidden_ring_is_found(void **state)
{
	static const uint32_t sizes[] = {9, 12, 13, 20, 40, 64};
	double *costs = calloc(64 * 64, sizeof(*costs));
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 2, "hidden");
	for (size_t k = 0; k < N_ELEMENTS(sizes); k++) {
		uint32_t n = sizes[k], order[64], hidden[64];

		for (uint32_t i = 0; i < n * n; i++)
			costs[i] = 10 + lh_rng_uniform(&rng);
		for (uint32_t i = 0; i < n; i++)
			hidden[i] = i;
		for (uint32_t i = n - 1; i > 1; i--) {
			uint32_t j = 1 + (uint32_t)lh_rng_below(&rng, i), kept = hidden[i];

			hidden[i] = hidden[j];
			hidden[j] = kept;
		}
		for (uint32_t i = 0; i < n; i++)
			costs[hidden[i] * n + hidden[(i + 1) % n]] = 1;
		assert_near(find(costs, n, order), n, 1e-9);
		assert_memory_equal(order, hidden, n * sizeof(*order));
	}
	free(costs);
}

/* Members at drawn places on a circle: around it is best, in either direction. */
static void test_a_circle_is_gone_around(void **state)
{
	static const uint32_t sizes[] = {13, 50, 120};
	double *costs = calloc(120 * 120, sizeof(*costs));
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 3, "circle");
	for (size_t k = 0; k < N_ELEMENTS(sizes); k++) {
		uint32_t n = sizes[k], order[120];
		double angles[120] = {0}, sorted[120], best = 0;

		for (uint32_t i = 0; i < n; i++)
			angles[i] = 2 * M_PI * lh_rng_uniform(&rng);
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = 0; j < n; j++)
				costs[i * n + j] = 2 * fabs(sin((angles[i] - angles[j]) / 2));
		memcpy(sorted, angles, sizeof(sorted));
		for (uint32_t i = 1; i < n; i++)
			for (uint32_t j = i; j > 0 && sorted[j] < sorted[j - 1]; j--) {
				double kept = sorted[j];

				sorted[j] = sorted[j - 1];
				sorted[j - 1] = kept;
			}
		for (uint32_t i = 0; i < n; i++)
			best += 2 * fabs(sin((sorted[(i + 1) % n] - sorted[i]) / 2));
		assert_near(find(costs, n, order), best, 1e-9);
	}
	free(costs);
}

/* Sites far from each other: each is entered and left once. */
static void test_sites_are_crossed_once(void **state)
{
	enum { N = N_MAX, SITES = 8 };
	double *costs = calloc(N * N, sizeof(*costs));
	uint32_t order[N], n_crossings = 0;

	(void)state;
	for (uint32_t i = 0; i < N; i++)
		for (uint32_t j = 0; j < N; j++)
			costs[i * N + j] = i % SITES == j % SITES ? 1 : 100;
	find(costs, N, order);
	for (uint32_t i = 0; i < N; i++)
		n_crossings += order[i] % SITES != order[(i + 1) % N] % SITES;
	assert_int_equal(n_crossings, SITES);
	free(costs);
}

static void test_the_same_seed_gives_the_same_order(void **state)
{
	double *costs = calloc(40 * 40, sizeof(*costs));
	uint32_t first[40], again[40];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 4, "same");
	draw(&rng, costs, 40);
	find(costs, 40, first);
	find(costs, 40, again);
	assert_memory_equal(first, again, sizeof(first));
	free(costs);
}

/* The step of an order, as order.h says. */
static double step_of(const double *steps, const double *busy, uint32_t n, const uint32_t *order)
{
	double sum = 0, most = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t link = order[i] * n + order[(i + 1) % n];

		sum += steps[link];
		most = fmax(most, busy[link]);
	}
	return fmax(sum / n, most);
}

static double best_step_of_all(const double *steps, const double *busy, uint32_t n, uint32_t *order,
			       uint32_t k)
{
	double best = k >= n ? step_of(steps, busy, n, order) : INFINITY;

	for (uint32_t i = k; i < n; i++) {
		uint32_t kept = order[k];

		order[k] = order[i];
		order[i] = kept;
		best = fmin(best, best_step_of_all(steps, busy, n, order, k + 1));
		order[i] = order[k];
		order[k] = kept;
	}
	return best;
}

static void test_no_order_has_shorter_steps(void **state)
{
	double delays[49], busy[49], steps[49], cost;
	uint32_t order[7], all[7];
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 5, "steps");
	for (uint32_t n = 3; n <= 7; n++)
		for (int round = 0; round < 30; round++) {
			draw(&rng, delays, n);
			draw(&rng, busy, n);
			for (uint32_t i = 0; i < n * n; i++) {
				busy[i] *= round % 3; /* none, some and much */
				steps[i] = delays[i] + busy[i];
			}
			for (uint32_t i = 0; i < n; i++)
				all[i] = i;
			assert_int_equal(
				lh_collective_ring_order(steps, busy, n, 1, order, &cost, NULL), 0);
			assert_near(cost, step_of(steps, busy, n, order), 1e-12);
			assert_near(cost, best_step_of_all(steps, busy, n, all, 1), 1e-12);
		}
}

static void test_costs_that_are_none_are_refused(void **state)
{
	double costs[] = {0, 1, -1, 0}, cost;
	uint32_t order[2];

	(void)state;
	assert_int_equal(lh_collective_order(costs, 2, 1, order, &cost, NULL), LH_EINPUT);
	costs[2] = INFINITY;
	assert_int_equal(lh_collective_order(costs, 2, 1, order, &cost, NULL), LH_EINPUT);
	assert_int_equal(lh_collective_order(costs, 0, 1, order, &cost, NULL), LH_EINPUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_up_to_eight_are_exact),
		cmocka_unit_test(test_a_hidden_ring_is_found),
		cmocka_unit_test(test_a_circle_is_gone_around),
		cmocka_unit_test(test_sites_are_crossed_once),
		cmocka_unit_test(test_the_same_seed_gives_the_same_order),
		cmocka_unit_test(test_no_order_has_shorter_steps),
		cmocka_unit_test(test_costs_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
