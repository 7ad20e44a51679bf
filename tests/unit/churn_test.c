/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that come, go and slow down: what the timeline, late starts and spot interruptions become.
 */
#include "tests/unit/scenario_fixture.h"

#include <math.h>

#include "emulator/engine.h"
#include "emulator/plan.h"

enum { EAST_0, EAST_1, WEST_0 };

#define S INT64_C(1000000000)

/* small_scenario with more behind it; owned by the caller. */
static struct lh_scenario *scenario_with(const char *more)
{
	lh_cleanup_free char *text = lh_strf("%s%s", small_scenario, more);

	return fixture_read_ok(text, NULL, 0);
}

static void assert_absence(const struct lh_scenario *sc, size_t i, size_t node, int64_t from_ns,
			   int64_t to_ns, int64_t notice_ns, enum lh_absence_cause cause)
{
	const struct lh_absence *a = &sc->absences[i];

	assert_true(i < sc->n_absences);
	assert_int_equal(a->node, node);
	assert_true(a->from_ns == from_ns && a->to_ns == to_ns && a->notice_ns == notice_ns);
	assert_int_equal(a->cause, cause);
}

static void test_events_become_absences_in_order_of_time(void **state)
{
	struct lh_scenario *sc = scenario_with("timeline:\n"
					       "  - {at: 40 s, preempt: west, notice: 30 s}\n"
					       "  - {at: 10 s, preempt: east, return_after: 5 s}\n"
					       "  - {at: 2 s, join: [east/1, west/0]}\n");

	(void)state;
	assert_int_equal(sc->n_absences, 5);
	assert_absence(sc, 0, EAST_1, -1, 2 * S, 0, LH_AWAY_BY_LATE_START);
	assert_absence(sc, 1, WEST_0, -1, 2 * S, 0, LH_AWAY_BY_LATE_START);
	assert_absence(sc, 2, EAST_0, 10 * S, 15 * S, 0, LH_AWAY_BY_TIMELINE);
	assert_absence(sc, 3, EAST_1, 10 * S, 15 * S, 0, LH_AWAY_BY_TIMELINE);
	assert_absence(sc, 4, WEST_0, 40 * S, INT64_MAX, 30 * S, LH_AWAY_BY_TIMELINE);
	lh_scenario_free(sc);
}

static void test_nodes_that_join_late_are_absent_until_then(void **state)
{
	static const struct lh_override o[] = {{"nodes.1.joins_at", "120 s"}};
	struct lh_scenario *sc = fixture_read_ok(small_scenario, o, 1);

	(void)state;
	assert_int_equal(sc->n_absences, 1);
	assert_absence(sc, 0, WEST_0, -1, 120 * S, 0, LH_AWAY_BY_LATE_START);
	lh_scenario_free(sc);
}

static void test_slowdowns_reach_the_job_of_their_rank(void **state)
{
	struct lh_scenario *sc = scenario_with("timeline:\n"
					       "  - {at: 9 s, slow: east/1, factor: 2}\n"
					       "  - {at: 1 s, slow: east, factor: 3, for: 4 s}\n");
	struct lh_error err = {0};
	struct lh_plan *plan = NULL;
	json_t *job, *ranks, *spans;

	(void)state;
	assert_int_equal(sc->n_slowdowns, 3);
	assert_int_equal(sc->n_absences, 0);
	assert_int_equal(lh_plan_build(sc, &plan, &err), 0);
	job = lh_trainer_job(plan, 100 * S);
	ranks = json_object_get(job, "ranks");
	assert_null(json_object_get(json_array_get(ranks, WEST_0), "slow"));
	spans = json_object_get(json_array_get(ranks, EAST_1), "slow");
	assert_int_equal(json_array_size(spans), 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(spans, 0), "from_ns")),
			 101 * S);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(spans, 0), "to_ns")),
			 105 * S);
	assert_near(json_number_value(json_object_get(json_array_get(spans, 0), "factor")), 3, 0);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(spans, 1), "from_ns")),
			 109 * S);
	assert_true(json_integer_value(json_object_get(json_array_get(spans, 1), "to_ns")) ==
		    INT64_MAX);
	json_decref(job);
	lh_plan_free(plan);
	lh_scenario_free(sc);
}

