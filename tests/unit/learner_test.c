/* SPDX-License-Identifier: Apache-2.0 */
/* Specifications of trainings, learners alone and many as one, and where a training goes on. */
#include "trainer/learn/learner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/test.h"

static const struct lh_device_ops *const devices[] = {&lh_device_reference32, NULL};
static const struct lh_learn_reading plain = {.prefix = "", .devices = devices};

/* A small network on small synthetic images. */
static const char images[] =
	"{\"settings\": {\"image\": 28, \"classes\": \"4\", \"channels\": 1},"
	" \"data\": {\"kind\": \"synthetic-images\", \"samples\": 96, \"test_samples\": 50},"
	" \"optimizer\": {\"kind\": \"sgd\", \"lr\": 0.05, \"momentum\": 0.9},"
	" \"schedule\": {\"kind\": \"cosine\", \"warm_up\": 2},"
	" \"threads\": 1}";

static void read_spec(const char *model, const char *text, struct lh_learn_spec *ret_spec,
		      struct lh_diag *diag)
{
	lh_cleanup_json json_t *json = json_loads(text, 0, NULL);

	assert_non_null(json);
	lh_learn_spec_read(model, json, &plain, ret_spec, diag);
	ret_spec->schedule.total_steps = 10;
}

static void read_good_spec(const char *model, const char *text, struct lh_learn_spec *ret_spec)
{
	struct lh_diag diag = {0};

	read_spec(model, text, ret_spec, &diag);
	if (diag.n_messages)
		fail_msg("%s", diag.messages[0]);
}

static struct lh_learner *open_place(const char *model, const char *text,
				     const struct lh_learner_place *place)
{
	struct lh_learn_spec spec;
	struct lh_learner *learner;
	struct lh_error err = {0};

	read_good_spec(model, text, &spec);
	if (lh_learner_open(&spec, place, &learner, &err))
		fail_msg("%s", err.message);
	return learner;
}

static float *read_weights(struct lh_learner *learner)
{
	size_t n = (size_t)lh_learner_n_parameters(learner);
	float *weights = calloc(n, sizeof(*weights));
	struct lh_graph *graph = lh_learner_graph(learner);
	struct lh_device *device = lh_learner_device(learner);

	assert_non_null(weights);
	assert_int_equal(device->ops->read(device, lh_graph_parameters(graph), device->master,
					   weights, (int64_t)n, NULL),
			 0);
	return weights;
}

static double distance(const float *a, const float *b, int64_t n)
{
	double difference = 0, norm = 0;

	for (int64_t i = 0; i < n; i++) {
		difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
		norm += (double)b[i] * (double)b[i];
	}
	return sqrt(difference / norm);
}

static void train(struct lh_learner *learner, int n_steps)
{
	struct lh_error err = {0};

	for (int i = 0; i < n_steps; i++)
		if (lh_learner_accumulate(learner, &err) || lh_learner_step(learner, &err))
			fail_msg("%s", err.message);
}

static void test_all_faults_of_a_specification_are_told(void **state)
{
	static const char bad[] = "{\"settings\": {\"clases\": 4, \"image\": \"x\"},"
				  " \"data\": {\"kind\": \"mnits\", \"skew\": 1e9, \"flip\": true},"
				  " \"optimizer\": {\"kind\": \"sgd\", \"lr\": \"big\"},"
				  " \"schedule\": {\"kind\": \"cosinus\", \"final\": 2},"
				  " \"evaluate\": -1, \"colour\": 3, \"device\": \"gpu\"}";
	static const char *const expected[] = {
		"colour: unknown key",
		"settings.clases: ",
		"settings.image: ",
		"data.kind: no kind of data 'mnits'",
		"data.skew: 1e+09; expected 0.001 to 1e+06",
		"data.flip: unknown key",
		"optimizer.lr: expected a number",
		"schedule.kind: no schedule 'cosinus'",
		"schedule.final: 2; expected 0 to 1",
		"evaluate: expected an integer",
		"device: no device in this build 'gpu'",
	};
	struct lh_learn_spec spec;
	struct lh_diag diag = {0};

	(void)state;
	read_spec("lenet5", bad, &spec, &diag);
	for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
		bool is_there = false;

		for (size_t k = 0; k < diag.n_messages; k++)
			is_there = is_there || strstr(diag.messages[k], expected[i]);
		if (!is_there)
			fail_msg("not told: %s", expected[i]);
	}
	assert_int_equal(diag.n_messages, N_ELEMENTS(expected));
	lh_diag_done(&diag);
}

