/* SPDX-License-Identifier: Apache-2.0 */
/* What changes when: events, traces and cut-offs against what is written, and what follows. */
#include "emulator/timeline.h"

#include "core/rng.h"
#include "emulator/engine.h"
#include "tests/unit/scenario_fixture.h"

enum { EAST_0, EAST_1, WEST_0, N_NODES };

#define S INT64_C(1000000000)
#define MS INT64_C(1000000)

/* A plan with a timeline, its schedule, and the scenario under it. */
struct timed {
	struct lh_scenario *sc;
	struct lh_plan *plan;
	struct lh_timeline *timeline;
};

/* The small scenario, from whose paths `path` stands in place of the first, with events. */
static struct timed timed_of(const char *path, const char *events)
{
	static const char first[] =
		"    - {between: [east, west], rtt: 40 ms, bandwidth: 200 Mbit/s}\n";
	const char *at = strstr(small_scenario, first);
	lh_cleanup_free char *text =
		lh_strf("%.*s%s%stimeline:\n%s", (int)(at - small_scenario), small_scenario,
			path ? path : first, at + strlen(first), events);
	struct timed t = {fixture_read_ok(text, NULL, 0), NULL, NULL};
	struct lh_error err = {0};

	assert_int_equal(lh_plan_build(t.sc, &t.plan, &err), 0);
	assert_int_equal(lh_timeline_new(t.plan, &t.timeline, &err), 0);
	return t;
}

static void timed_done(struct timed *t)
{
	lh_timeline_free(t->timeline);
	lh_plan_free(t->plan);
	lh_scenario_free(t->sc);
}

/* Goes on to until_ns, or to the end; on the way only netem's own rate comes back. */
static void pass_catching_up(struct timed *t, int64_t until_ns)
{
	const struct lh_net_change *changes;
	struct lh_error err = {0};
	size_t n;

	while (lh_timeline_next_ns(t->timeline) < until_ns) {
		assert_int_equal(lh_timeline_step(t->timeline, &changes, &n, &err), 0);
		for (size_t i = 0; i < n; i++)
			assert_false(changes[i].path->catches_up || changes[i].is_faster);
	}
}

/* Goes on to the next change, which is at at_ns; how many pairs change. */
static size_t step(struct timed *t, int64_t at_ns, const struct lh_net_change **ret)
{
	struct lh_error err = {0};
	size_t n = 0;

	pass_catching_up(t, at_ns);
	assert_true(lh_timeline_next_ns(t->timeline) == at_ns);
	assert_int_equal(lh_timeline_step(t->timeline, ret, &n, &err), 0);
	return n;
}

/* What a pair has from now on; it must be among the changes. */
static const struct lh_plan_path *changed(const struct lh_net_change *changes, size_t n,
					  size_t from, size_t to)
{
	for (size_t i = 0; i < n; i++)
		if (changes[i].from == from && changes[i].to == to)
			return changes[i].path;
	fail_msg("%zu to %zu does not change", from, to);
	return NULL;
}

/* Whether what may wait at a slow bottleneck, with the frame that it lets go, is so much. */
static bool holds(const struct lh_plan_path *p, double bytes)
{
	double limit = p->bottleneck.limit_bytes + 1514.0;

	return limit <= bytes + 1 && limit > bytes - 100;
}

static void test_an_event_begins_and_ends_to_the_nanosecond(void **state)
{
	struct timed t =
		timed_of(NULL, "  - {at: 1.5 s, path: [west, east], rtt: 7 ns, bandwidth: 5 Mbit/s,"
			       " for: 3 ns}\n");
	const struct lh_net_change *c;
	size_t n;

	(void)state;
	n = step(&t, 1500 * MS, &c);
	assert_int_equal(n, 4);
	/* every nanosecond of the round trip is in one direction */
	assert_true(changed(c, n, EAST_1, WEST_0)->delay_ns == 4);
	assert_true(changed(c, n, WEST_0, EAST_1)->delay_ns == 3);
	assert_true(changed(c, n, WEST_0, EAST_0)->bandwidth_bps == 5000000);
	assert_true(changed(c, n, WEST_0, EAST_0)->bottleneck.bandwidth_bps == 5000000);
	n = step(&t, 1500 * MS + 3, &c);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		assert_true(c[i].path->delay_ns == 20 * MS);
		assert_true(c[i].path->bandwidth_bps == 200000000);
		assert_true(c[i].is_faster);
	}
	timed_done(&t);
}

