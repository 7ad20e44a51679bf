/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: bits that come back, training that goes on as if it had never stopped, and what is
 * refused. */
#include "trainer/optim/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/checkpoint_fixture.h"
#include "trainer/tensor/safetensors.h"

/* ---- going on -------------------------------------------------------------------------------- */

static void check_resumed(const char *kind, enum lh_small_net_device device)
{
	lh_cleanup_free char *path = path_of("resumed.safetensors");
	struct run whole, first, second;

	run_open(&whole, kind, HIDDEN, device);
	run_open(&first, kind, HIDDEN, device);
	run_open(&second, kind, HIDDEN, device);
	lh_small_net_train(&whole.net, whole.optimizer, 9);
	lh_small_net_train(&first.net, first.optimizer, 4);
	save(&first, path);
	/* what it replaces differs in all */
	lh_small_net_train(&second.net, second.optimizer, 2);
	load(&second, path);
	assert_same(&first, &second);
	lh_small_net_train(&second.net, second.optimizer, 5);
	assert_same(&whole, &second);
	run_close(&whole);
	run_close(&first);
	run_close(&second);
}

static void test_resumed_training_gives_the_bits_of_uninterrupted_training(void **state)
{
	(void)state;
	for (size_t i = 0; lh_optimizers[i]; i++)
		for (int d = 0; d < LH_SMALL_N_DEVICES; d++)
			check_resumed(lh_optimizers[i]->name, (enum lh_small_net_device)d);
}

/* More than one chunk of what is copied at once. */
static void test_large_tensors_come_back(void **state)
{
	lh_cleanup_free char *path = path_of("large.safetensors");
	struct run a, b;

	(void)state;
	run_open(&a, "adamw", 60000, LH_SMALL_DOUBLE);
	run_open(&b, "adamw", 60000, LH_SMALL_DOUBLE);
	lh_small_net_train(&a.net, a.optimizer, 1);
	save(&a, path);
	load(&b, path);
	assert_same(&a, &b);
	run_close(&a);
	run_close(&b);
}

static void test_other_programs_find_the_tensors_by_the_models_names(void **state)
{
	static const struct {
		const char *name;
		uint32_t n_dims;
		int64_t dims[2];
	} expected[] = {
		{"fc1.weight", 2, {HIDDEN, 6}},
		{"fc1.bias", 1, {HIDDEN}},
		{"bn1.running_mean", 1, {HIDDEN}},
		{"bn1.running_var", 1, {HIDDEN}},
		{"fc2.weight", 2, {3, HIDDEN}},
		{"optimizer.exp_avg.fc2.weight", 2, {3, HIDDEN}},
		{"optimizer.exp_avg_sq.fc1.bias", 1, {HIDDEN}},
	};
	lh_cleanup_free char *path = path_of("named.safetensors");
	struct lh_safetensors *file;
	struct lh_error err = {0};
	struct run run;
	size_t n;

	(void)state;
	run_open(&run, "adamw", HIDDEN, LH_SMALL_FLOAT);
	save(&run, path);
	assert_int_equal(lh_safetensors_open(path, &file, &err), 0);
	lh_safetensors_list(file, &n);
	assert_int_equal(n, 6 + 2 + 2 * 6);
	for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
		const struct lh_safetensor *t = lh_safetensors_find(file, expected[i].name);
		struct lh_tensor *mine = lh_graph_find(run.net.graph, expected[i].name);
		float data[64];

		assert_non_null(t);
		assert_int_equal(t->n_dims, expected[i].n_dims);
		assert_memory_equal(t->dims, expected[i].dims, t->n_dims * sizeof(*t->dims));
		assert_int_equal(lh_safetensors_read(file, t, 0, t->n, data, &err), 0);
		if (mine)
			assert_memory_equal(data, mine->data, t->n_bytes);
	}
	assert_string_equal(lh_safetensors_metadata(file, "longhaul-checkpoint"), "1");
	lh_safetensors_close(file);
	run_close(&run);
}

