/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gossip: its graphs; whole ranks over loopback against the same training in double precision, and
 * against what no order of events may change; ranks that fail, for all strategies with steps of
 * their own.
 */
#include "trainer/strategy/gossip.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/loopback.h"
#include "tests/unit/test.h"
#include "tests/unit/toy_ranks.h"
#include "trainer/strategy/strategy.h"

enum { PARAMETERS = 1003, EPOCHS = 12 };

static const enum lh_gossip_graph graphs[] = {LH_GRAPH_RING, LH_GRAPH_EXPONENTIAL,
					      LH_GRAPH_COMPLETE};

/* ---- graphs ------------------------------------------------------------------------------- */

static void test_every_rank_tells_as_many_as_it_hears(void **state)
{
	(void)state;
	for (size_t g = 0; g < N_ELEMENTS(graphs); g++)
		for (uint32_t n = 1; n <= 40; n++)
			for (uint32_t r = 0; r < n; r++) {
				uint32_t told = 0, heard = 0;

				for (uint32_t s = 0; s < n; s++) {
					told += lh_gossip_has_edge(graphs[g], n, r, s);
					heard += lh_gossip_has_edge(graphs[g], n, s, r);
				}
				assert_false(lh_gossip_has_edge(graphs[g], n, r, r));
				assert_int_equal(told, lh_gossip_degree(graphs[g], n));
				assert_int_equal(heard, told);
			}
	assert_int_equal(lh_gossip_degree(LH_GRAPH_RING, 2), 1);
	assert_int_equal(lh_gossip_degree(LH_GRAPH_RING, 9), 2);
	assert_int_equal(lh_gossip_degree(LH_GRAPH_EXPONENTIAL, 8), 3);
	assert_int_equal(lh_gossip_degree(LH_GRAPH_EXPONENTIAL, 9), 4);
	assert_int_equal(lh_gossip_degree(LH_GRAPH_COMPLETE, 9), 8);
}

static bool has_pair(enum lh_gossip_graph graph, uint32_t n, uint32_t a, uint32_t b)
{
	return lh_gossip_is_pair(graph, n, a, b) || lh_gossip_is_pair(graph, n, b, a);
}

static void test_pairs_join_all_ranks_and_none_both_asks_and_answers(void **state)
{
	(void)state;
	for (size_t g = 0; g < N_ELEMENTS(graphs); g++)
		for (uint32_t n = 2; n <= 40; n++) {
			bool is_reached[40] = {true};
			uint32_t n_reached = 1;

			for (uint32_t round = 0; round < n; round++)
				for (uint32_t a = 0; a < n; a++)
					for (uint32_t b = 0; b < n; b++)
						if (is_reached[a] && !is_reached[b] &&
						    has_pair(graphs[g], n, a, b)) {
							is_reached[b] = true;
							n_reached++;
						}
			assert_int_equal(n_reached, n);
			for (uint32_t a = 0; a < n; a++)
				for (uint32_t b = 0; b < n; b++)
					if (lh_gossip_is_pair(graphs[g], n, a, b))
						assert_true(a % 2 == 0 && b % 2 == 1);
		}
	assert_true(lh_gossip_is_pair(LH_GRAPH_EXPONENTIAL, 32, 0, 5));
	assert_false(lh_gossip_is_pair(LH_GRAPH_EXPONENTIAL, 32, 0, 7));
	assert_false(lh_gossip_is_pair(LH_GRAPH_RING, 16, 0, 3));
}

/* ---- whole ranks -------------------------------------------------------------------------- */

static void set_up(struct toy_world *w, const char *kind, enum lh_gossip_graph graph, uint32_t n,
		   const struct lh_codec_ops *codec)
{
	toy_world_init(w, n, PARAMETERS, EPOCHS);
	w->job.strategy = lh_strategy_find(kind);
	w->job.settings.graph = graph;
	w->job.compress = codec;
}

/* Element i of all ranks' weights after the epochs of D-PSGD; their mean. */
static double gossip_alone(enum lh_gossip_graph graph, uint32_t n, uint64_t i,
			   double ret_own[static TOY_RANKS_MAX])
{
	double weight = 1.0 / (lh_gossip_degree(graph, n) + 1), mean = 0;

	for (uint32_t r = 0; r < n; r++)
		ret_own[r] = toy_first(i);
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
		double next[TOY_RANKS_MAX];

		for (uint32_t r = 0; r < n; r++) {
			next[r] = weight * ret_own[r] - TOY_LR * (ret_own[r] - toy_goal(r, i));
			for (uint32_t s = 0; s < n; s++)
				if (lh_gossip_has_edge(graph, n, s, r))
					next[r] += weight * ret_own[s];
		}
		memcpy(ret_own, next, sizeof(next));
	}
	for (uint32_t r = 0; r < n; r++)
		mean += ret_own[r] / n;
	return mean;
}

