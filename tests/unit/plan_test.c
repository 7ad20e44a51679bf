/* SPDX-License-Identifier: Apache-2.0 */
/* The network plan against closed forms: delays, queues, windows, predictions, names. */
#include "emulator/plan.h"

#include "core/rng.h"
#include "emulator/engine.h"
#include "tests/unit/plan_fixture.h"

enum { ROUNDS = 300 };

static void test_every_nanosecond_of_a_round_trip_is_in_one_direction(void **state)
{
	struct lh_rng rng;

	(void)state;
	lh_rng_init(&rng, 1, "plan");
	for (int i = 0; i < ROUNDS; i++) {
		int64_t rtt = (int64_t)lh_rng_below(&rng, 3600000000000) | (i & 1);
		char text[48];
		struct lh_override o = {"network.paths.0.rtt", text};
		struct planned p;
		int64_t there, back;

		snprintf(text, sizeof(text), "%lld ns", (long long)rtt);
		p = plan_of(&o, 1);
		there = lh_plan_path_at(p.plan, EAST_1, WEST_0)->delay_ns;
		back = lh_plan_path_at(p.plan, WEST_0, EAST_1)->delay_ns;
		assert_true(there + back == rtt);
		assert_true(there - back == (rtt & 1));
		assert_true(lh_plan_rtt_ns(p.plan, WEST_0, EAST_1) == rtt);
		planned_done(&p);
	}
}

/* rows 12, 28 */
static void test_one_way_delays_are_taken_as_written(void **state)
{
	const char *first = strstr(small_scenario, "    - {between: [east, west]");
	const char *second = strstr(small_scenario, "    - {between: [east, east]");
	lh_cleanup_free char *text =
		lh_strf("%.*s"
			"    - {from: east, to: west, delay: 300 s, bandwidth: 45 Gbit/s}\n"
			"    - {from: west, to: east, delay: 7 ns, bandwidth: 8 bit/s}\n%s",
			(int)(first - small_scenario), small_scenario, second);
	struct planned p = {0};
	struct lh_error err = {0};

	(void)state;
	p.sc = fixture_read_ok(text, NULL, 0);
	assert_int_equal(lh_plan_build(p.sc, &p.plan, &err), 0);
	assert_true(lh_plan_path_at(p.plan, EAST_0, WEST_0)->delay_ns == 300000000000);
	assert_true(lh_plan_path_at(p.plan, EAST_0, WEST_0)->bandwidth_bps == 45000000000);
	assert_true(lh_plan_path_at(p.plan, WEST_0, EAST_0)->delay_ns == 7);
	assert_true(lh_plan_path_at(p.plan, WEST_0, EAST_0)->bandwidth_bps == 8);
	assert_true(lh_plan_rtt_ns(p.plan, EAST_0, WEST_0) == 300000000007);
	planned_done(&p);
}

/* What is in flight and what waits fits below netem's limit, or the limit is the largest.
 * rows 1, 2, 3, 38 */
static void test_a_queue_holds_what_is_in_flight_and_what_waits(void **state)
{
	struct lh_rng rng;
	int saturated = 0;

	(void)state;
	lh_rng_init(&rng, 2, "plan");
	for (int i = 0; i < ROUNDS; i++) {
		char rate[48], rtt[48], queue[48];
		struct lh_override o[] = {{"network.paths.0.bandwidth", rate},
					  {"network.paths.0.rtt", rtt},
					  {"network.paths.0.queue", queue}};
		/* over all orders of magnitude */
		uint64_t bps = 8 + lh_rng_next(&rng) % (1000000000000u >> lh_rng_below(&rng, 36));
		uint64_t rtt_ns = lh_rng_next(&rng) % (3600000000000u >> lh_rng_below(&rng, 36));
		uint64_t queue_ns = lh_rng_next(&rng) % (3600000000000u >> lh_rng_below(&rng, 36));
		const struct lh_plan_path *path;
		struct planned p;
		double bytes;

		snprintf(rate, sizeof(rate), "%llu bit/s", (unsigned long long)bps);
		snprintf(rtt, sizeof(rtt), "%llu ns", (unsigned long long)rtt_ns);
		snprintf(queue, sizeof(queue), "%llu ns", (unsigned long long)queue_ns);
		p = plan_of(o, N_ELEMENTS(o));
		path = lh_plan_path_at(p.plan, EAST_0, WEST_0);
		bytes = (double)bps / 8 * ((double)(path->delay_ns + path->queue_ns) / 1e9);
		if (path->limit_pkts == UINT32_MAX)
			saturated++;
		else
			assert_true((double)path->limit_pkts * WIRE_BYTES >= bytes);
		assert_true((double)path->limit_pkts * WIRE_BYTES <= bytes + 1001.0 * WIRE_BYTES);
		planned_done(&p);
	}
	assert_true(saturated < ROUNDS);
}

