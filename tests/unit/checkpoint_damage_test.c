/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that are damaged, from a flipped bit to a writer that is killed, and folders of them.
 */
#include "trainer/optim/checkpoint.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/checkpoint_fixture.h"

enum { FILE_MAX_BYTES = 1 << 24 };

/* ---- bits and bytes
 * ---------------------------------------------------------------------------------- */

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
		cmocka_unit_test(test_every_flipped_bit_is_found),
		cmocka_unit_test(test_every_truncation_is_found),
		cmocka_unit_test(test_a_killed_writer_leaves_the_old_one_whole),
		cmocka_unit_test(test_a_failed_write_leaves_nothing_behind),
		cmocka_unit_test(test_the_latest_whole_one_is_found),
		cmocka_unit_test(test_old_ones_and_remains_are_pruned),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