/* ---- spot -------------------------------------------------------------------------------- */

static const char spot[] =
	"spot: {mean_time_to_preemption: 100 s, mean_return: 20 s, for: 200 h, notice: 3 s}\n";

/* Whether two scenarios have the same absences of a node. */
static bool has_same(const struct lh_scenario *a, const struct lh_scenario *b, size_t node)
{
	size_t i = 0, k = 0;

	for (;; i++, k++) {
		while (i < a->n_absences && a->absences[i].node != node)
			i++;
		while (k < b->n_absences && b->absences[k].node != node)
			k++;
		if (i == a->n_absences || k == b->n_absences)
			return i == a->n_absences && k == b->n_absences;
		if (a->absences[i].from_ns != b->absences[k].from_ns ||
		    a->absences[i].to_ns != b->absences[k].to_ns)
			return false;
	}
}

static void test_drawn_times_are_exponential_with_the_means(void **state)
{
	struct lh_scenario *sc = scenario_with(spot);
	double up = 0, up_2 = 0, away = 0, n = 0;
	int64_t back_ns[3] = {0};

	(void)state;
	for (size_t i = 0; i < sc->n_absences; i++) {
		const struct lh_absence *a = &sc->absences[i];
		double u = (double)(a->from_ns - back_ns[a->node]) / 1e9;

		assert_true(u >= 1e-3 && a->to_ns > a->from_ns && a->notice_ns == 3 * S);
		assert_true(a->from_ns % 1000000 == 0 && a->to_ns % 1000000 == 0);
		assert_true(i == 0 || a->from_ns >= a[-1].from_ns);
		back_ns[a->node] = a->to_ns;
		up += u;
		up_2 += u * u;
		away += (double)(a->to_ns - a->from_ns) / 1e9;
		n++;
	}
	/* 3 nodes of 200 h in turns of 120 s: 18,000, whose mean has an error of 1 / sqrt(n) */
	assert_near(n, 18000, 5 * sqrt(18000));
	assert_near(up / n, 100, 5 * 100 / sqrt(n));
	assert_near(away / n, 20, 5 * 20 / sqrt(n));
	/* as wide as long */
	assert_near(sqrt(up_2 / n - up / n * (up / n)), 100, 5 * 100 * sqrt(2 / n));
	lh_scenario_free(sc);
}

static void test_a_seed_draws_the_same_and_each_node_has_its_own_stream(void **state)
{
	static const struct lh_override more[] = {{"nodes.1.count", "2"}};
	lh_cleanup_free char *text = lh_strf("%s%s", small_scenario, spot);
	char *at = strstr(text, "    - {between: [east, east]");
	lh_cleanup_free char *with_path =
		lh_strf("%.*s    - {between: [west, west], rtt: 1 ms, bandwidth: 1 Gbit/s}\n%s",
			(int)(at - text), text, at);
	struct lh_scenario *a = scenario_with(spot), *b = scenario_with(spot);
	struct lh_scenario *larger = fixture_read_ok(with_path, more, 1);
	struct lh_error err = {0};

	(void)state;
	for (size_t node = 0; node < 3; node++)
		assert_true(has_same(a, b, node));
	assert_int_equal(larger->n_nodes, 4);
	for (size_t node = 0; node < 3; node++)
		assert_true(has_same(a, larger, node));
	assert_int_equal(lh_scenario_set_seed(b, 2, &err), 0);
	for (size_t node = 0; node < 3; node++)
		assert_false(has_same(a, b, node));
	assert_int_equal(lh_scenario_set_seed(b, 1, &err), 0);
	for (size_t node = 0; node < 3; node++)
		assert_true(has_same(a, b, node));
	lh_scenario_free(a);
	lh_scenario_free(b);
	lh_scenario_free(larger);
}