static void test_a_model_alone_can_be_written_and_read(void **state)
{
	lh_cleanup_free char *path = path_of("alone.safetensors"), *full = path_of("full");
	lh_cleanup_json json_t *progress = json_object(), *back = NULL, *again = NULL;
	struct lh_error err = {0};
	struct run a, b;

	(void)state;
	run_open(&a, "adamw", HIDDEN, LH_SMALL_FLOAT);
	run_open(&b, "adamw", HIDDEN, LH_SMALL_FLOAT);
	lh_small_net_train(&a.net, a.optimizer, 3);
	assert_int_equal(lh_checkpoint_write(path, a.net.graph, NULL, a.settings, progress, &err),
			 0);
	assert_int_equal(lh_checkpoint_read(path, b.net.graph, NULL, NULL, &back, &err), 0);
	assert_memory_equal(lh_graph_parameters(a.net.graph), lh_graph_parameters(b.net.graph),
			    (size_t)lh_graph_n_parameters(a.net.graph) * sizeof(float));
	assert_true(lh_optimizer_steps(b.optimizer) == 0);
	assert_int_equal(lh_checkpoint_read(path, b.net.graph, b.optimizer, b.settings, &back,
					    &err),
			 LH_EINPUT);
	assert_non_null(strstr(err.message, "holds no optimizer"));
	/* and the model of one that has an optimizer */
	save(&a, full);
	assert_int_equal(lh_checkpoint_read(full, b.net.graph, NULL, b.settings, &again, &err), 0);
	run_close(&a);
	run_close(&b);
}

/* ---- another model, other settings ----------------------------------------------------------- */

static void refuse(struct run *run, const char *path, const char *message)
{
	lh_cleanup_json json_t *progress = NULL;
	struct lh_error err = {0};
	size_t bytes = (size_t)lh_graph_n_parameters(run->net.graph) *
		       lh_dtype_bytes(run->net.device.master);
	lh_cleanup_free void *before = malloc(bytes);

	assert_non_null(before);
	memcpy(before, lh_graph_parameters(run->net.graph), bytes);
	assert_int_equal(lh_checkpoint_read(path, run->net.graph, run->optimizer, run->settings,
					    &progress, &err),
			 LH_EINPUT);
	assert_null(progress);
	if (!strstr(err.message, message) || !strstr(err.message, path))
		fail_msg("'%s' lacks '%s'", err.message, message);
	assert_memory_equal(before, lh_graph_parameters(run->net.graph), bytes);
}

static void test_other_settings_are_refused_by_the_first_difference(void **state)
{
	static const struct {
		const char *key, *value, *message;
	} cases[] = {
		{"model", "\"large\"",
		 "is of other settings: settings.model is \"small\" there, \"large\" here"},
		{"list", "[1,3]", "settings.list is [1,2] there, [1,3] here"},
		{"sizes", "{\"hidden\":5,\"dropout\":0.3}",
		 "settings.sizes.dropout is 0.30000000000000004 there, "
		 "0.29999999999999999 here"},
		{"sizes", "{\"hidden\":5}",
		 "settings.sizes.dropout is 0.3 there, "
		 "missing here"},
		{"seed", "7", "settings.seed is missing there, 7 here"},
	};
	lh_cleanup_free char *path = path_of("settings.safetensors");
	struct run run;

	(void)state;
	run_open(&run, "adamw", HIDDEN, LH_SMALL_FLOAT);
	save(&run, path);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		json_t *own = run.settings;

		run.settings = json_deep_copy(own);
		json_object_set_new(run.settings, cases[i].key,
				    json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
		refuse(&run, path, cases[i].message);
		json_decref(run.settings);
		run.settings = own;
	}
	load(&run, path);
	run_close(&run);
}

static void test_another_optimizer_is_refused(void **state)
{
	lh_cleanup_free char *path = path_of("optimizer.safetensors");
	struct lh_optimizer_options options;
	struct lh_error err = {0};
	struct run run, other;

	(void)state;
	run_open(&run, "adamw", HIDDEN, LH_SMALL_FLOAT);
	run_open(&other, "lamb", HIDDEN, LH_SMALL_FLOAT);
	save(&run, path);
	refuse(&other, path, "optimizer.kind is \"adamw\" there, \"lamb\" here");
	lh_optimizer_options_init("adamw", &options, &err);
	options.beta2 = 0.98;
	lh_optimizer_free(other.optimizer);
	assert_int_equal(lh_optimizer_new(other.net.graph, &options, &other.optimizer, &err), 0);
	refuse(&other, path, "optimizer.beta2 is 0.999 there, 0.98");
	run_close(&run);
	run_close(&other);
}