static void test_an_unknown_model_is_told_with_the_nearest(void **state)
{
	struct lh_learn_spec spec;
	struct lh_diag diag = {0};

	(void)state;
	read_spec("lenet", images, &spec, &diag);
	assert_int_equal(diag.n_messages, 1);
	assert_non_null(strstr(diag.messages[0], "lenet5"));
	lh_diag_done(&diag);
}

static void test_data_that_a_model_cannot_take_are_refused(void **state)
{
	static const char text[] = "{\"data\": {\"kind\": \"synthetic-images\", \"samples\": 8},"
				   " \"optimizer\": {\"kind\": \"adamw\"}}";
	struct lh_learn_spec spec;
	struct lh_diag diag = {0};

	(void)state;
	read_spec("gpt-small", text, &spec, &diag);
	assert_int_equal(diag.n_messages, 1);
	assert_string_equal(diag.messages[0],
			    "data.kind: model gpt-small does not learn from synthetic-images data; "
			    "expected one of text, synthetic-text, webdataset");
	lh_diag_done(&diag);
}

static void test_every_kind_of_data_is_of_a_task_and_every_task_has_synthetic_ones(void **state)
{
	static const char *const synthetic[] = {[LH_TASK_IMAGES] = "synthetic-images",
						[LH_TASK_TEXT] = "synthetic-text",
						[LH_TASK_MASKED_TEXT] = "synthetic-text",
						[LH_TASK_CTR] = "synthetic-ctr",
						[LH_TASK_SPEECH] = "synthetic-speech"};

	(void)state;
	for (size_t i = 0; lh_datasets[i]; i++) {
		int n_tasks = 0;

		for (int task = 0; task <= LH_TASK_SPEECH; task++)
			n_tasks += lh_learn_takes((enum lh_task)task, lh_datasets[i]->name);
		if (n_tasks == 0)
			fail_msg("no task learns from %s", lh_datasets[i]->name);
	}
	for (int task = 0; task <= LH_TASK_SPEECH; task++)
		assert_true(lh_learn_takes((enum lh_task)task, synthetic[task]));
	assert_false(lh_learn_takes(LH_TASK_IMAGES, "no-such-kind"));
}

/* The mean of the gradients of two ranks with half the batch each is that of one with the whole, so
 * the weights stay together, within the rounding of sums in another order. */
static void test_two_ranks_are_one_with_the_whole_batch(void **state)
{
	const struct lh_learner_place whole = {.seed = 3, .micro_batch = 16, .n_ranks = 1};
	struct lh_learner *one = open_place("lenet5", images, &whole), *half[2];
	int64_t n = lh_learner_n_parameters(one);
	lh_cleanup_free float *a = calloc((size_t)n, sizeof(*a));
	lh_cleanup_free float *b = calloc((size_t)n, sizeof(*b));
	lh_cleanup_free float *weights_one = NULL;
	lh_cleanup_free float *weights_two = NULL;
	uint64_t hash[2];

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++) {
		const struct lh_learner_place place = {.seed = 3,
						       .micro_batch = 8,
						       .rank = rank,
						       .n_ranks = 2,
						       .takes_gradients = true};

		half[rank] = open_place("lenet5", images, &place);
	}
	train(one, 8);
	for (int step = 0; step < 8; step++) {
		for (int rank = 0; rank < 2; rank++) {
			assert_int_equal(lh_learner_accumulate(half[rank], NULL), 0);
			assert_int_equal(lh_learner_take_gradients(half[rank], rank ? b : a, NULL),
					 0);
		}
		for (int64_t i = 0; i < n; i++)
			a[i] = (a[i] + b[i]) / 2;
		for (int rank = 0; rank < 2; rank++)
			assert_int_equal(lh_learner_step_with(half[rank], a, NULL), 0);
	}
	weights_one = read_weights(one);
	weights_two = read_weights(half[0]);
	assert_true(distance(weights_two, weights_one, n) < 1e-6);
	for (int rank = 0; rank < 2; rank++) {
		assert_int_equal(lh_learner_fingerprint(half[rank], &hash[rank], NULL), 0);
		lh_learner_close(half[rank]);
	}
	assert_true(hash[0] == hash[1]);
	lh_learner_close(one);
}

