/* SPDX-License-Identifier: Apache-2.0 */
/* Costs, recomputed here in another way, to the micro-dollar. */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "collect/cost.h"

#define GB INT64_C(1000000000)
#define GIB (INT64_C(1) << 30)
#define HOUR_NS INT64_C(3600000000000)

static void time_is_rounded_half_up(void **state)
{
	(void)state;
	assert_int_equal(lh_cost_of_time(180000, 15 * GB), 750);
	/* 1 micro-dollar per hour: half an hour is exactly half of one */
	assert_int_equal(lh_cost_of_time(1, HOUR_NS / 2), 1);
	assert_int_equal(lh_cost_of_time(1, HOUR_NS / 2 - 1), 0);
	assert_int_equal(lh_cost_of_time(3, HOUR_NS / 2), 2);
	assert_int_equal(lh_cost_of_time(0, HOUR_NS), 0);
	assert_int_equal(lh_cost_of_time(572000, 365 * 24 * HOUR_NS), INT64_C(5010720000));
	assert_int_equal(lh_cost_of_time(INT64_MAX, 2 * HOUR_NS), -1);
}

static void bytes_are_rounded_half_up_in_their_unit(void **state)
{
	const struct lh_byte_price gb = {80000, GB}, gib = {80000, GIB}, one = {1, GB};

	(void)state;
	assert_int_equal(lh_cost_of_bytes(&gb, GB), 80000);
	assert_int_equal(lh_cost_of_bytes(&gib, GIB), 80000);
	/* 80000 x 1e9 / 2^30 = 74505.8 */
	assert_int_equal(lh_cost_of_bytes(&gib, GB), 74506);
	assert_int_equal(lh_cost_of_bytes(&gb, GIB), 85899);
	assert_int_equal(lh_cost_of_bytes(&one, GB / 2), 1);
	assert_int_equal(lh_cost_of_bytes(&one, GB / 2 - 1), 0);
	assert_int_equal(lh_cost_of_bytes(&one, GB + GB / 2), 2);
	/* an exabyte: the product needs more than 64 bits */
	assert_int_equal(lh_cost_of_bytes(&gb, INT64_C(1000000000000000000)),
			 INT64_C(80000000000000));
}

/* Two nodes, one in each of two continents, and a list of prices for them. */
struct setting {
	struct lh_scenario sc;
	struct lh_site sites[2];
	struct lh_node nodes[2];
	struct lh_machine machine;
	struct lh_model model;
	struct lh_vm_price vm;
	struct lh_egress_prices egress;
	struct lh_storage_price store;
};

static char google[] = "google", us[] = "us", eu[] = "eu", us0[] = "us/0", eu0[] = "eu/0",
	    machine_name[] = "m", list[] = "2023", store_name[] = "b2", source[] = "list, p. 3";

static void make_setting(struct setting *s)
{
	memset(s, 0, sizeof(*s));
	s->sites[0] =
		(struct lh_site){.name = us, .provider = google, .continent = LH_NORTH_AMERICA};
	s->sites[1] = (struct lh_site){.name = eu, .provider = google, .continent = LH_EUROPE};
	s->machine = (struct lh_machine){.name = machine_name, .gpus = 1};
	s->nodes[0] = (struct lh_node){.name = us0, .site = 0, .machine = &s->machine};
	s->nodes[1] = (struct lh_node){.name = eu0, .site = 1, .machine = &s->machine};
	s->model.bytes_per_sample = 125000;
	s->vm = (struct lh_vm_price){machine_name, NULL, 180000, 572000, source};
	s->egress = (struct lh_egress_prices){
		.name = google, .inter_continent = {80000, GIB}, .source = source};
	s->store = (struct lh_storage_price){.name = store_name, .egress = {10000, GB}};
	s->sc.network.sites = s->sites;
	s->sc.network.n_sites = 2;
	s->sc.nodes = s->nodes;
	s->sc.n_nodes = 2;
	s->sc.model = &s->model;
	s->sc.data.store = store_name;
	s->sc.pricing.catalog = (struct lh_prices){.name = list,
						   .vm = &s->vm,
						   .n_vm = 1,
						   .egress = &s->egress,
						   .n_egress = 1,
						   .storage = &s->store,
						   .n_storage = 1};
}

static const int64_t node_samples[] = {1000003, 999997};
static const int64_t wire_bytes[] = {0, 123456789012, 98765432109, 0};
static const int64_t away_ns[] = {0, 48420666330};
static const struct lh_cost_usage usage = {
	.wall_ns = 548420666330,
	.samples = 2000000,
	.node_samples = node_samples,
	.wire_bytes = wire_bytes,
};