static void test_the_longest_fattest_path_has_the_largest_queue(void **state)
{
	static const struct lh_override o[] = {{"network.paths.0.bandwidth", "1 Tbit/s"},
					       {"network.paths.0.rtt", "1 h"}};
	struct planned p = plan_of(o, N_ELEMENTS(o));

	(void)state;
	assert_true(lh_plan_path_at(p.plan, EAST_0, WEST_0)->limit_pkts == UINT32_MAX);
	planned_done(&p);
}

static uint32_t clamp_with(const struct lh_override *overrides, size_t n)
{
	struct planned p = plan_of(overrides, n);
	uint32_t segments = lh_plan_path_at(p.plan, EAST_0, WEST_0)->clamp_segments;

	planned_done(&p);
	return segments;
}

static void test_a_stream_window_becomes_whole_segments(void **state)
{
	const struct lh_override whole = {"network.stream_window", "2.71 MB"};
	const struct lh_override both[] = {{"network.stream_window", "2.71 MB"},
					   {"network.paths.0.stream_window", "14480 B"}};
	const struct lh_override tiny = {"network.stream_window", "1 B"};
	const struct lh_override exact = {"network.stream_window", "144800 B"};
	const struct lh_override below = {"network.stream_window", "144799 B"};
	const struct lh_override huge = {"network.stream_window", "1000000 TB"};

	(void)state;
	assert_int_equal(clamp_with(NULL, 0), 0);
	assert_int_equal(clamp_with(&whole, 1), 2710000 / SEGMENT_BYTES);
	assert_int_equal(clamp_with(both, 2), 10);
	assert_int_equal(clamp_with(&tiny, 1), 2);
	assert_int_equal(clamp_with(&exact, 1), 100);
	assert_int_equal(clamp_with(&below, 1), 99);
	assert_true(clamp_with(&huge, 1) == UINT32_MAX);
}

static int64_t stream_with(const struct lh_override *overrides, size_t n)
{
	struct planned p = plan_of(overrides, n);
	int64_t bps = lh_plan_stream_bps(p.plan, EAST_0, WEST_0);

	planned_done(&p);
	return bps;
}

/* row 5 */
static void test_one_stream_gets_its_window_per_round_trip_or_the_slowest_link(void **state)
{
	const struct lh_override window[] = {{"network.stream_window", "144800 B"}};
	const struct lh_override wide[] = {{"network.stream_window", "100 MB"}};
	const struct lh_override up[] = {{"machines.box.nic.up", "50 Mbit/s"}};
	const struct lh_override down[] = {{"machines.box.nic.down", "40 Mbit/s"}};
	const struct lh_override small[] = {{"machines.box.tcp.rmem_max", "64 KiB"}};
	const struct lh_override send[] = {{"machines.box.tcp.wmem_max", "64 KiB"}};
	const struct lh_override none[] = {{"network.paths.0.rtt", "0 s"},
					   {"machines.box.tcp.rmem_max", "64 KiB"}};
	const double share = (double)SEGMENT_BYTES / WIRE_BYTES;

	(void)state;
	/* 144800 B x 8 / 40 ms */
	assert_true(stream_with(window, 1) == 28960000);
	assert_near((double)stream_with(NULL, 0), 200e6 * share, 1);
	assert_near((double)stream_with(wide, 1), 200e6 * share, 1);
	assert_near((double)stream_with(up, 1), 50e6 * share, 1);
	assert_near((double)stream_with(down, 1), 40e6 * share, 1);
	/* where buffers decide, nothing is promised */
	assert_true(stream_with(small, 1) == -1);
	assert_true(stream_with(send, 1) == -1);
	assert_near((double)stream_with(none, 2), 200e6 * share, 1);
}

