/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: bits that come back, training that goes on as if it had never stopped, and damage of
 * every kind, from a flipped bit to a writer that is killed.
 */
#include "trainer/optim/checkpoint.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/small_net.h"
#include "tests/unit/test.h"
#include "trainer/tensor/safetensors.h"

enum { HIDDEN = 5, FILE_MAX_BYTES = 1 << 24 };

static char top[] = "/tmp/lh-checkpoint-XXXXXX";

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(top) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return lh_dir_remove(top, NULL);
}

static char *path_of(const char *name)
{
	char *path = lh_path_join(top, name);

	assert_non_null(path);
	return path;
}

/* A network, its optimizer, and what it says about itself. */
struct run {
	struct lh_small_net net;
	struct lh_optimizer *optimizer;
	json_t *settings;
};

static void run_open(struct run *run, const char *kind, int64_t hidden,
		     enum lh_small_net_device device)
{
	struct lh_optimizer_options options;
	struct lh_error err = {0};

	lh_small_net_open(device, hidden, &run->net);
	assert_int_equal(lh_optimizer_options_init(kind, &options, &err), 0);
	options.momentum = options.momentum > 0 || *kind != 's' ? options.momentum : 0.9;
	assert_int_equal(lh_optimizer_new(run->net.graph, &options, &run->optimizer, &err), 0);
	run->settings = json_pack("{s:s, s:{s:I, s:f}, s:[i, i]}", "model", "small", "sizes",
				  "hidden", (json_int_t)hidden, "dropout", 0.1 + 0.2, "list", 1, 2);
	assert_non_null(run->settings);
}

static void run_close(struct run *run)
{
	json_decref(run->settings);
	lh_optimizer_free(run->optimizer);
	lh_small_net_close(&run->net);
}

static void save(const struct run *run, const char *path)
{
	lh_cleanup_json json_t *progress =
		json_pack("{s:I, s:I, s:f}", "step", (json_int_t)run->net.steps, "sampler",
			  (json_int_t)INT64_MAX, "loss_scale", 1.0 / 3);
	struct lh_error err = {0};

	if (lh_checkpoint_write(path, run->net.graph, run->optimizer, run->settings, progress,
				&err))
		fail_msg("%s", err.message);
}

static void load(struct run *run, const char *path)
{
	lh_cleanup_json json_t *progress = NULL;
	struct lh_error err = {0};

	if (lh_checkpoint_read(path, run->net.graph, run->optimizer, run->settings, &progress,
			       &err))
		fail_msg("%s", err.message);
	run->net.steps = (uint64_t)json_integer_value(json_object_get(progress, "step"));
	assert_true(json_integer_value(json_object_get(progress, "sampler")) == INT64_MAX);
	assert_true(json_real_value(json_object_get(progress, "loss_scale")) == 1.0 / 3);
}

static void assert_same(const struct run *a, const struct run *b)
{
	const struct lh_graph *x = a->net.graph, *y = b->net.graph;
	size_t bytes = lh_dtype_bytes(a->net.device.master);
	size_t n = (size_t)lh_graph_n_parameters(x) * bytes;

	assert_memory_equal(lh_graph_parameters(x), lh_graph_parameters(y), n);
	assert_memory_equal(lh_graph_state(x), lh_graph_state(y),
			    (size_t)lh_graph_n_state(x) * bytes);
	for (uint32_t k = 0; k < lh_optimizer_n_states(a->optimizer); k++)
		assert_memory_equal(lh_optimizer_state(a->optimizer, k),
				    lh_optimizer_state(b->optimizer, k), n);
	assert_true(lh_optimizer_steps(a->optimizer) == lh_optimizer_steps(b->optimizer));
}

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

/* ---- damage ---------------------------------------------------------------------------------- */

static void put_file(const char *path, const char *data, size_t size)
{
	struct lh_error err = {0};

	assert_int_equal(lh_file_write(path, data, size, &err), 0);
}

static void test_every_flipped_bit_is_found(void **state)
{
	lh_cleanup_free char *path = path_of("flipped.safetensors"), *data = NULL;
	struct lh_error err = {0};
	struct run run;
	size_t size;
	int fd;

	(void)state;
	run_open(&run, "sgd", 1, LH_SMALL_FLOAT);
	save(&run, path);
	assert_int_equal(lh_file_read(path, FILE_MAX_BYTES, &data, &size, &err), 0);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		char damaged = (char)(data[bit / 8] ^ 1 << bit % 8);

		assert_int_equal(pwrite(fd, &damaged, 1, (off_t)(bit / 8)), 1);
		err = (struct lh_error){0};
		if (lh_checkpoint_check(path, NULL, NULL, &err) == 0)
			fail_msg("bit %zu of byte %zu was flipped unnoticed", bit % 8, bit / 8);
		assert_int_equal(err.code, LH_EINPUT);
		assert_non_null(strstr(err.message, path));
		assert_int_equal(pwrite(fd, &data[bit / 8], 1, (off_t)(bit / 8)), 1);
	}
	close(fd);
	assert_int_equal(lh_checkpoint_check(path, NULL, NULL, &err), 0);
	run_close(&run);
}