/* The rank's distance from the mean, as it must be told. */
static double distance_alone(enum lh_gossip_graph graph, uint32_t n, uint32_t rank)
{
	double apart = 0, all = 0, own[TOY_RANKS_MAX];

	for (uint64_t i = 0; i < PARAMETERS; i++) {
		double mean = gossip_alone(graph, n, i, own);

		apart += (own[rank] - mean) * (own[rank] - mean);
		all += mean * mean;
	}
	return sqrt(apart / all);
}

static double told_distance(const struct toy_world *w, uint32_t rank)
{
	lh_cleanup_json json_t *events = toy_events(w, rank);
	double distance = -1;
	size_t i;
	const json_t *event;

	json_array_foreach (events, i, event)
		if (loopback_is_event(event, "consensus"))
			distance = json_real_value(json_object_get(event, "distance_ratio"));
	return distance;
}

static void check_common(const struct toy_world *w)
{
	for (uint32_t r = 0; r < w->job.n_ranks; r++) {
		assert_int_equal(w->toys[r].n_steps, EPOCHS);
		assert_memory_equal(w->toys[r].weights, w->toys[0].weights,
				    PARAMETERS * sizeof(float));
	}
}

static void test_neighbours_mix_as_worked_out(void **state)
{
	double own[TOY_RANKS_MAX];
	struct toy_world w;

	(void)state;
	for (size_t g = 0; g < N_ELEMENTS(graphs); g++)
		for (uint32_t n = 1; n <= 6; n += n == 3 ? 3 : 1) {
			set_up(&w, "d-psgd", graphs[g], n, &lh_codec_none);
			toy_run(&w);
			check_common(&w);
			for (uint64_t i = 0; i < PARAMETERS; i++)
				assert_near(w.toys[0].weights[i],
					    gossip_alone(graphs[g], n, i, own), 1e-6);
			for (uint32_t r = 0; n > 1 && r < n; r++)
				assert_near(told_distance(&w, r), distance_alone(graphs[g], n, r),
					    1e-5);
			toy_world_done(&w);
		}
}

/* What all ranks together have stepped decides on their mean, whoever averages when with whom, and
 * whatever is lost on the wire. */
static void check_conservation(const struct toy_world *w)
{
	for (uint64_t i = 0; i < PARAMETERS; i++) {
		double mean = toy_first(i);

		for (uint32_t r = 0; r < w->job.n_ranks; r++)
			mean -= TOY_LR * w->toys[r].gradients[i] / w->job.n_ranks;
		assert_near(w->toys[0].weights[i], mean, 2e-6);
	}
}

static void test_no_codec_and_no_order_moves_the_mean(void **state)
{
	static const char *const kinds[] = {"d-psgd", "ad-psgd"};
	struct toy_world w;

	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(kinds); k++)
		for (size_t c = 0; lh_codecs[c]; c++) {
			if (lh_codecs[c]->needs_feedback)
				continue;
			set_up(&w, kinds[k], graphs[c % N_ELEMENTS(graphs)], 5, lh_codecs[c]);
			toy_run(&w);
			check_common(&w);
			check_conservation(&w);
			for (uint32_t r = 0; r < 5; r++)
				assert_true(told_distance(&w, r) >= 0);
			toy_world_done(&w);
		}
}

static void test_what_is_sent_is_received_and_told(void **state)
{
	static const char *const kinds[] = {"d-psgd", "ad-psgd"};
	struct toy_world w;

	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(kinds); k++)
		for (int is_replayed = 0; is_replayed < 2; is_replayed++) {
			int64_t sent = 0, received = 0, checked = 0, traffic = 0;

			set_up(&w, kinds[k], LH_GRAPH_RING, 4, &lh_codec_blockwise8);
			w.is_replayed = is_replayed;
			toy_run(&w);
			for (uint32_t r = 0; r < 4; r++) {
				lh_cleanup_json json_t *events = toy_events(&w, r);
				size_t i, p;
				const json_t *event, *bytes;

				sent += loopback_sum(events, "average", "payload_sent_bytes", NULL);
				received += loopback_sum(events, "average",
							 "payload_received_bytes", NULL);
				checked +=
					loopback_sum(events, "average", "checked_elements", NULL);
				json_array_foreach (events, i, event)
					if (loopback_is_event(event, "traffic"))
						json_array_foreach (
							json_object_get(event, "payload_bytes"), p,
							bytes)
							traffic += json_integer_value(bytes);
			}
			assert_true(sent == received && sent == traffic);
			assert_true(is_replayed ? checked > 0 : checked == 0);
			if (k == 0)
				assert_true(sent ==
					    (int64_t)(EPOCHS * 4 * 2 *
						      lh_codec_blockwise8.wire_bytes(PARAMETERS)) +
						    2 * 3 * PARAMETERS * 4);
			toy_world_done(&w);
		}
}