static void test_one_direction_changes_alone(void **state)
{
	struct timed t = timed_of(NULL, "  - {at: 1 s, from: east, to: west, delay: 1 ms,"
					" for: 1 s}\n");
	const struct lh_net_change *c;

	(void)state;
	assert_int_equal(step(&t, 1 * S, &c), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(c[i].to, WEST_0);
		assert_true(c[i].path->delay_ns == 1 * MS);
		assert_false(c[i].is_faster);
	}
	assert_int_equal(step(&t, 2 * S, &c), 2);
	pass_catching_up(&t, INT64_MAX);
	assert_true(lh_timeline_next_ns(t.timeline) == INT64_MAX);
	timed_done(&t);
}

static void
test_what_is_open_ended_holds_until_the_next_and_comes_back_after_what_is_not(void **state)
{
	struct timed t = timed_of(NULL, "  - {at: 1 s, path: [east, west], loss: 1 %}\n"
					"  - {at: 5 s, path: [east, west], loss: 3 %}\n"
					"  - {at: 2 s, path: [east, west], loss: 2 %, for: 1 s}\n");
	static const struct {
		int64_t at_s;
		double ratio;
	} expected[] = {{1, 0.01}, {2, 0.02}, {3, 0.01}, {5, 0.03}};
	const struct lh_net_change *c;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
		size_t n = step(&t, expected[i].at_s * S, &c);

		assert_int_equal(changed(c, n, EAST_0, WEST_0)->chances.loss,
				 (uint32_t)(expected[i].ratio * 0x1p32 + 0.5));
	}
	assert_true(lh_timeline_next_ns(t.timeline) == INT64_MAX);
	timed_done(&t);
}

static void test_a_site_that_is_cut_off_loses_all_but_what_is_inside(void **state)
{
	struct timed t = timed_of("    - {between: [east, west], rtt: 40 ms, bandwidth: 1 Gbit/s,"
				  " loss: 1 %, loss_burst: 3, duplicate: 2 %}\n",
				  "  - {at: 0 s, site: east, cut_off: true, for: 30 s}\n");
	const struct lh_net_change *c;
	size_t n;

	(void)state;
	n = step(&t, 0, &c);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		assert_true(c[i].from == WEST_0 || c[i].to == WEST_0);
		assert_int_equal(c[i].path->chances.loss, UINT32_MAX);
		/* netem would let one of two pass */
		assert_int_equal(c[i].path->chances.duplicate, 0);
		assert_int_equal(c[i].path->chances.burst_in, 0);
	}
	n = step(&t, 30 * S, &c);
	assert_int_equal(n, 4);
	assert_memory_equal(&c[0].path->chances,
			    &lh_plan_path_at(t.plan, c[0].from, c[0].to)->chances,
			    sizeof(struct lh_plan_chances));
	/* TCP tries again after as long as it has waited; trainers must wait for that */
	assert_true(lh_plan_longest_outage_ns(t.plan) == 30 * S);
	assert_true(lh_start_timeout_ns(t.plan) >= 30 * S + 2 * 30 * S);
	timed_done(&t);
}

