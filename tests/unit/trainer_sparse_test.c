/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse averaging by whole ranks over loopback: what is applied and what is kept are what there
 * was, all ranks get the same bits, and messages are as long as they must be. */
#include "trainer/strategy/sparse_form.h"

#include <string.h>

#include "core/rng.h"
#include "scenarios/scenario.h"
#include "tests/unit/averaging_world.h"
#include "tests/unit/test.h"
#include "trainer/strategy/strategy.h"

enum { N = 4, EPOCHS = 15, GIVING_EPOCHS = 5 };

static const char *const kinds[] = {"topk", "mstopk", "dgc", "random-k"};

/* Whole numbers in the first epochs, of which sums are exact, then nothing: what was kept follows.
 */
static void give_whole_numbers(const struct averaging_world *world, uint32_t rank, uint32_t epoch,
			       float *ret_gradient)
{
	struct lh_rng rng;
	char stream[32];

	snprintf(stream, sizeof(stream), "%u/%u", rank, epoch);
	lh_rng_init(&rng, 7, stream);
	for (uint64_t i = 0; i < world->job.parameters; i++)
		ret_gradient[i] = epoch < GIVING_EPOCHS ? (float)lh_rng_below(&rng, 200) - 100 : 0;
}

/* All ranks have the same averages, bit by bit. */
static void assert_same_everywhere(const struct averaging_world *w)
{
	size_t bytes = w->job.parameters * w->job.epochs * sizeof(float);

	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++) {
		if (w->states[rank].code)
			fail_msg("rank %u: %s", rank, w->states[rank].error.message);
		assert_int_equal(w->states[rank].n_applied, w->job.epochs);
		if (w->gradient)
			assert_memory_equal(w->states[rank].averages, w->states[0].averages, bytes);
	}
}

/* The averages of all epochs add up to the mean of all that was given. */
static void assert_nothing_is_lost(const struct averaging_world *w)
{
	uint64_t n = w->job.parameters;

	for (uint64_t i = 0; i < n; i++) {
		double given = 0, applied = 0;

		for (uint32_t rank = 0; rank < w->job.n_ranks; rank++)
			given += (double)w->states[rank].given[i];
		for (uint32_t epoch = 0; epoch < w->job.epochs; epoch++)
			applied += (double)w->states[0].averages[n * epoch + i];
		if (applied * w->job.n_ranks != given)
			fail_msg("element %u: %g was given, %g applied", (unsigned)i, given,
				 applied * w->job.n_ranks);
	}
}

static void assert_bytes(const struct averaging_world *w, int64_t expected)
{
	for (uint32_t rank = 0; rank < w->job.n_ranks; rank++) {
		assert_int_equal(averaging_world_sum(w, rank, "payload_sent_bytes"), expected);
		assert_int_equal(averaging_world_sum(w, rank, "payload_received_bytes"), expected);
	}
}

/* With a tenth of the numbers at a time, ten epochs after the last gradient nothing is left; random
 * choices may miss some. */
static void test_what_is_not_sent_follows(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
		bool is_random = strcmp(kinds[k], "random-k") == 0;
		struct averaging_world w;

		averaging_world_init(&w, N, "sparse-allgather", kinds[k]);
		w.gradient = give_whole_numbers;
		w.job.epochs = EPOCHS;
		if (is_random)
			w.job.compressing.density_ratio = 1;
		averaging_world_run(&w);
		assert_same_everywhere(&w);
		assert_nothing_is_lost(&w);
		assert_bytes(&w, EPOCHS * (N - 1) * (4 + 8 * (is_random ? 1000 : 100)));
		averaging_world_done(&w);
	}
}

/* Without memory, what was not sent is lost: of 1,000 numbers all but 100 are 0. */
static void test_without_feedback_the_rest_is_lost(void **state)
{
	struct averaging_world w;

	(void)state;
	averaging_world_init(&w, N, "sparse-allgather", "random-k");
	w.gradient = give_whole_numbers;
	w.job.compressing.feedback = false;
	averaging_world_run(&w);
	assert_same_everywhere(&w);
	for (uint32_t epoch = 0; epoch < w.job.epochs; epoch++) {
		unsigned n = 0;

		for (uint64_t i = 0; i < w.job.parameters; i++)
			n += fpclassify(w.states[0].averages[w.job.parameters * epoch + i]) !=
			     FP_ZERO;
		assert_true(n > 250 && n <= 100 * N); /* places of four ranks, some the same */
	}
	averaging_world_done(&w);
}

/* Replayed, messages are as long as those of the whole gradient, and all ranks check the sum. */
static void test_replayed_slices_are_checked(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(kinds); k++)
		for (uint32_t n = 2; n <= 5; n++) {
			struct averaging_world w;

			averaging_world_init(&w, n, "sparse-allgather", kinds[k]);
			w.job.parameters = k % 2 ? 1000003 : 1;
			averaging_world_run(&w);
			assert_same_everywhere(&w);
			assert_bytes(&w, 3 * (int64_t)(n - 1) * (4 + 8 * (k % 2 ? 100000 : 1)));
			assert_int_equal(averaging_world_sum(&w, 0, "checked_elements"),
					 k % 2 ? 3 * 4096 : 3);
			averaging_world_done(&w);
		}
}