static void test_every_truncation_is_found(void **state)
{
	lh_cleanup_free char *path = path_of("cut.safetensors"), *data = NULL;
	struct lh_error err = {0};
	struct run run;
	size_t size;

	(void)state;
	run_open(&run, "sgd", 1, LH_SMALL_FLOAT);
	save(&run, path);
	assert_int_equal(lh_file_read(path, FILE_MAX_BYTES, &data, &size, &err), 0);
	for (size_t cut = size; cut-- > 0;) {
		assert_int_equal(truncate(path, (off_t)cut), 0);
		err = (struct lh_error){0};
		assert_int_equal(lh_checkpoint_check(path, NULL, NULL, &err), LH_EINPUT);
		assert_non_null(strstr(err.message, path));
	}
	put_file(path, data, size);
	assert_int_equal(truncate(path, (off_t)size + 1), 0);
	assert_int_equal(lh_checkpoint_check(path, NULL, NULL, &err), LH_EINPUT);
	run_close(&run);
}

/* ---- killed writers -------------------------------------------------------------------------- */

/* Reads before the writer's process kills itself. */
static int n_reads_left;

static int read_or_die(struct lh_device *device, const void *memory, enum lh_dtype dtype,
		       void *ret_host, int64_t n, struct lh_error *err)
{
	if (n_reads_left-- == 0)
		kill(getpid(), SIGKILL);
	return lh_device_reference32.read(device, memory, dtype, ret_host, n, err);
}

/* Writes step 2 over path in a process that is killed before its k-th copy. */
static int write_until_killed(struct run *run, const char *path, int k)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		n_reads_left = k;
		run->net.ops.read = read_or_die;
		run->net.steps = 2;
		save(run, path);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void test_a_killed_writer_leaves_the_old_one_whole(void **state)
{
	lh_cleanup_free char *folder = path_of("killed");
	lh_cleanup_free char *path = lh_checkpoint_path(folder, 1), *latest = NULL, *part = NULL;
	struct lh_diag skipped = {0};
	struct lh_error err = {0};
	struct run run, back;
	int n_killed = 0;

	(void)state;
	assert_int_equal(lh_dir_make(folder, &err), 0);
	run_open(&run, "adamw", 50000, LH_SMALL_FLOAT);
	run_open(&back, "adamw", 50000, LH_SMALL_FLOAT);
	lh_small_net_train(&run.net, run.optimizer, 1);
	save(&run, path);
	part = lh_strf("%s.part", path);
	for (int k = 0;; k++) {
		int status = write_until_killed(&run, path, k);

		load(&back, path);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			break;
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		assert_true(back.net.steps == 1);
		assert_true(lh_path_exists(part));
		assert_int_equal(lh_checkpoint_find_latest(folder, &latest, &skipped, &err), 0);
		assert_string_equal(latest, path);
		free(lh_steal(&latest));
		n_killed++;
	}
	assert_true(n_killed > 20);
	assert_true(back.net.steps == 2);
	assert_false(lh_path_exists(part));
	assert_int_equal(skipped.n_messages, 0);
	assert_same(&run, &back);
	run_close(&run);
	run_close(&back);
}

static int refuse_to_read(struct lh_device *device, const void *memory, enum lh_dtype dtype,
			  void *ret_host, int64_t n, struct lh_error *err)
{
	(void)device;
	(void)memory;
	(void)dtype;
	(void)ret_host;
	(void)n;
	return lh_fail(err, LH_ERUN, 0, "the device is gone");
}

static void test_a_failed_write_leaves_nothing_behind(void **state)
{
	lh_cleanup_free char *path = path_of("failed.safetensors");
	lh_cleanup_free char *part = path_of("failed.safetensors.part");
	lh_cleanup_free char *nowhere = path_of("no-folder/failed.safetensors");
	lh_cleanup_json json_t *progress = json_object();
	struct lh_error err = {0};
	struct run run;

	(void)state;
	run_open(&run, "sgd", HIDDEN, LH_SMALL_FLOAT);
	save(&run, path);
	run.net.ops.read = refuse_to_read;
	assert_int_equal(lh_checkpoint_write(path, run.net.graph, run.optimizer, run.settings,
					     progress, &err),
			 LH_ERUN);
	assert_string_equal(err.message, "checkpoint, tensor fc1.weight: the device is gone");
	assert_false(lh_path_exists(part));
	assert_int_equal(lh_checkpoint_check(path, NULL, NULL, &err), 0);
	run.net.ops.read = lh_device_reference32.read;
	assert_int_equal(lh_checkpoint_write(nowhere, run.net.graph, NULL, run.settings, progress,
					     &err),
			 LH_ESYS);
	assert_non_null(strstr(err.message, "no-folder"));
	run_close(&run);
}

