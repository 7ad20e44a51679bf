/* SPDX-License-Identifier: Apache-2.0 */
/* Averagings that remember what they left out, by whole ranks over loopback: onebit and PowerSGD.
 * All ranks get the same bits, and what was left out follows. */
#include "trainer/strategy/compressing.h"

#include <string.h>

#include "core/rng.h"
#include "scenarios/scenario.h"
#include "tests/unit/averaging_world.h"
#include "tests/unit/test.h"
#include "trainer/compress/low_rank.h"
#include "trainer/strategy/strategy.h"

enum { N = 4, GIVING_EPOCHS = 5 };

/* Numbers about 1 in the first epochs, then nothing. */
static void give(const struct averaging_world *world, uint32_t rank, uint32_t epoch,
		 float *ret_gradient)
{
	struct lh_rng rng;
	char stream[32];

	snprintf(stream, sizeof(stream), "%u/%u", rank, epoch);
	lh_rng_init(&rng, 3, stream);
	for (uint64_t i = 0; i < world->job.parameters; i++)
		ret_gradient[i] = epoch < GIVING_EPOCHS ? (float)lh_rng_normal(&rng) : 0;
}

static void assert_same_everywhere(const struct averaging_world *w)
{
	size_t bytes = w->job.parameters * w->job.epochs * sizeof(float);

	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++) {
		if (w->states[rank].code)
			fail_msg("rank %u: %s", rank, w->states[rank].error.message);
		if (w->gradient)
			assert_memory_equal(w->states[rank].averages, w->states[0].averages, bytes);
	}
}

/* The norm of what was given and has not been applied after a number of epochs, over that of all
 * that was given. */
static double missing_after(const struct averaging_world *w, uint32_t n_epochs)
{
	uint64_t n = w->job.parameters;
	double missing = 0, all = 0;

	for (uint64_t i = 0; i < n; i++) {
		double given = 0, applied = 0;

		for (uint32_t rank = 0; rank < w->job.n_ranks; rank++)
			given += (double)w->states[rank].given[i] / w->job.n_ranks;
		for (uint32_t epoch = 0; epoch < n_epochs; epoch++)
			applied += (double)w->states[0].averages[n * epoch + i];
		missing += (given - applied) * (given - applied);
		all += given * given;
	}
	return sqrt(missing / all);
}

static void test_one_bit_a_number_and_the_rest_follows(void **state)
{
	struct averaging_world w;

	(void)state;
	averaging_world_init(&w, N, "butterfly", "onebit");
	w.gradient = give;
	w.job.parameters = 10001;
	w.job.epochs = 60;
	averaging_world_run(&w);
	assert_same_everywhere(&w);
	assert_true(missing_after(&w, GIVING_EPOCHS) > 0.3);
	assert_true(missing_after(&w, 60) < 0.05);
	averaging_world_done(&w);
}

static int64_t formula_of(const struct averaging_world *w)
{
	struct lh_model model = {.parameters = (int64_t)w->job.parameters};
	struct lh_scenario sc = {.n_ranks = w->job.n_ranks, .model = &model};

	sc.workload.strategy.kind = (char *)(uintptr_t)w->job.strategy->name;
	sc.workload.compress.kind = (char *)(uintptr_t)w->job.compressing.kind;
	return lh_scenario_payload_bytes(&sc, 0);
}

static void test_replayed_signs_are_checked(void **state)
{
	static const struct {
		uint32_t n;
		uint64_t parameters;
	} cases[] = {{2, 1000003}, {5, 1000003}, {6, 4}, {3, 12300}};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct averaging_world w;
		int64_t sent = 0, received = 0;

		averaging_world_init(&w, cases[i].n, "butterfly", "onebit");
		w.job.parameters = cases[i].parameters;
		averaging_world_run(&w);
		assert_same_everywhere(&w);
		for (uint32_t rank = 0; rank < cases[i].n; rank++) {
			sent += averaging_world_sum(&w, rank, "payload_sent_bytes");
			received += averaging_world_sum(&w, rank, "payload_received_bytes");
			assert_true(averaging_world_sum(&w, rank, "checked_elements") > 0);
		}
		assert_int_equal(sent, received);
		assert_int_equal(sent, w.job.epochs * formula_of(&w));
		averaging_world_done(&w);
	}
}

static const struct lh_matrix_shape shapes[] = {{20, 30}, {25, 12}, {100, 1}};

static void init_factors(struct averaging_world *w, const char *strategy)
{
	averaging_world_init(w, N, strategy, "powersgd");
	w->shapes = shapes;
	w->n_shapes = N_ELEMENTS(shapes);
	w->gradient = give;
	w->job.epochs = 60;
}