static void test_what_is_written_stands_and_what_is_drawn_gives_way(void **state)
{
	lh_cleanup_free char *text =
		lh_strf("%stimeline:\n"
			"  - {at: 1000 s, preempt: east/0, return_after: 5000 s}\n"
			"  - {at: 3 h, preempt: west/0}\n",
			spot);
	struct lh_scenario *sc = scenario_with(text);
	size_t n_written = 0, n_east_0 = 0;

	(void)state;
	for (size_t i = 0; i < sc->n_absences; i++) {
		const struct lh_absence *a = &sc->absences[i];

		n_written += a->cause == LH_AWAY_BY_TIMELINE;
		n_east_0 += a->node == EAST_0;
		if (a->cause != LH_AWAY_BY_SPOT)
			continue;
		if (a->node == EAST_0)
			assert_true(a->to_ns < 1000 * S || a->from_ns > 6000 * S);
		if (a->node == WEST_0)
			assert_true(a->to_ns < 10800 * S);
	}
	assert_int_equal(n_written, 2);
	assert_true(n_east_0 > 1000);
	lh_scenario_free(sc);
}

static void test_without_a_return_each_node_goes_once(void **state)
{
	struct lh_scenario *sc =
		scenario_with("spot: {mean_time_to_preemption: 1 h, for: 240 h, nodes: east}\n");

	(void)state;
	assert_int_equal(sc->n_absences, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_true(sc->absences[i].node != WEST_0);
		assert_true(sc->absences[i].to_ns == INT64_MAX);
	}
	lh_scenario_free(sc);
}

static void test_a_table_says_who_goes_and_comes_when(void **state)
{
	struct lh_scenario *sc = scenario_with("spot:\n"
					       "  notice: 2 s\n"
					       "  table: |\n"
					       "    time_s,node,event\n"
					       "    1.5,east/0,preempt\n"
					       "    2,west/0,preempt\n"
					       "    2.25,east/0,return\n"
					       "    9,east/0,preempt\n");

	(void)state;
	assert_int_equal(sc->n_absences, 3);
	assert_absence(sc, 0, EAST_0, 3 * S / 2, 9 * S / 4, 2 * S, LH_AWAY_BY_SPOT);
	assert_absence(sc, 1, WEST_0, 2 * S, INT64_MAX, 2 * S, LH_AWAY_BY_SPOT);
	assert_absence(sc, 2, EAST_0, 9 * S, INT64_MAX, 2 * S, LH_AWAY_BY_SPOT);
	lh_scenario_free(sc);
}

/* What run.json holds gives the same run again. */
static void test_a_resolved_document_repeats_them(void **state)
{
	lh_cleanup_free char *text = lh_strf("%stimeline:\n"
					     "  - {at: 5 s, slow: [east/0], factor: 2}\n"
					     "  - {at: 220 h, preempt: west}\n",
					     spot);
	struct lh_scenario *a = scenario_with(text), *b = NULL;
	struct lh_diag diag = {0};
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_scenario_from_json("run.json", a->resolved, &b, &diag, &err), 0);
	assert_int_equal(a->n_absences, b->n_absences);
	for (size_t node = 0; node < 3; node++)
		assert_true(has_same(a, b, node));
	assert_int_equal(b->n_slowdowns, 1);
	lh_diag_done(&diag);
	lh_scenario_free(a);
	lh_scenario_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_become_absences_in_order_of_time),
		cmocka_unit_test(test_nodes_that_join_late_are_absent_until_then),
		cmocka_unit_test(test_slowdowns_reach_the_job_of_their_rank),
		cmocka_unit_test(test_drawn_times_are_exponential_with_the_means),
		cmocka_unit_test(test_a_seed_draws_the_same_and_each_node_has_its_own_stream),
		cmocka_unit_test(test_what_is_written_stands_and_what_is_drawn_gives_way),
		cmocka_unit_test(test_without_a_return_each_node_goes_once),
		cmocka_unit_test(test_a_table_says_who_goes_and_comes_when),
		cmocka_unit_test(test_a_resolved_document_repeats_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
