/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of a plan against closed forms: netem's, bottlenecks by themselves, links of sites. */
#include "tests/unit/plan_fixture.h"

/* rows 4, 45 */
static void test_a_queue_may_be_written_in_any_measure(void **state)
{
	static const struct {
		const char *queue;
		int64_t ns;
		uint32_t limit;
	} cases[] = {
		/* 200 Mbit/s, 20 ms one way: 330.25 full packets of 60.56 us are in flight */
		{"50 ms", 50000000, 1157},     {"1 BDP", 40000000, 992}, {"0.5 BDP", 20000000, 662},
		{"100 packets", 6056000, 432}, {"1 packet", 60560, 333}, {"0 packets", 0, 332},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const struct lh_override o = {"network.paths.0.queue", cases[i].queue};
		struct lh_plan_path p = path_with(&o, 1);

		assert_true(p.queue_ns == cases[i].ns);
		assert_int_equal(p.limit_pkts, cases[i].limit);
		assert_true(p.splits_segments);
	}
}

/* A bottleneck by itself: two frames pass at once, and wait in the netem behind it. */
static void test_a_queue_in_bytes_is_a_bottleneck_by_itself(void **state)
{
	static const struct {
		const char *queue;
		int64_t ns;
		uint32_t limit_bytes;
	} cases[] = {
		{"1 MB", 40000000, 1000000 - 2 * WIRE_BYTES},
		{"3 kB", 120000, WIRE_BYTES},
		{"0 B", 0, WIRE_BYTES},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const struct lh_override o = {"network.paths.0.queue", cases[i].queue};
		struct planned p = plan_of(&o, 1);
		const struct lh_plan_path *path = lh_plan_path_at(p.plan, EAST_0, WEST_0);

		assert_true(path->queue_ns == cases[i].ns);
		assert_int_equal(path->bottleneck.limit_bytes, cases[i].limit_bytes);
		assert_int_equal(path->bottleneck.burst_bytes, 2 * WIRE_BYTES);
		assert_true(path->bottleneck.bandwidth_bps == path->bandwidth_bps);
		assert_false(path->splits_segments);
		/* in flight, rounded up, and the floor */
		assert_int_equal(path->limit_pkts, 331 + 1000);
		assert_true(p.plan->nodes[WEST_0].is_staged && p.plan->nodes[EAST_0].is_staged);
		assert_int_equal(p.plan->n_accesses, 1);
		assert_null(p.plan->nodes[WEST_0].access->site);
		assert_int_equal(lh_plan_path_at(p.plan, EAST_0, EAST_1)->bottleneck.bandwidth_bps,
				 0);
		planned_done(&p);
	}
}

/* Netem counts a short packet as a full one: room for many would make a queue longer than asked. */
static void test_a_queue_beside_a_much_faster_way_back_is_a_bottleneck_by_itself(void **state)
{
	const char *first = strstr(small_scenario, "    - {between: [east, west]");
	const char *second = strstr(small_scenario, "    - {between: [east, east]");
	lh_cleanup_free char *text =
		lh_strf("%.*s"
			"    - {from: east, to: west, delay: 10 ms, bandwidth: 1 Mbit/s}\n"
			"    - {from: west, to: east, delay: 10 ms, bandwidth: 100 Mbit/s}\n%s",
			(int)(first - small_scenario), small_scenario, second);
	const struct lh_plan_path *slow, *fast;
	struct planned p = {0};
	struct lh_error err = {0};

	(void)state;
	p.sc = fixture_read_ok(text, NULL, 0);
	assert_int_equal(lh_plan_build(p.sc, &p.plan, &err), 0);
	slow = lh_plan_path_at(p.plan, EAST_0, WEST_0);
	fast = lh_plan_path_at(p.plan, WEST_0, EAST_0);
	/* 200 ms at 1 Mbit/s, less two frames */
	assert_int_equal(slow->bottleneck.limit_bytes, 25000 - 2 * WIRE_BYTES);
	assert_int_equal(fast->bottleneck.bandwidth_bps, 0);
	/* 82.6 in flight, 1651.3 wait */
	assert_int_equal(fast->limit_pkts, 1734 + 1);
	planned_done(&p);
}