static void test_factors_travel_and_the_rest_follows(void **state)
{
	static const char *const strategies[] = {"butterfly", "ring",  "halving-doubling",
						 "tree",      "torus", "hierarchical"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(strategies); i++) {
		struct averaging_world w;
		int64_t sent = 0;

		init_factors(&w, strategies[i]);
		w.job.settings.segment_bytes = 256;
		w.job.settings.dimensions[0] = w.job.settings.dimensions[1] = 2;
		w.job.settings.n_dimensions = 2;
		w.job.settings.has_site_level = true;
		snprintf(w.ranks[1].site, sizeof(w.ranks[1].site), "hall");
		averaging_world_run(&w);
		assert_same_everywhere(&w);
		assert_true(missing_after(&w, GIVING_EPOCHS) > 0.3);
		assert_true(missing_after(&w, 60) < 0.05);
		for (uint32_t rank = 0; rank < N; rank++)
			sent += averaging_world_sum(&w, rank, "payload_sent_bytes");
		/* two columns of each matrix' sides, and the vector */
		assert_int_equal(sent,
				 60 * 2 * (N - 1) * 4 * (2 * (20 + 25) + 100 + 2 * (30 + 12)));
		averaging_world_done(&w);
	}
}

static void test_without_feedback_the_rest_is_lost(void **state)
{
	struct averaging_world w;

	(void)state;
	init_factors(&w, "ring");
	w.job.compressing.feedback = false;
	averaging_world_run(&w);
	assert_same_everywhere(&w);
	assert_true(missing_after(&w, 60) > 0.3);
	averaging_world_done(&w);
}

/* Where the mean gradient is of rank 2, nothing is left out once Q has found it. */
static void give_of_rank_two(const struct averaging_world *world, uint32_t rank, uint32_t epoch,
			     float *ret_gradient)
{
	(void)epoch;
	for (uint64_t i = 0; i < world->job.parameters; i++) {
		double row = (double)(i / 20), column = (double)(i % 20);

		ret_gradient[i] = (float)(sin(row + rank) * cos(column));
	}
}

static void test_a_mean_of_low_rank_is_exact(void **state)
{
	static const struct lh_matrix_shape square = {50, 20};
	struct averaging_world w;
	const float *average;

	(void)state;
	averaging_world_init(&w, N, "ring", "powersgd");
	w.shapes = &square;
	w.n_shapes = 1;
	w.gradient = give_of_rank_two;
	w.job.epochs = 2;
	averaging_world_run(&w);
	assert_same_everywhere(&w);
	average = w.states[0].averages;
	for (uint64_t i = 0; i < w.job.parameters; i++) {
		double mean = 0;

		for (uint32_t rank = 0; rank < N; rank++)
			mean += sin((double)(i / 20) + rank) * cos((double)(i % 20)) / N;
		assert_near(average[i], mean, 1e-5);
		assert_near(average[w.job.parameters + i], mean, 1e-5);
	}
	averaging_world_done(&w);
}

static void test_what_does_not_go_together_is_refused(void **state)
{
	static const struct {
		const char *strategy, *compressor;
		enum lh_balance balance;
		bool fits;
	} cases[] = {
		{"ring", "fp16", LH_BALANCE_DYNAMIC, true},
		{"ring", "powersgd", LH_BALANCE_FIXED, true},
		{"ring", "powersgd", LH_BALANCE_DYNAMIC, false},
		{"sparse-allgather", "powersgd", LH_BALANCE_FIXED, false},
		{"butterfly", "onebit", LH_BALANCE_DYNAMIC, true},
		{"ring", "onebit", LH_BALANCE_FIXED, false},
		{"ring", "topk", LH_BALANCE_FIXED, false},
		{"sparse-allgather", "topk", LH_BALANCE_FIXED, true},
		{"sparse-allgather", "topk", LH_BALANCE_DYNAMIC, true},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_error err = {0};
		struct lh_job job = {
			.strategy = lh_strategy_find(cases[i].strategy),
			.compress = lh_compressing_codec(cases[i].compressor),
			.settings = {.balance = cases[i].balance},
		};

		snprintf(job.compressing.kind, sizeof(job.compressing.kind), "%s",
			 cases[i].compressor);
		if ((lh_compressing_check(&job, &err) == 0) != cases[i].fits)
			fail_msg("%s over %s: %s", cases[i].compressor, cases[i].strategy,
				 err.message);
	}
	assert_null(lh_compressing_codec("zip"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_bit_a_number_and_the_rest_follows),
		cmocka_unit_test(test_replayed_signs_are_checked),
		cmocka_unit_test(test_factors_travel_and_the_rest_follows),
		cmocka_unit_test(test_without_feedback_the_rest_is_lost),
		cmocka_unit_test(test_a_mean_of_low_rank_is_exact),
		cmocka_unit_test(test_what_does_not_go_together_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