static void rows_and_totals_can_be_recomputed(void **state)
{
	struct setting s;
	struct lh_cost cost = {0};
	int64_t sum = 0;
	int column;
	/* long double: 64 bits of mantissa, enough for these products' quotients */
	const long double vm = 180000.0L * 548420666330.0L / 3.6e12L;
	const long double a = 80000.0L * 123456789012.0L / 1073741824.0L;
	const long double b = 80000.0L * 98765432109.0L / 1073741824.0L;
	const int64_t expected[] = {
		(int64_t)(vm + 0.5L),
		(int64_t)(vm + 0.5L),
		(int64_t)(a + 0.5L),
		(int64_t)(b + 0.5L),
		/* 125 kB x samples at 0.01 USD/GB: 1.25 micro-dollars each */
		1250004,
		1249996,
	};

	(void)state;
	make_setting(&s);
	assert_int_equal(lh_cost_compute(&s.sc, &usage, &cost, NULL), 0);
	assert_int_equal(cost.table.n_rows, 14);
	column = lh_table_find_column(&cost.table, "usd_micro");
	for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
		assert_int_equal(lh_table_cell(&cost.table, i, (size_t)column)->integer,
				 expected[i]);
		sum += expected[i];
	}
	assert_int_equal(lh_table_cell(&cost.table, 6, (size_t)column)->integer, sum);
	assert_true(cost.scopes[LH_VM_SPOT].is_complete);
	assert_int_equal(cost.scopes[LH_VM_SPOT].total_usd_micro, sum);
	assert_int_equal(cost.scopes[LH_VM_SPOT].data_usd_micro, 2500000);
	assert_near(cost.scopes[LH_VM_SPOT].total_usd_per_million_samples, (double)sum * 1e-6 / 2,
		    1e-9);
	assert_near(cost.scopes[LH_VM_SPOT].total_usd_per_hour,
		    (double)sum * 1e-6 / (548.420666330 / 3600), 1e-9);
	assert_int_equal(
		cost.scopes[LH_VM_ON_DEMAND].total_usd_micro -
			cost.scopes[LH_VM_SPOT].total_usd_micro,
		2 * ((int64_t)(572000.0L * 548420666330.0L / 3.6e12L + 0.5L) - expected[0]));
	assert_int_equal(cost.notes.n_items, 0);
	lh_cost_done(&cost);
}

static bool has_row(const struct lh_cost *cost, const char *scope, const char *item)
{
	for (size_t row = 0; row < cost->table.n_rows; row++)
		if (strcmp(lh_table_cell(&cost->table, row, 0)->text, scope) == 0 &&
		    strcmp(lh_table_cell(&cost->table, row, 3)->text, item) == 0)
			return true;
	return false;
}

static void a_scope_without_a_price_has_no_total(void **state)
{
	struct setting s;
	struct lh_cost cost = {0};

	(void)state;
	make_setting(&s);
	s.vm.spot_usd_micro_per_h = -1;
	assert_int_equal(lh_cost_compute(&s.sc, &usage, &cost, NULL), 0);
	assert_false(has_row(&cost, "spot", "vm"));
	assert_false(has_row(&cost, "spot", "total"));
	assert_true(has_row(&cost, "spot", "egress"));
	assert_true(has_row(&cost, "on-demand", "total"));
	assert_false(cost.scopes[LH_VM_SPOT].is_complete);
	assert_true(isnan(cost.scopes[LH_VM_SPOT].total_usd_per_hour));
	assert_true(cost.notes.n_items > 0);
	assert_non_null(strstr(cost.notes.items[0], "no spot price for machine m"));
	lh_cost_done(&cost);
}

static void unpriced_egress_leaves_both_totals_out(void **state)
{
	struct setting s;
	struct lh_cost cost = {0};

	(void)state;
	make_setting(&s);
	s.egress.inter_continent.per_bytes = 0;
	assert_int_equal(lh_cost_compute(&s.sc, &usage, &cost, NULL), 0);
	assert_false(has_row(&cost, "spot", "total"));
	assert_false(has_row(&cost, "on-demand", "total"));
	assert_int_equal(cost.notes.n_items, 2);
	lh_cost_done(&cost);
}

static void unknown_wire_bytes_leave_totals_out(void **state)
{
	struct setting s;
	struct lh_cost cost = {0};
	struct lh_cost_usage blind = usage;

	(void)state;
	make_setting(&s);
	blind.wire_bytes = NULL;
	assert_int_equal(lh_cost_compute(&s.sc, &blind, &cost, NULL), 0);
	assert_true(has_row(&cost, "spot", "vm"));
	assert_false(has_row(&cost, "spot", "egress"));
	assert_false(has_row(&cost, "spot", "total"));
	lh_cost_done(&cost);
}

static void a_vm_that_is_away_is_not_paid(void **state)
{
	struct setting s;
	struct lh_cost cost = {0};
	struct lh_cost_usage part = usage;
	int column;

	(void)state;
	make_setting(&s);
	part.away_ns = away_ns;
	assert_int_equal(lh_cost_compute(&s.sc, &part, &cost, NULL), 0);
	column = lh_table_find_column(&cost.table, "usd_micro");
	assert_int_equal(lh_table_cell(&cost.table, 0, (size_t)column)->integer,
			 lh_cost_of_time(180000, 548420666330));
	/* 500 s are left */
	assert_int_equal(lh_table_cell(&cost.table, 1, (size_t)column)->integer, 25000);
	assert_int_equal(cost.notes.n_items, 1);
	assert_non_null(strstr(cost.notes.items[0], "a VM is not paid while it is away"));
	lh_cost_done(&cost);
}

static void a_store_without_a_price_is_an_error(void **state)
{
	struct setting s;
	struct lh_cost cost = {0};
	struct lh_error err = {0};

	(void)state;
	make_setting(&s);
	s.sc.pricing.catalog.n_storage = 0;
	assert_int_equal(lh_cost_compute(&s.sc, &usage, &cost, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "no storage price for 'b2'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_is_rounded_half_up),
		cmocka_unit_test(bytes_are_rounded_half_up_in_their_unit),
		cmocka_unit_test(rows_and_totals_can_be_recomputed),
		cmocka_unit_test(a_scope_without_a_price_has_no_total),
		cmocka_unit_test(unpriced_egress_leaves_both_totals_out),
		cmocka_unit_test(unknown_wire_bytes_leave_totals_out),
		cmocka_unit_test(a_vm_that_is_away_is_not_paid),
		cmocka_unit_test(a_store_without_a_price_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
