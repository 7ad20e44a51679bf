/* SPDX-License-Identifier: Apache-2.0 */
/* Egress classes, and the prices of data and machines. */
#include "tests/unit/scenario_fixture.h"

static struct lh_site site(const char *name, const char *provider, int continent,
			   const char *region, const char *zone)
{
	return (struct lh_site){.name = (char *)name,
				.provider = (char *)provider,
				.continent = continent,
				.region = (char *)region,
				.zone = (char *)zone};
}

static void test_egress_classes_follow_the_rule(void **state)
{
	const struct {
		struct lh_site from;
		struct lh_site to;
		enum lh_egress_class class;
	} cases[] = {
		{site("a", "g", LH_EUROPE, "e1", "e1-a"), site("a", "g", LH_EUROPE, "e1", "e1-a"),
		 LH_EGRESS_SAME_ZONE},
		{site("a", "g", LH_EUROPE, NULL, NULL), site("a", "g", LH_EUROPE, NULL, NULL),
		 LH_EGRESS_SAME_ZONE},
		{site("a", "g", LH_EUROPE, "e1", "z"), site("b", "g", LH_EUROPE, "e1", "z"),
		 LH_EGRESS_SAME_ZONE},
		{site("a", "g", LH_EUROPE, "e1", "z"), site("b", "g", LH_EUROPE, "e1", "y"),
		 LH_EGRESS_INTER_ZONE},
		{site("a", "g", LH_EUROPE, "e1", NULL), site("b", "g", LH_EUROPE, "e1", NULL),
		 LH_EGRESS_INTER_ZONE},
		{site("a", "g", LH_EUROPE, "e1", NULL), site("b", "g", LH_EUROPE, "e2", NULL),
		 LH_EGRESS_INTER_REGION},
		{site("a", "g", LH_EUROPE, NULL, NULL), site("b", "g", LH_EUROPE, NULL, NULL),
		 LH_EGRESS_INTER_REGION},
		{site("a", "g", LH_EUROPE, "e1", "z"), site("b", "h", LH_EUROPE, "e1", "z"),
		 LH_EGRESS_INTER_REGION},
		{site("a", "g", LH_EUROPE, "r", "z"), site("b", "g", LH_ASIA, "r", "z"),
		 LH_EGRESS_INTER_CONTINENT},
		{site("a", "g", LH_EUROPE, "r", "z"), site("b", "g", LH_OCEANIA, "r", "z"),
		 LH_EGRESS_OCEANIA},
		{site("a", "g", LH_OCEANIA, "r", "z"), site("b", "h", LH_AFRICA, "r", "z"),
		 LH_EGRESS_OCEANIA},
		{site("a", "g", LH_OCEANIA, "r1", "z"), site("b", "g", LH_OCEANIA, "r2", "z"),
		 LH_EGRESS_INTER_REGION},
		{site("a", "on-premise", LH_EUROPE, NULL, NULL),
		 site("b", "g", LH_OCEANIA, NULL, NULL), LH_EGRESS_ON_PREMISE},
		{site("a", "on-premise", LH_EUROPE, NULL, NULL),
		 site("a", "on-premise", LH_EUROPE, NULL, NULL), LH_EGRESS_ON_PREMISE},
		{site("a", "g", LH_EUROPE, NULL, NULL),
		 site("b", "on-premise", LH_EUROPE, NULL, NULL), LH_EGRESS_INTER_REGION},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		if (lh_egress_class_of(&cases[i].from, &cases[i].to) != cases[i].class)
			fail_msg("case %zu: %s, not %s", i,
				 lh_egress_class_name(
					 lh_egress_class_of(&cases[i].from, &cases[i].to)),
				 lh_egress_class_name(cases[i].class));
}

/* Prices of a sender g (one number a class, so that each can be told) and of no other. */
static struct lh_egress_prices g_prices = {
	.name = (char *)"g",
	.same_zone = {0, 1000000000},
	.inter_zone = {10, 1000000000},
	.inter_region
		.by_continent = {[LH_EUROPE] = {20, 1000000000}, [LH_OCEANIA] = {80, 1073741824}},
	.inter_continent = {90, 1000000000},
	.oceania = {150, 1000000000},
};

static void test_egress_prices_are_the_senders(void **state)
{
	const struct lh_prices prices = {.name = (char *)"p",
					 .source = (char *)"catalog",
					 .egress = &g_prices,
					 .n_egress = 1};
	const struct lh_site home = site("home", "g", LH_EUROPE, "e1", "z");
	const struct {
		struct lh_site from;
		struct lh_site to;
		int64_t usd_micro; /* -1: none */
		int64_t per_bytes;
	} cases[] = {
		{home, home, 0, 1000000000},
		{home, site("b", "g", LH_EUROPE, "e1", "y"), 10, 1000000000},
		{home, site("b", "g", LH_EUROPE, "e2", "y"), 20, 1000000000},
		{home, site("b", "h", LH_EUROPE, "e1", "z"), 20, 1000000000},
		{home, site("b", "g", LH_ASIA, "e1", "z"), 90, 1000000000},
		{home, site("b", "g", LH_OCEANIA, "e1", "z"), 150, 1000000000},
		{site("a", "g", LH_OCEANIA, "o1", NULL), site("b", "g", LH_OCEANIA, "o2", NULL), 80,
		 1073741824},
		{site("a", "g", LH_ASIA, "a1", NULL), site("b", "g", LH_ASIA, "a2", NULL), -1, 0},
		{site("b", "h", LH_EUROPE, "e1", "z"), home, -1, 0},
		{site("b", "on-premise", LH_EUROPE, NULL, NULL), home, 0, 1000000000},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_byte_price price = {0, 0};
		struct lh_error err = {0};
		const char *source = NULL;
		int r = lh_egress_price_find(&prices, &cases[i].from, &cases[i].to, &price, &source,
					     &err);

		assert_int_equal(r, cases[i].usd_micro < 0 ? LH_EINPUT : 0);
		assert_true((err.message[0] != '\0') == (r < 0));
		if (r < 0)
			continue;
		assert_int_equal(price.usd_micro, cases[i].usd_micro);
		assert_int_equal(price.per_bytes, cases[i].per_bytes);
		assert_non_null(source);
	}
}

static void test_an_on_premise_sender_may_have_a_price(void **state)
{
	struct lh_egress_prices own = {.name = (char *)"on-premise",
				       .inter_continent = {7, 1000000000}};
	const struct lh_prices prices = {.name = (char *)"p", .egress = &own, .n_egress = 1};
	const struct lh_site home = site("home", "on-premise", LH_EUROPE, NULL, NULL);
	const struct lh_site away = site("away", "g", LH_ASIA, NULL, NULL);
	struct lh_byte_price price = {0, 0};
	struct lh_error err = {0};
	const char *source = NULL;

	(void)state;
	assert_int_equal(lh_egress_price_find(&prices, &home, &away, &price, &source, &err), 0);
	assert_int_equal(price.usd_micro, 7);
}

static void test_the_vm_price_of_a_site_goes_before_that_of_all(void **state)
{
	struct lh_vm_price vm[] = {
		{.machine = (char *)"m", .spot_usd_micro_per_h = 1},
		{.machine = (char *)"m", .site = (char *)"eu", .spot_usd_micro_per_h = 2},
		{.machine = (char *)"n", .site = (char *)"us", .spot_usd_micro_per_h = 3},
	};
	const struct lh_prices prices = {.vm = vm, .n_vm = N_ELEMENTS(vm)};

	(void)state;
	assert_ptr_equal(lh_vm_price_find(&prices, "m", "eu"), &vm[1]);
	assert_ptr_equal(lh_vm_price_find(&prices, "m", "us"), &vm[0]);
	assert_ptr_equal(lh_vm_price_find(&prices, "n", "us"), &vm[2]);
	assert_null(lh_vm_price_find(&prices, "n", "eu"));
	assert_null(lh_vm_price_find(&prices, "o", "eu"));
	assert_null(lh_storage_price_find(&prices, "s3"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_egress_classes_follow_the_rule),
		cmocka_unit_test(test_egress_prices_are_the_senders),
		cmocka_unit_test(test_an_on_premise_sender_may_have_a_price),
		cmocka_unit_test(test_the_vm_price_of_a_site_goes_before_that_of_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