static void test_coarse_segments_keep_windows_in_bytes(void **state)
{
	static const struct lh_override coarse[] = {{"run.segments", "coarse"},
						    {"network.stream_window", "2.71 MB"}};
	static const struct lh_override jumbo[] = {{"run.segments", "coarse"},
						   {"network.mtu", "9000 B"}};
	struct planned p = plan_of(coarse, N_ELEMENTS(coarse));

	(void)state;
	assert_int_equal(p.plan->mtu_bytes, 32000);
	assert_int_equal(p.plan->segment_bytes, 31948);
	assert_int_equal(p.plan->initial_window_segments, 1);
	assert_int_equal(lh_plan_path_at(p.plan, EAST_0, WEST_0)->clamp_segments, 2710000 / 31948);
	planned_done(&p);
	p = plan_of(jumbo, N_ELEMENTS(jumbo));
	assert_int_equal(p.plan->initial_window_segments, 3); /* 10 x 8948 B */
	planned_done(&p);
	p = plan_of(jumbo + 1, 1);
	assert_int_equal(p.plan->mtu_bytes, 9000);
	assert_int_equal(p.plan->segment_bytes, 8948);
	assert_int_equal(p.plan->initial_window_segments, 10);
	planned_done(&p);
}

static void test_nodes_of_one_site_stand_together(void **state)
{
	static const struct lh_override o[] = {
		{"nodes", "[{site: west, machine: box}, {site: east, machine: box},"
			  " {site: west, count: 2, machine: crate}]"},
		{"network.paths.1.between", "[west, west]"},
	};
	static const char *const names[] = {"west/0", "west/1", "west/2", "east/0"};
	static const char *const addresses[] = {"10.64.0.1", "10.64.0.2", "10.64.0.3", "10.64.0.4"};
	struct planned p = plan_of(o, N_ELEMENTS(o));
	char address[16];

	(void)state;
	assert_int_equal(p.plan->n_nodes, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(p.plan->nodes[i].name, names[i]);
		assert_string_equal(lh_address_format(p.plan->nodes[i].address, address,
						      sizeof(address)),
				    addresses[i]);
	}
	assert_string_equal(p.sc->nodes[0].machine->name, "box");
	assert_string_equal(p.sc->nodes[2].machine->name, "crate");
	assert_string_equal(p.sc->nodes[2].host->name, "tiny");
	assert_string_equal(p.sc->nodes[0].host->name, "default");
	planned_done(&p);
}

static void test_network_cards_have_floors_and_shares(void **state)
{
	static const struct lh_override slow[] = {{"machines.box.nic.up", "8 bit/s"}};
	struct planned p = plan_of(NULL, 0);

	(void)state;
	assert_true(p.plan->nodes[0].nic_up_bps == 2000000000);
	assert_true(p.plan->nodes[0].nic_down_bps == 3000000000);
	assert_int_equal(p.plan->nodes[0].nic_burst_bytes, 250000);   /* 1 ms */
	assert_int_equal(p.plan->nodes[0].nic_limit_bytes, 25000000); /* 100 ms */
	planned_done(&p);
	p = plan_of(slow, 1);
	assert_int_equal(p.plan->nodes[0].nic_burst_bytes, 2 * 2 * WIRE_BYTES);
	assert_int_equal(p.plan->nodes[0].nic_limit_bytes, 256 << 10);
	planned_done(&p);
}