static void test_a_training_goes_on_bit_for_bit(void **state)
{
	const struct lh_learner_place place = {.seed = 4, .micro_batch = 8, .n_ranks = 1};
	char dir[] = "/tmp/lh-learner-XXXXXX";
	lh_cleanup_free char *path = NULL;
	struct lh_learner *through = open_place("lenet5", images, &place);
	struct lh_learner *first = open_place("lenet5", images, &place), *second;
	struct lh_error err = {0};
	uint64_t expected, got;

	(void)state;
	assert_non_null(mkdtemp(dir));
	path = lh_strf("%s/half.safetensors", dir);
	train(through, 6);
	train(first, 3);
	assert_int_equal(lh_learner_save(first, path, &err), 0);
	lh_learner_close(first);
	second = open_place("lenet5", images, &place);
	if (lh_learner_load(second, path, &err))
		fail_msg("%s", err.message);
	assert_int_equal(lh_learner_steps(second), 3);
	train(second, 3);
	assert_int_equal(lh_learner_fingerprint(through, &expected, NULL), 0);
	assert_int_equal(lh_learner_fingerprint(second, &got, NULL), 0);
	assert_true(expected == got);
	lh_learner_close(through);
	lh_learner_close(second);
	assert_int_equal(lh_dir_remove(dir, NULL), 0);
}

static void test_it_learns_and_counts_every_test_sample(void **state)
{
	const struct lh_learner_place place = {
		.seed = 5, .micro_batch = 20, .n_ranks = 1, .evaluates = true};
	struct lh_learner *learner = open_place("lenet5", images, &place);
	struct lh_score before, after, seen;

	(void)state;
	assert_int_equal(lh_learner_evaluate(learner, &before, NULL), 0);
	train(learner, 10);
	assert_int_equal(lh_learner_evaluate(learner, &after, NULL), 0);
	/* no multiple of the batch: what fills the last one up is not counted */
	assert_true(after.n_samples % 20 != 0);
	assert_near(after.n_counted, (double)after.n_samples, 0);
	assert_true(after.loss < before.loss);
	lh_learner_take_score(learner, &seen);
	assert_int_equal(seen.n_samples, 200);
	lh_learner_close(learner);
}

/* The words of `kind` in a section of `train` in the schema of scenarios. */
static json_t *kinds_of(json_t *schema, const char *section)
{
	static const char *const way[] = {"properties", "workload", "anyOf"};
	json_t *at = schema;

	for (size_t i = 0; i < N_ELEMENTS(way); i++)
		at = json_object_get(at, way[i]);
	at = json_object_get(json_object_get(json_array_get(at, 0), "properties"), "train");
	at = json_object_get(json_object_get(at, "properties"), section);
	return json_object_get(json_object_get(json_object_get(at, "properties"), "kind"), "enum");
}

static void assert_word(const json_t *words, size_t i, const char *name)
{
	const char *word = json_string_value(json_array_get(words, i));

	if (!word || strcmp(word, name) != 0)
		fail_msg("the schema has %s where the engine has %s", word ? word : "nothing",
			 name);
}

static void test_the_schema_knows_what_the_engine_has(void **state)
{
	const char *source = getenv("srcdir");
	lh_cleanup_free char *path = lh_strf("%s/scenarios/schema.json", source ? source : ".");
	json_t *schema = NULL, *words;
	size_t n = 0;

	(void)state;
	assert_int_equal(lh_json_read(path, &schema, NULL), 0);
	words = kinds_of(schema, "data");
	for (; lh_datasets[n]; n++)
		assert_word(words, n, lh_datasets[n]->name);
	assert_int_equal(json_array_size(words), n);
	words = kinds_of(schema, "optimizer");
	for (n = 0; lh_optimizers[n]; n++)
		assert_word(words, n, lh_optimizers[n]->name);
	assert_int_equal(json_array_size(words), n);
	words = kinds_of(schema, "schedule");
	for (n = 0; lh_schedules[n].name; n++)
		assert_word(words, n, lh_schedules[n].name);
	assert_int_equal(json_array_size(words), n);
	json_decref(schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_faults_of_a_specification_are_told),
		cmocka_unit_test(test_an_unknown_model_is_told_with_the_nearest),
		cmocka_unit_test(test_data_that_a_model_cannot_take_are_refused),
		cmocka_unit_test(
			test_every_kind_of_data_is_of_a_task_and_every_task_has_synthetic_ones),
		cmocka_unit_test(test_two_ranks_are_one_with_the_whole_batch),
		cmocka_unit_test(test_a_training_goes_on_bit_for_bit),
		cmocka_unit_test(test_it_learns_and_counts_every_test_sample),
		cmocka_unit_test(test_the_schema_knows_what_the_engine_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