static void test_a_trace_is_followed_and_repeats(void **state)
{
	struct timed t = timed_of(
		NULL, "  - {at: 10 s, from: west, to: east, trace: {repeat: true, table: "
		      "\"rate_mbps,time_s,delay_ms\\r\\n8,0,1\\n0,0.25,2.5\\n\\n4.5,1,3\\n\"}}\n");
	static const struct {
		int64_t at_ns, delay_ns, bandwidth_bps;
	} rows[] = {{0, 1 * MS, 8000000}, {250 * MS, 2500000, 0}, {1 * S, 3 * MS, 4500000}};
	const struct lh_net_change *c;

	(void)state;
	for (int i = 0; i < 10; i++) {
		/* the last lasts as long as the one before it */
		int64_t at = 10 * S + i / 3 * 1750 * MS + rows[i % 3].at_ns;
		size_t n = step(&t, at, &c);
		const struct lh_plan_path *p = changed(c, n, WEST_0, EAST_1);

		assert_int_equal(n, 2);
		assert_true(p->delay_ns == rows[i % 3].delay_ns);
		assert_true(p->bandwidth_bps == rows[i % 3].bandwidth_bps);
		/* where nothing passes the queue is as long as ever, and netem stays quick */
		assert_true(p->bottleneck.bandwidth_bps >= 8);
		assert_true(holds(p, (8.0 * 250 + 4.5 * 750) / 1750 * 1e6 / 8 * 0.2));
		assert_true(lh_plan_netem_bps(p) >= 4500000);
	}
	assert_true(lh_plan_longest_outage_ns(t.plan) == 750 * MS);
	timed_done(&t);
}

static void test_a_trace_of_the_network_holds_from_the_start_and_events_go_before_it(void **state)
{
	struct timed t =
		timed_of("    - {between: [east, west], rtt: 40 ms, bandwidth: 1 Gbit/s, trace:"
			 " {table: \"time_s,loss_ratio\\n1,0.25\\n3,0.5\"}}\n",
			 "  - {at: 2 s, path: [east, west], loss: 100 %, for: 2 s}\n");
	static const struct {
		int64_t at_s;
		uint32_t loss;
	} expected[] = {{1, 1u << 30}, {2, UINT32_MAX}, {3, 0}, {4, 1u << 31}};
	const struct lh_net_change *c;

	(void)state;
	assert_int_equal(lh_plan_path_at(t.plan, EAST_0, WEST_0)->chances.loss, 0);
	assert_int_equal(step(&t, 0, &c), 0);
	for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
		size_t n = step(&t, expected[i].at_s * S, &c);

		assert_int_equal(n, expected[i].loss ? 4 : 0);
		if (n)
			assert_int_equal(c[0].path->chances.loss, expected[i].loss);
	}
	assert_true(lh_timeline_next_ns(t.timeline) == INT64_MAX);
	timed_done(&t);
}

/* A file with text, whose name is written over the XXXXXX at the end of path. */
static void write_file(char *path, const char *text)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void test_a_packet_delivery_trace_keeps_every_packet(void **state)
{
	char path[] = "/tmp/lh-test-XXXXXX";
	lh_cleanup_free char *text = calloc(1 << 16, 1);
	lh_cleanup_free char *events = NULL;
	struct lh_rng rng;
	int64_t ms = 1, n_lines = 0;
	double bits = 0;
	struct timed t;

	(void)state;
	lh_rng_init(&rng, 1, "packets");
	/* bursts, single packets, and half a second of nothing */
	while (ms < 2345) {
		sprintf(text + strlen(text), "%lld\n", (long long)ms);
		n_lines++;
		ms += lh_rng_below(&rng, 3) ? 0 : (int64_t)lh_rng_below(&rng, 9);
		if (ms > 1000 && ms < 1500)
			ms = 1500;
	}
	sprintf(text + strlen(text), "2345\n");
	n_lines++;
	write_file(path, text);
	events = lh_strf("  - {at: 0 s, path: [east, west], trace: {mahimahi: %s, "
			 "interval: 20 ms}}\n",
			 path);
	t = timed_of(NULL, events);
	unlink(path);
	{
		const struct lh_trace *trace = &t.sc->events[0].trace;
		bool is_quiet = false;

		assert_true(trace->repeat && trace->length_ns == 2345 * MS);
		for (size_t i = 0; i < trace->n_rows; i++) {
			int64_t end =
				i + 1 < trace->n_rows ? trace->rows[i + 1].at_ns : trace->length_ns;

			bits += (double)trace->rows[i].bandwidth_bps *
				(double)(end - trace->rows[i].at_ns) / 1e9;
			is_quiet |= !trace->rows[i].bandwidth_bps &&
				    trace->rows[i].at_ns <= 1020 * MS && end >= 1480 * MS;
		}
		assert_true(is_quiet);
		assert_true(bits > (double)n_lines * 1514 * 8 * (1 - 1e-6) &&
			    bits < (double)n_lines * 1514 * 8 * (1 + 1e-6));
	}
	/* all of it stands in the document, so that a rerun needs no file */
	{
		struct lh_scenario *again = NULL;
		struct lh_diag diag = {0};
		struct lh_error err = {0};

		assert_int_equal(
			lh_scenario_from_json("run.json", t.sc->resolved, &again, &diag, &err), 0);
		assert_int_equal(again->events[0].trace.n_rows, t.sc->events[0].trace.n_rows);
		assert_true(json_equal(again->resolved, t.sc->resolved));
		lh_scenario_free(again);
	}
	timed_done(&t);
}