/* When a rank ended an epoch. */
static int64_t epoch_end_ns(const struct toy_world *w, uint32_t rank, int64_t epoch)
{
	lh_cleanup_json json_t *events = toy_events(w, rank);
	size_t i;
	const json_t *event;

	json_array_foreach (events, i, event)
		if (loopback_is_event(event, "epoch") && loopback_integer(event, "epoch") == epoch)
			return loopback_integer(event, "end_ns");
	fail();
	return 0;
}

static void test_a_slow_rank_holds_up_nobody_before_the_end(void **state)
{
	struct toy_world w;

	(void)state;
	set_up(&w, "ad-psgd", LH_GRAPH_COMPLETE, 4, &lh_codec_none);
	w.toys[1].slow_down = 100; /* not by its profile, from which the shares follow */
	toy_run(&w);
	check_common(&w);
	check_conservation(&w);
	for (uint32_t r = 0; r < 4; r++)
		if (r != 1)
			assert_true(epoch_end_ns(&w, r, EPOCHS - 2) < epoch_end_ns(&w, 1, 3));
	toy_world_done(&w);
}

/* ---- failures ----------------------------------------------------------------------------- */

static void set_up_failure(struct toy_world *w, const char *kind)
{
	toy_world_init(w, 4, PARAMETERS, 100000);
	w->job.strategy = lh_strategy_find(kind);
	w->job.settings.period = 4;
	if (strcmp(kind, "diloco") == 0) {
		w->job.settings.fragments = 2;
		w->job.settings.fragment_delay = 1;
	}
}

/* Waits until a rank has ended some epochs. */
static void wait_for_epochs(const struct toy_world *w, uint32_t rank)
{
	lh_cleanup_free char *path = lh_strf("%s/rank-%u.jsonl", w->dir, rank);
	int64_t deadline_ns = lh_clock_now_ns() + TOY_DEADLINE_S * LH_NS_PER_S;

	for (;;) {
		lh_cleanup_free char *text = NULL;

		if (lh_file_read(path, 1 << 24, &text, NULL, NULL) == 0 &&
		    strstr(text, "\"epoch\":6,"))
			return;
		assert_true(lh_clock_now_ns() < deadline_ns);
		usleep(1000);
	}
}

/* Rank 2 gets the signal after some epochs; the others must end, and say what was the matter. */
static void end_by(int signal_number, const char *expected)
{
	static const char *const kinds[] = {"local-sgd", "diloco", "d-psgd", "ad-psgd"};

	for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
		struct toy_world w;
		bool is_told = false;
		pid_t pid;

		set_up_failure(&w, kinds[k]);
		w.job.settings.timeout_ns = LH_NS_PER_S;
		pid = toy_fork(&w, 2);
		for (uint32_t r = 0; r < 4; r++)
			if (r != 2)
				toy_start(&w, r);
		wait_for_epochs(&w, 2);
		assert_int_equal(kill(pid, signal_number), 0);
		for (uint32_t r = 0; r < 4; r++) {
			if (r == 2)
				continue;
			toy_wait(&w, r);
			assert_int_equal(w.toys[r].rc < 0, 1);
			assert_non_null(strstr(w.toys[r].err.message, "epoch "));
			is_told = is_told || strstr(w.toys[r].err.message, expected);
		}
		if (!is_told)
			fail_msg("%s: %s", kinds[k], w.toys[1].err.message);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		toy_world_done(&w);
	}
}

static void test_a_killed_rank_ends_the_others(void **state)
{
	(void)state;
	end_by(SIGKILL, "rank 2 (room/2)");
}

static void test_a_rank_that_stands_still_is_waited_for_as_long_as_the_timeout(void **state)
{
	(void)state;
	end_by(SIGSTOP, "within 1 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_rank_tells_as_many_as_it_hears),
		cmocka_unit_test(test_pairs_join_all_ranks_and_none_both_asks_and_answers),
		cmocka_unit_test(test_neighbours_mix_as_worked_out),
		cmocka_unit_test(test_no_codec_and_no_order_moves_the_mean),
		cmocka_unit_test(test_what_is_sent_is_received_and_told),
		cmocka_unit_test(test_a_slow_rank_holds_up_nobody_before_the_end),
		cmocka_unit_test(test_a_killed_rank_ends_the_others),
		cmocka_unit_test(
			test_a_rank_that_stands_still_is_waited_for_as_long_as_the_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