/* A millisecond at the slowest rate on a node's way to any other, from 2 to 45 segments. */
static void test_bursts_last_a_millisecond(void **state)
{
	static const struct {
		const char *bandwidth;
		const char *down;
		uint32_t segments;
	} cases[] = {
		{"200 Mbit/s", "3 Gbit/s", 25000 / SEGMENT_BYTES},
		{"1 Mbit/s", "3 Gbit/s", 2},
		{"300 Mbit/s", "100 Mbit/s", 12500 / SEGMENT_BYTES},
		{"900 Mbit/s", "3 Gbit/s", 45},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const struct lh_override o[] = {{"network.paths.0.bandwidth", cases[i].bandwidth},
						{"machines.box.nic.down", cases[i].down}};
		struct planned p = plan_of(o, N_ELEMENTS(o));

		assert_int_equal(p.plan->nodes[EAST_0].burst_segments, cases[i].segments);
		planned_done(&p);
	}
}

static void test_a_node_alone_is_a_plan(void **state)
{
	static const struct lh_override o[] = {{"nodes", "[{site: west, machine: box}]"}};
	struct planned p = plan_of(o, 1);
	lh_cleanup_json json_t *json = lh_plan_to_json(p.plan);

	(void)state;
	assert_int_equal(p.plan->n_nodes, 1);
	assert_int_equal(json_array_size(json_object_get(json, "nodes")), 1);
	assert_int_equal(json_array_size(json_object_get(json, "paths")), 0);
	planned_done(&p);
}

static void test_network_json_has_every_pair(void **state)
{
	struct planned p = plan_of(NULL, 0);
	lh_cleanup_json json_t *json = lh_plan_to_json(p.plan);
	json_t *path = json_array_get(json_object_get(json, "paths"), 1);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(json, "paths")), 6);
	assert_string_equal(json_string_value(json_object_get(path, "from")), "east/0");
	assert_string_equal(json_string_value(json_object_get(path, "to")), "west/0");
	assert_int_equal(json_integer_value(json_object_get(path, "delay_ns")), 20000000);
	assert_int_equal(json_integer_value(json_object_get(path, "bandwidth_bps")), 200000000);
	assert_int_equal(json_integer_value(json_object_get(path, "queue_ns")), 200000000);
	planned_done(&p);
}

/* row 29 */
static void test_chances_give_the_asked_loss_and_burst(void **state)
{
	static const struct lh_override iid[] = {{"network.paths.0.loss", "0.1 %"}};
	static const struct lh_override burst[] = {{"network.paths.0.loss", "2 %"},
						   {"network.paths.0.loss_burst", "4"}};
	struct lh_plan_chances c = path_with(iid, 1).chances;
	double in, out;

	(void)state;
	assert_near(c.loss / 0x1p32, 0.001, 1e-9);
	assert_int_equal(c.burst_in, 0);
	c = path_with(burst, 2).chances;
	in = c.burst_in / 0x1p32;
	out = c.burst_out / 0x1p32;
	assert_int_equal(c.loss, 0);
	assert_near(in / (in + out), 0.02, 1e-8);
	assert_near(1 / out, 4, 1e-8);
}

static void test_every_random_path_has_a_seed_of_its_own(void **state)
{
	static const struct lh_override o[] = {{"network.paths.0.jitter", "1 ms"},
					       {"run.seed", "2"}};
	struct planned p = plan_of(o, 1);
	uint64_t there = lh_plan_path_at(p.plan, EAST_0, WEST_0)->seed;

	(void)state;
	assert_true(there != 0);
	assert_true(lh_plan_path_at(p.plan, WEST_0, EAST_0)->seed != there);
	assert_true(lh_plan_path_at(p.plan, EAST_1, WEST_0)->seed != there);
	assert_true(lh_plan_path_at(p.plan, EAST_0, EAST_1)->seed == 0);
	planned_done(&p);
	assert_true(path_with(o, 1).seed == there);
	assert_true(path_with(o, 2).seed != there);
}