static void test_the_plan_reckons_with_all_that_comes(void **state)
{
	struct timed t =
		timed_of(NULL,
			 "  - {at: 1 s, path: [east, west], rtt: 3 s, for: 1 s}\n"
			 "  - {at: 4 s, path: [east, west], bandwidth: 900 Mbit/s, for: 1 s}\n"
			 "  - {at: 8 s, path: [east, west], jitter: 2 ms, loss: 1 %, for: 1 s}\n");
	const struct lh_plan_path *p = lh_plan_path_at(t.plan, EAST_0, WEST_0);
	const struct lh_net_change *c = NULL;
	size_t n = 0;

	(void)state;
	assert_true(lh_plan_longest_rtt_ns(t.plan) == 3 * S);
	assert_true(p->seed != 0 && p->varies && p->late_table && !p->jitter);
	assert_true((double)p->limit_pkts >= 900e6 / 8 * 1.5 / LH_PURE_ACK_BYTES);
	assert_true(lh_plan_may_ever_repeat(t.plan, EAST_0, WEST_0));
	assert_false(lh_plan_may_ever_repeat(t.plan, EAST_0, EAST_1));
	for (int64_t at = 1; at <= 9; at++) {
		if (at == 3 || at == 6 || at == 7)
			continue;
		n = step(&t, at * S, &c);
		/* netem's room never changes: what is under way keeps it */
		assert_int_equal(changed(c, n, EAST_0, WEST_0)->limit_pkts, p->limit_pkts);
		if (at == 8) {
			const struct lh_jitter_table *j = changed(c, n, EAST_0, WEST_0)->jitter;

			assert_true(j && j->sd_ns > 1.999e6 && j->sd_ns < 2.001e6);
			assert_memory_equal(j->entries, p->late_table->entries, sizeof(j->entries));
		}
	}
	assert_null(changed(c, n, EAST_0, WEST_0)->jitter);
	timed_done(&t);
}

