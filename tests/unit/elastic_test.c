/* SPDX-License-Identifier: Apache-2.0 */
/* Elastic scheduling against brute force over single nodes. */
#include "scenarios/elastic.h"

#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

enum { NODES_MAX = 12, CASES = 300 };

/* A site's nodes one by one. */
struct nodes {
	size_t n;
	double samples_per_s[NODES_MAX];
	int64_t price[NODES_MAX];
};

static struct nodes nodes_of(const struct lh_elastic_site *site)
{
	struct nodes nodes = {0};

	for (size_t k = 0; k < site->n_kinds; k++)
		for (size_t i = 0; i < site->kinds[k].n_nodes; i++) {
			nodes.samples_per_s[nodes.n] = site->kinds[k].samples_per_s;
			nodes.price[nodes.n++] = site->kinds[k].price;
		}
	return nodes;
}

/* The lowest price of any subset that computes the samples in time, and its fewest nodes. */
static void search(const struct lh_elastic_site *site, double time_s, int64_t *ret_price,
		   size_t *ret_n)
{
	struct nodes nodes = nodes_of(site);

	*ret_price = INT64_MAX;
	*ret_n = 0;
	for (unsigned subset = 0; subset < 1U << nodes.n; subset++) {
		double speed = 0;
		int64_t price = 0;
		size_t n = 0;

		for (size_t i = 0; i < nodes.n; i++)
			if (subset & 1U << i) {
				speed += nodes.samples_per_s[i];
				price += nodes.price[i];
				n++;
			}
		if (speed * time_s < site->samples * (1 - 1e-9))
			continue;
		if (price < *ret_price || (price == *ret_price && n < *ret_n)) {
			*ret_price = price;
			*ret_n = n;
		}
	}
}

static void draw_site(struct lh_rng *rng, struct lh_elastic_site *site)
{
	size_t left = NODES_MAX;

	*site = (struct lh_elastic_site){.n_kinds = 1 + (size_t)lh_rng_below(rng, 3)};
	site->samples = (double)lh_rng_below(rng, 5) * 1000;
	for (size_t k = 0; k < site->n_kinds; k++) {
		struct lh_elastic_kind *kind = &site->kinds[k];

		kind->n_nodes = 1 + (size_t)lh_rng_below(rng, left / 3);
		kind->samples_per_s = 1 + (double)lh_rng_below(rng, 20) / 4;
		kind->price = (int64_t)lh_rng_below(rng, 6);
		left -= kind->n_nodes;
	}
}

static void test_plans_are_those_of_brute_force(void **state)
{
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 7, "elastic");
	for (size_t c = 0; c < CASES; c++) {
		struct lh_elastic_site sites[3];
		double time_s, longest = 0;

		for (size_t i = 0; i < 3; i++)
			draw_site(&rng, &sites[i]);
		sites[0].samples += 1000;
		assert_int_equal(lh_elastic_plan(sites, 3, &time_s, NULL), 0);
		for (size_t i = 0; i < 3; i++) {
			struct nodes nodes = nodes_of(&sites[i]);
			double speed = 0;
			int64_t price, planned = 0;
			size_t n, n_planned = 0;

			for (size_t j = 0; j < nodes.n; j++)
				speed += nodes.samples_per_s[j];
			longest = fmax(longest, sites[i].samples / speed);
			search(&sites[i], time_s, &price, &n);
			for (size_t k = 0; k < sites[i].n_kinds; k++) {
				assert_true(sites[i].needed[k] <= sites[i].kinds[k].n_nodes);
				planned += (int64_t)sites[i].needed[k] * sites[i].kinds[k].price;
				n_planned += sites[i].needed[k];
			}
			assert_true(planned == price);
			assert_int_equal(n_planned, n);
		}
		assert_true(fabs(time_s - longest) < 1e-9 * longest);
	}
}

static void test_surplus_is_released_and_the_slowest_site_keeps_all(void **state)
{
	struct lh_elastic_site sites[2] = {
		{.samples = 600, .n_kinds = 1, .kinds = {{4, 10, 3}}},
		{.samples = 400, .n_kinds = 1, .kinds = {{8, 10, 3}}},
	};
	double time_s;

	(void)state;
	assert_int_equal(lh_elastic_plan(sites, 2, &time_s, NULL), 0);
	assert_true(time_s == 15);
	assert_int_equal(sites[0].needed[0], 4);
	assert_int_equal(sites[1].needed[0], 3);
}

static void test_a_site_without_data_keeps_nothing(void **state)
{
	struct lh_elastic_site sites[2] = {
		{.samples = 1, .n_kinds = 1, .kinds = {{2, 1, 0}}},
		{.samples = 0, .n_kinds = 1, .kinds = {{2, 1, 0}}},
	};
	double time_s;

	(void)state;
	assert_int_equal(lh_elastic_plan(sites, 2, &time_s, NULL), 0);
	assert_int_equal(sites[0].needed[0], 2);
	assert_int_equal(sites[1].needed[0], 0);
}

static void test_data_need_nodes_and_nodes_need_data(void **state)
{
	struct lh_elastic_site sites[1] = {{.samples = 1}};
	struct lh_error err = {0};
	double time_s;

	(void)state;
	assert_int_equal(lh_elastic_plan(sites, 1, &time_s, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "data and no nodes"));
	sites[0] = (struct lh_elastic_site){.n_kinds = 1, .kinds = {{1, 1, 1}}};
	assert_int_equal(lh_elastic_plan(sites, 1, &time_s, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "no site has data"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plans_are_those_of_brute_force),
		cmocka_unit_test(test_surplus_is_released_and_the_slowest_site_keeps_all),
		cmocka_unit_test(test_a_site_without_data_keeps_nothing),
		cmocka_unit_test(test_data_need_nodes_and_nodes_need_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