static void test_another_model_is_refused_by_its_first_tensor(void **state)
{
	lh_cleanup_free char *path = path_of("model.safetensors");
	lh_cleanup_json json_t *progress = json_object();
	struct lh_error err = {0};
	struct run run, wider, wide;
	struct lh_tensor *tensor;

	(void)state;
	run_open(&run, "sgd", HIDDEN, LH_SMALL_FLOAT);
	run_open(&wider, "sgd", HIDDEN + 1, LH_SMALL_FLOAT);
	run_open(&wide, "sgd", HIDDEN, LH_SMALL_DOUBLE);
	save(&run, path);
	json_object_set(wider.settings, "sizes", json_object_get(run.settings, "sizes"));
	refuse(&wider, path, "tensor fc1.weight is F32 [5,6] there, F32 [6,6] here");
	refuse(&wide, path, "tensor fc1.weight is F32 [5,6] there, F64 [5,6] here");
	tensor = lh_graph_find(run.net.graph, "fc2.bias");
	snprintf(tensor->name, sizeof(tensor->name), "fc3.bias");
	refuse(&run, path, "it has no tensor fc3.bias");
	assert_int_equal(
		lh_checkpoint_write(path, run.net.graph, NULL, run.settings, progress, &err), 0);
	snprintf(tensor->name, sizeof(tensor->name), "fc2.bias");
	save(&run, path);
	run_close(&run);
	run_close(&wider);
	run_close(&wide);
}

/* Writes tensors and metadata as given, without a checksum that holds. */
static void write_foreign(const char *path, const char *metadata)
{
	static const float data[1] = {1};
	const struct lh_safetensor_entry entry = {"x", LH_F32, 1, {1}, data};
	lh_cleanup_json json_t *object = json_loads(metadata, 0, NULL);
	struct lh_error err = {0};

	assert_non_null(object);
	assert_int_equal(lh_safetensors_write(path, &entry, 1, object, &err), 0);
}

static void test_other_versions_and_files_are_refused(void **state)
{
	lh_cleanup_free char *path = path_of("version.safetensors");
	struct run run;

	(void)state;
	run_open(&run, "sgd", HIDDEN, LH_SMALL_FLOAT);
	write_foreign(path, "{\"longhaul-checkpoint\":\"2\"}");
	refuse(&run, path, "of version 2; this program reads version 1: a newer one has written");
	write_foreign(path, "{\"longhaul-checkpoint\":\"\"}");
	refuse(&run, path, "of version ; this program reads version 1");
	write_foreign(path, "{\"format\":\"pt\"}");
	refuse(&run, path, "is no checkpoint of longhaul");
	write_foreign(path, "{\"longhaul-checkpoint\":\"1\"}");
	refuse(&run, path, "has no checksum");
	write_foreign(path, "{\"checksum\":\"crc64-xz:000000000000000\","
			    "\"longhaul-checkpoint\":\"1\"}");
	refuse(&run, path, "is damaged: its checksum is");
	run_close(&run);
}

static void test_progress_and_settings_must_be_objects(void **state)
{
	lh_cleanup_free char *path = path_of("object.safetensors");
	lh_cleanup_json json_t *list = json_array(), *object = json_object();
	struct lh_error err = {0};
	struct run run;

	(void)state;
	run_open(&run, "sgd", HIDDEN, LH_SMALL_FLOAT);
	assert_int_equal(lh_checkpoint_write(path, run.net.graph, NULL, list, object, &err),
			 LH_EINPUT);
	assert_int_equal(lh_checkpoint_write(path, run.net.graph, NULL, object, NULL, &err),
			 LH_EINPUT);
	assert_false(lh_path_exists(path));
	run_close(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resumed_training_gives_the_bits_of_uninterrupted_training),
		cmocka_unit_test(test_large_tensors_come_back),
		cmocka_unit_test(test_other_programs_find_the_tensors_by_the_models_names),
		cmocka_unit_test(test_a_model_alone_can_be_written_and_read),
		cmocka_unit_test(test_other_settings_are_refused_by_the_first_difference),
		cmocka_unit_test(test_another_optimizer_is_refused),
		cmocka_unit_test(test_another_model_is_refused_by_its_first_tensor),
		cmocka_unit_test(test_other_versions_and_files_are_refused),
		cmocka_unit_test(test_progress_and_settings_must_be_objects),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