static void test_nothing_is_promised_where_chance_decides(void **state)
{
	static const char *const keys[] = {"jitter", "loss", "duplicate", "corrupt", "reorder"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
		lh_cleanup_free char *key = lh_strf("network.paths.0.%s", keys[i]);
		const struct lh_override o = {key, i ? "0.1 %" : "1 ms"};

		assert_true(stream_with(&o, 1) == -1);
	}
}

/* 200 Mbit/s times 40 ms of wire is 956 kB of payload in flight. */
static void test_a_window_near_what_the_link_holds_is_not_foretold(void **state)
{
	static const struct {
		const char *window;
		bool foretold;
	} cases[] = {{"500 kB", true}, {"700 kB", false}, {"940 kB", false}, {"1.2 MB", true}};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const struct lh_override o = {"network.stream_window", cases[i].window};
		struct planned p = plan_of(&o, 1);

		assert_int_equal(lh_plan_stream_bps(p.plan, EAST_0, WEST_0) > 0, cases[i].foretold);
		planned_done(&p);
	}
}

static void test_the_trainers_job_says_what_the_scenario_says(void **state)
{
	static const struct lh_override o[] = {
		{"network.paths.0.rtt", "600 s"}, {"run.seed", "9"}, {"workload.micro_batch", "7"}};
	struct planned p = plan_of(o, N_ELEMENTS(o));
	lh_cleanup_json json_t *job = lh_trainer_job(p.plan, 0);
	json_t *rank = json_array_get(json_object_get(job, "ranks"), WEST_0);

	(void)state;
	assert_int_equal(json_integer_value(json_object_get(job, "seed")), 9);
	assert_int_equal(json_integer_value(json_object_get(job, "parameters")), 1000003);
	assert_int_equal(json_integer_value(json_object_get(job, "target_batch")), 960);
	/* long enough to connect and greet over 300 s one way */
	assert_true(json_integer_value(json_object_get(job, "start_timeout_ns")) >
		    INT64_C(4) * 600000000000 / 2);
	assert_int_equal(json_array_size(json_object_get(job, "ranks")), 3);
	assert_string_equal(json_string_value(json_object_get(rank, "node")), "west/0");
	assert_string_equal(json_string_value(json_object_get(rank, "address")), "10.64.0.3");
	assert_int_equal(json_integer_value(json_object_get(rank, "micro_batch")), 7);
	assert_int_equal(json_integer_value(json_object_get(rank, "averaging_bps")), 1000000000);
	planned_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_nanosecond_of_a_round_trip_is_in_one_direction),
		cmocka_unit_test(test_one_way_delays_are_taken_as_written),
		cmocka_unit_test(test_a_queue_holds_what_is_in_flight_and_what_waits),
		cmocka_unit_test(test_the_longest_fattest_path_has_the_largest_queue),
		cmocka_unit_test(test_a_stream_window_becomes_whole_segments),
		cmocka_unit_test(
			test_one_stream_gets_its_window_per_round_trip_or_the_slowest_link),
		cmocka_unit_test(test_coarse_segments_keep_windows_in_bytes),
		cmocka_unit_test(test_nodes_of_one_site_stand_together),
		cmocka_unit_test(test_network_cards_have_floors_and_shares),
		cmocka_unit_test(test_bursts_last_a_millisecond),
		cmocka_unit_test(test_a_node_alone_is_a_plan),
		cmocka_unit_test(test_network_json_has_every_pair),
		cmocka_unit_test(test_chances_give_the_asked_loss_and_burst),
		cmocka_unit_test(test_every_random_path_has_a_seed_of_its_own),
		cmocka_unit_test(test_nothing_is_promised_where_chance_decides),
		cmocka_unit_test(test_a_window_near_what_the_link_holds_is_not_foretold),
		cmocka_unit_test(test_the_trainers_job_says_what_the_scenario_says),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