/* ---- folders --------------------------------------------------------------------------------- */

static void save_step(struct run *run, const char *folder, uint64_t step)
{
	lh_cleanup_free char *path = lh_checkpoint_path(folder, step);

	run->net.steps = step;
	save(run, path);
}

static void damage(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, 700), 1);
	byte = (char)(byte ^ 4);
	assert_int_equal(pwrite(fd, &byte, 1, 700), 1);
	close(fd);
}

static void assert_latest(const char *folder, uint64_t step, size_t n_skipped, const char *message)
{
	lh_cleanup_free char *expected = lh_checkpoint_path(folder, step), *latest = NULL;
	struct lh_diag skipped = {0};
	struct lh_error err = {0};

	assert_int_equal(lh_checkpoint_find_latest(folder, &latest, &skipped, &err), 0);
	if (step)
		assert_string_equal(latest, expected);
	else
		assert_null(latest);
	assert_int_equal(skipped.n_messages, n_skipped);
	if (message)
		assert_non_null(strstr(skipped.messages[0], message));
	lh_diag_done(&skipped);
}

static void test_the_latest_whole_one_is_found(void **state)
{
	lh_cleanup_free char *folder = path_of("several"), *newest = NULL, *cut = NULL;
	lh_cleanup_free char *other = path_of("several/checkpoint-x.safetensors");
	struct lh_error err = {0};
	struct run run;

	(void)state;
	assert_latest(folder, 0, 0, NULL);
	assert_int_equal(lh_dir_make(folder, &err), 0);
	assert_latest(folder, 0, 0, NULL);
	run_open(&run, "sgd", HIDDEN, LH_SMALL_FLOAT);
	save_step(&run, folder, 999);
	save_step(&run, folder, 1000);
	save_step(&run, folder, 2);
	put_file(other, "x", 1);
	assert_latest(folder, 1000, 0, NULL);
	/* beyond the digits that are padded to */
	save_step(&run, folder, 1000000000000);
	assert_latest(folder, 1000000000000, 0, NULL);
	newest = lh_checkpoint_path(folder, 1000000000000);
	damage(newest);
	assert_latest(folder, 1000, 1, "checkpoint-1000000000000.safetensors is damaged");
	cut = lh_checkpoint_path(folder, 1000);
	assert_int_equal(truncate(cut, 9), 0);
	assert_latest(folder, 999, 2, NULL);
	run_close(&run);
}

static void test_old_ones_and_remains_are_pruned(void **state)
{
	lh_cleanup_free char *folder = path_of("pruned");
	lh_cleanup_free char *part = path_of("pruned/checkpoint-000000000009.safetensors.part");
	lh_cleanup_free char *other = path_of("pruned/results.json");
	struct lh_error err = {0};
	struct run run;

	(void)state;
	assert_int_equal(lh_checkpoint_prune(folder, 2, &err), 0);
	assert_int_equal(lh_dir_make(folder, &err), 0);
	run_open(&run, "sgd", HIDDEN, LH_SMALL_FLOAT);
	for (uint64_t step = 8; step <= 12; step++)
		save_step(&run, folder, step);
	put_file(part, "x", 1);
	put_file(other, "x", 1);
	assert_int_equal(lh_checkpoint_prune(folder, 2, &err), 0);
	for (uint64_t step = 8; step <= 12; step++) {
		lh_cleanup_free char *path = lh_checkpoint_path(folder, step);

		assert_int_equal(lh_path_exists(path), step >= 11);
	}
	assert_false(lh_path_exists(part));
	assert_true(lh_path_exists(other));
	assert_int_equal(lh_checkpoint_prune(folder, 2, &err), 0);
	assert_latest(folder, 12, 0, NULL);
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
		cmocka_unit_test(test_every_flipped_bit_is_found),
		cmocka_unit_test(test_every_truncation_is_found),
		cmocka_unit_test(test_a_killed_writer_leaves_the_old_one_whole),
		cmocka_unit_test(test_a_failed_write_leaves_nothing_behind),
		cmocka_unit_test(test_the_latest_whole_one_is_found),
		cmocka_unit_test(test_old_ones_and_remains_are_pruned),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