static void test_a_path_that_gets_slow_lets_whole_super_packets_go_first(void **state)
{
	struct timed t = timed_of("    - {between: [east, west], rtt: 40 ms, bandwidth: 1 Gbit/s,"
				  " queue: 100 ms}\n",
				  "  - {at: 1 s, path: [east, west], bandwidth: 50 Mbit/s,"
				  " for: 100 s}\n");
	const struct lh_net_change *c;
	const struct lh_plan_path *p;
	size_t n;

	(void)state;
	assert_int_equal(lh_plan_path_at(t.plan, EAST_0, WEST_0)->uncut_bytes,
			 LH_SUPER_PACKET_BYTES);
	n = step(&t, 1 * S, &c);
	p = changed(c, n, EAST_0, WEST_0);
	assert_int_equal(p->uncut_bytes, 1514);
	assert_true(holds(p, 625000));
	assert_true(p->bottleneck.burst_bytes >= LH_SUPER_PACKET_BYTES);
	assert_true(lh_plan_netem_bps(p) > 1000000000);
	/* netem has caught up first; then the 12.5 MB that may have waited have left */
	assert_true(lh_timeline_next_ns(t.timeline) < 1 * S + 10 * MS);
	n = step(&t, lh_timeline_next_ns(t.timeline), &c);
	assert_true(lh_plan_netem_bps(changed(c, n, EAST_0, WEST_0)) == 50000000);
	assert_true(lh_timeline_next_ns(t.timeline) > 1 * S + 2 * S);
	n = step(&t, lh_timeline_next_ns(t.timeline), &c);
	assert_int_equal(n, 4);
	assert_true(changed(c, n, EAST_0, WEST_0)->bottleneck.burst_bytes < 2 * 1514);
	n = step(&t, 101 * S, &c);
	assert_int_equal(changed(c, n, EAST_0, WEST_0)->uncut_bytes, LH_SUPER_PACKET_BYTES);
	pass_catching_up(&t, INT64_MAX);
	timed_done(&t);
}

/* netem sends nothing before what came earlier: where the way gets shorter it must not hold a rate
 * until that has arrived, or a busy path would stay late. */
static void test_a_shorter_way_is_caught_up_with(void **state)
{
	struct timed t = timed_of(NULL, "  - {at: 1 s, path: [east, west], rtt: 4 ms}\n");
	const struct lh_net_change *c;
	size_t n;

	(void)state;
	n = step(&t, 1 * S, &c);
	assert_true(lh_plan_netem_bps(changed(c, n, EAST_0, WEST_0)) > 1000000000000);
	assert_true(lh_timeline_next_ns(t.timeline) >= 1 * S + 18 * MS &&
		    lh_timeline_next_ns(t.timeline) < 1 * S + 20 * MS);
	n = step(&t, lh_timeline_next_ns(t.timeline), &c);
	assert_int_equal(n, 4);
	assert_true(lh_plan_netem_bps(changed(c, n, EAST_0, WEST_0)) == 200000000);
	assert_true(lh_timeline_next_ns(t.timeline) == INT64_MAX);
	timed_done(&t);
}

static void test_a_scenario_without_changes_has_no_timeline(void **state)
{
	struct lh_scenario *sc = fixture_read_ok(small_scenario, NULL, 0);
	struct lh_timeline *timeline;
	struct lh_plan *plan = NULL;
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_plan_build(sc, &plan, &err), 0);
	assert_int_equal(lh_timeline_new(plan, &timeline, &err), 0);
	assert_null(timeline);
	assert_true(lh_timeline_due_ns(NULL) == INT64_MAX);
	assert_int_equal(lh_timeline_run(NULL, &err), 0);
	lh_plan_free(plan);
	lh_scenario_free(sc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_event_begins_and_ends_to_the_nanosecond),
		cmocka_unit_test(test_one_direction_changes_alone),
		cmocka_unit_test(
			test_what_is_open_ended_holds_until_the_next_and_comes_back_after_what_is_not),
		cmocka_unit_test(test_a_site_that_is_cut_off_loses_all_but_what_is_inside),
		cmocka_unit_test(test_a_trace_is_followed_and_repeats),
		cmocka_unit_test(
			test_a_trace_of_the_network_holds_from_the_start_and_events_go_before_it),
		cmocka_unit_test(test_a_packet_delivery_trace_keeps_every_packet),
		cmocka_unit_test(test_the_plan_reckons_with_all_that_comes),
		cmocka_unit_test(test_a_path_that_gets_slow_lets_whole_super_packets_go_first),
		cmocka_unit_test(test_a_shorter_way_is_caught_up_with),
		cmocka_unit_test(test_a_scenario_without_changes_has_no_timeline),
	};

	return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