/* row 60 */
static void test_a_chance_of_nothing_is_none(void **state)
{
	static const struct lh_override o[] = {{"network.paths.0.loss", "0 %"},
					       {"network.paths.0.duplicate", "0 %"},
					       {"network.paths.0.corrupt", "0 %"},
					       {"network.paths.0.reorder", "0 %"}};
	struct lh_plan_path with = path_with(o, N_ELEMENTS(o)), without = path_with(NULL, 0);

	(void)state;
	assert_memory_equal(&with.chances, &without.chances, sizeof(with.chances));
	assert_true(with.seed == 0 && with.limit_pkts == without.limit_pkts);
}

static void test_a_managed_queue_drops_when_its_target_has_passed(void **state)
{
	static const struct lh_override o[] = {{"network.paths.0.queue_discipline", "codel"},
					       {"network.paths.0.queue", "10 s"},
					       {"network.paths.0.ecn", "true"}};
	struct planned tail = plan_of(o + 1, 1), p = plan_of(o, 3);
	const struct lh_plan_path *path = lh_plan_path_at(p.plan, EAST_0, WEST_0);

	(void)state;
	assert_false(lh_plan_may_drop(tail.plan, EAST_0, WEST_0));
	assert_true(lh_plan_may_drop(p.plan, EAST_0, WEST_0));
	assert_true(lh_plan_stream_bps(p.plan, EAST_0, WEST_0) == -1);
	/* 10 s at 200 Mbit/s */
	assert_int_equal(path->bottleneck.limit_pkts, 250000000 / WIRE_BYTES + 2);
	assert_true(p.plan->uses_ecn && !tail.plan->uses_ecn);
	assert_int_equal(tail.plan->n_accesses, 0);
	planned_done(&p);
	planned_done(&tail);
}

static void test_a_sites_links_are_on_the_way_to_other_sites_only(void **state)
{
	static const struct lh_override o[] = {
		{"network.sites.east.uplink", "{bandwidth: 50 Mbit/s, queue: 30 ms}"},
		{"network.sites.west.downlink", "{bandwidth: 40 Mbit/s, queue: 100 packets}"},
		{"network.stream_window", "100 kB"}};
	struct planned p = plan_of(o, 3);

	(void)state;
	assert_int_equal(p.plan->n_accesses, 2);
	assert_true(p.plan->nodes[EAST_0].access == p.plan->nodes[EAST_1].access);
	assert_true(lh_plan_shares_link(p.plan, EAST_0, WEST_0));
	assert_false(lh_plan_shares_link(p.plan, WEST_0, EAST_0));
	assert_false(lh_plan_shares_link(p.plan, EAST_0, EAST_1));
	assert_true(lh_plan_slowest_bps(p.plan, EAST_0, WEST_0) == 40000000);
	assert_true(lh_plan_slowest_bps(p.plan, WEST_0, EAST_0) == 200000000);
	assert_true(lh_plan_slowest_bps(p.plan, EAST_1, EAST_0) == 1000000000);
	assert_int_equal(p.plan->nodes[EAST_0].access->up.limit_bytes, 187500);
	assert_int_equal(p.plan->nodes[WEST_0].access->down.limit_bytes, 100 * WIRE_BYTES);
	assert_int_equal(p.plan->nodes[WEST_0].access->up.bandwidth_bps, 0);
	/* whole segments per round trip, below what the links carry */
	assert_int_equal(lh_plan_stream_bps(p.plan, EAST_0, WEST_0),
			 100000 / SEGMENT_BYTES * SEGMENT_BYTES * 8 / 0.040);
	planned_done(&p);
}

static void test_super_packets_are_cut_only_where_they_matter(void **state)
{
	static const struct lh_override window[] = {{"network.stream_window", "1 MB"},
						    {"network.paths.0.loss", "1 %"}};

	(void)state;
	/* 6 MiB of receive buffer fill 40 ms and 200 ms at 200 Mbit/s */
	assert_true(path_with(NULL, 0).splits_segments);
	assert_false(path_with(window, 1).splits_segments);
	assert_true(path_with(window, 2).splits_segments);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_queue_may_be_written_in_any_measure),
		cmocka_unit_test(test_a_queue_in_bytes_is_a_bottleneck_by_itself),
		cmocka_unit_test(
			test_a_queue_beside_a_much_faster_way_back_is_a_bottleneck_by_itself),
		cmocka_unit_test(test_a_chance_of_nothing_is_none),
		cmocka_unit_test(test_a_managed_queue_drops_when_its_target_has_passed),
		cmocka_unit_test(test_a_sites_links_are_on_the_way_to_other_sites_only),
		cmocka_unit_test(test_super_packets_are_cut_only_where_they_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