/* The density falls step by step, the messages with it, and the scenario's formula knows. */
static void test_a_warm_up_sends_less_and_less(void **state)
{
	struct lh_model model = {.parameters = 100000};
	struct lh_scenario sc = {.n_ranks = N, .model = &model};
	struct averaging_world w;
	int64_t sum = 0;

	(void)state;
	averaging_world_init(&w, N, "sparse-allgather", "dgc");
	w.job.parameters = 100000;
	w.job.epochs = EPOCHS;
	w.job.compressing.density_ratio = 0.001;
	w.job.compressing.momentum = 0.9;
	w.job.compressing.clip_norm = 0.25;
	w.job.compressing.warm_up_epochs = 2;
	averaging_world_run(&w);
	assert_same_everywhere(&w);
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
		static const int64_t counts[] = {25000, 6250, 1563, 391, 100};

		sum += 4 + 8 * counts[epoch / 2 < 4 ? epoch / 2 : 4];
	}
	assert_bytes(&w, (N - 1) * sum);
	sc.workload.strategy.kind = (char *)(uintptr_t) "sparse-allgather";
	sc.workload.compress = (struct lh_compress_spec){
		.kind = (char *)(uintptr_t) "dgc", .density_ratio = 0.001, .warm_up_epochs = 2};
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++)
		sum -= lh_scenario_payload_bytes(&sc, epoch) / (N * (N - 1));
	assert_int_equal(sum, 0);
	averaging_world_done(&w);
}

/* Another number from each rank. */
static void give_the_rank(const struct averaging_world *world, uint32_t rank, uint32_t epoch,
			  float *ret_gradient)
{
	(void)epoch;
	for (uint64_t i = 0; i < world->job.parameters; i++)
		ret_gradient[i] = (float)(4 << rank);
}

static void test_gradients_weigh_by_their_samples(void **state)
{
	struct averaging_world w;

	(void)state;
	averaging_world_init(&w, 3, "sparse-allgather", "topk");
	w.gradient = give_the_rank;
	w.job.compressing.density_ratio = 1;
	w.job.target_batch = 128; /* in turn, one of them computes two micro-batches */
	averaging_world_run(&w);
	assert_same_everywhere(&w);
	for (uint32_t epoch = 0; epoch < w.job.epochs; epoch++)
		for (uint64_t i = 0; i < w.job.parameters; i++)
			assert_near(w.states[2].averages[w.job.parameters * epoch + i],
				    (4.0 + 8.0 + 16.0 + (4 << epoch)) / 4, 1e-5);
	averaging_world_done(&w);
}

/* Ranks in sites of size each, the sites' ranks one after another or in turn. */
static void set_sites(struct averaging_world *w, uint32_t size, bool in_turn)
{
	uint32_t n = w->job.n_ranks;

	w->job.settings.has_site_level = true;
	for (uint32_t rank = 0; rank < n; rank++)
		snprintf(w->ranks[rank].site, sizeof(w->ranks[rank].site), "room-%u",
			 in_turn ? rank % (n / size) : rank / size);
}

static void test_groups_average_whole_and_across_in_part(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
		bool is_random = strcmp(kinds[k], "random-k") == 0;
		struct averaging_world w;

		averaging_world_init(&w, N, "hierarchical-topk", kinds[k]);
		set_sites(&w, 2, k % 2);
		w.gradient = give_whole_numbers;
		w.job.epochs = EPOCHS;
		if (is_random)
			w.job.compressing.density_ratio = 1;
		averaging_world_run(&w);
		assert_same_everywhere(&w);
		assert_nothing_is_lost(&w);
		/* half of the numbers twice, then a message about the own half */
		assert_bytes(&w, EPOCHS * (2 * 500 * 4 + 4 + 8 * (is_random ? 500 : 50)));
		averaging_world_done(&w);
	}
}

static void test_one_group_leaves_nothing_out(void **state)
{
	struct averaging_world w;

	(void)state;
	averaging_world_init(&w, N, "hierarchical-topk", "topk");
	set_sites(&w, N, false);
	w.gradient = give_whole_numbers;
	averaging_world_run(&w);
	assert_same_everywhere(&w);
	assert_nothing_is_lost(&w);
	averaging_world_done(&w);
}

static int64_t formula_of(const struct averaging_world *w, uint32_t size)
{
	struct lh_model model = {.parameters = (int64_t)w->job.parameters};
	struct lh_node nodes[AVERAGING_RANKS_MAX];
	char *levels[] = {(char *)(uintptr_t) "site"};
	struct lh_scenario sc = {.n_nodes = w->job.n_ranks,
				 .n_ranks = w->job.n_ranks,
				 .nodes = nodes,
				 .model = &model};

	for (uint32_t i = 0; i < w->job.n_ranks; i++)
		nodes[i] = (struct lh_node){.site = i / size, .n_ranks = 1};
	sc.workload.strategy = (struct lh_strategy_spec){
		.kind = (char *)(uintptr_t) "hierarchical-topk", .levels = levels, .n_levels = 1};
	sc.workload.compress = (struct lh_compress_spec){.kind = (char *)(uintptr_t) "mstopk",
							 .density_ratio = 0.1};
	return lh_scenario_payload_bytes(&sc, 0);
}

static void test_replayed_groups_are_checked(void **state)
{
	static const struct {
		uint32_t n, size;
		uint64_t parameters;
	} cases[] = {{6, 2, 1000003}, {6, 3, 1000003}, {4, 1, 1000003}, {4, 4, 1000003},
		     {6, 3, 1},	      {6, 2, 50},      {8, 4, 12345}};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct averaging_world w;
		int64_t sent = 0;

		averaging_world_init(&w, cases[i].n, "hierarchical-topk", "mstopk");
		set_sites(&w, cases[i].size, false);
		w.job.parameters = cases[i].parameters;
		averaging_world_run(&w);
		assert_same_everywhere(&w);
		for (uint32_t rank = 0; rank < cases[i].n; rank++) {
			sent += averaging_world_sum(&w, rank, "payload_sent_bytes");
			sent -= averaging_world_sum(&w, rank, "payload_received_bytes");
			assert_true(averaging_world_sum(&w, rank, "checked_elements") > 0);
		}
		assert_int_equal(sent, 0);
		for (uint32_t rank = 0; rank < cases[i].n; rank++)
			sent += averaging_world_sum(&w, rank, "payload_sent_bytes");
		assert_int_equal(sent, w.job.epochs * formula_of(&w, cases[i].size));
		averaging_world_done(&w);
	}
}

static void test_unlike_groups_are_refused(void **state)
{
	struct averaging_world w;
	struct lh_error err = {0};

	(void)state;
	averaging_world_init(&w, 3, "hierarchical-topk", "topk");
	set_sites(&w, 1, false);
	assert_int_equal(w.job.strategy->check(&w.job, &err), 0);
	snprintf(w.ranks[1].site, sizeof(w.ranks[1].site), "room-0");
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_string_equal(err.message, "strategy.levels: room-2 has 1 ranks, room-0 2; expected "
					 "as many everywhere");
	w.job.settings.has_node_level = true;
	assert_int_equal(w.job.strategy->check(&w.job, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "strategy.levels: expected one of"));
	averaging_world_done(&w);
}

static struct lh_job job_with(const char *compressor, const char *train)
{
	struct lh_job job = {.parameters = 1000,
			     .strategy = NULL,
			     .compressing = {.density_ratio = 0.1, .feedback = true},
			     .train = train ? json_loads(train, 0, NULL) : NULL};

	snprintf(job.compressing.kind, sizeof(job.compressing.kind), "%s", compressor);
	return job;
}

static void test_a_second_momentum_is_refused(void **state)
{
	static const struct {
		const char *compressor, *train;
		bool fits;
	} cases[] = {
		{"dgc", NULL, true},
		{"dgc", "{\"optimizer\": {\"kind\": \"sgd\"}}", true},
		{"dgc", "{\"optimizer\": {\"kind\": \"sgd\", \"momentum\": 0.0}}", true},
		{"dgc", "{\"optimizer\": {\"kind\": \"sgd\", \"momentum\": 0.9}}", false},
		{"dgc", "{\"optimizer\": {\"kind\": \"lars\"}}", false},
		{"dgc", "{\"optimizer\": {\"kind\": \"lars\", \"momentum\": 0}}", true},
		{"dgc", "{\"optimizer\": {\"kind\": \"adamw\"}}", false},
		{"topk", "{\"optimizer\": {\"kind\": \"adamw\"}}", true},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_job job = job_with(cases[i].compressor, cases[i].train);
		struct lh_error err = {0};
		int rc = lh_sparse_form_check(&job, &err);

		json_decref(job.train);
		if ((rc == 0) != cases[i].fits)
			fail_msg("case %zu: %s", i, err.message);
		if (rc)
			assert_non_null(strstr(err.message, "train.optimizer."));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_sent_follows),
		cmocka_unit_test(test_without_feedback_the_rest_is_lost),
		cmocka_unit_test(test_replayed_slices_are_checked),
		cmocka_unit_test(test_a_warm_up_sends_less_and_less),
		cmocka_unit_test(test_gradients_weigh_by_their_samples),
		cmocka_unit_test(test_a_second_momentum_is_refused),
		cmocka_unit_test(test_groups_average_whole_and_across_in_part),
		cmocka_unit_test(test_one_group_leaves_nothing_out),
		cmocka_unit_test(test_replayed_groups_are_checked),
		cmocka_unit_test(test_unlike_groups_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
