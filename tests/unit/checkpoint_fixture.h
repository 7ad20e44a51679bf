/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for checkpoints, and a small network in training that is saved into it and read back. */
#ifndef LH_TESTS_CHECKPOINT_FIXTURE_H
#define LH_TESTS_CHECKPOINT_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "tests/unit/small_net.h"
#include "tests/unit/test.h"
#include "trainer/optim/checkpoint.h"

enum { HIDDEN = 5 };

static char top[] = "/tmp/lh-checkpoint-XXXXXX";

static inline int set_up(void **state)
{
	(void)state;
	return mkdtemp(top) ? 0 : -1;
}

static inline int tear_down(void **state)
{
	(void)state;
	return lh_dir_remove(top, NULL);
}

static inline char *path_of(const char *name)
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

static inline void run_open(struct run *run, const char *kind, int64_t hidden,
			    enum lh_small_net_device device)
{
	struct lh_optimizer_options options;
	struct lh_error err = {0};

	lh_small_net_open(device, hidden, &run->net);
	assert_int_equal(lh_optimizer_options_init(kind, &options, &err), 0);
	if (strcmp(kind, "sgd") == 0)
		options.momentum = 0.9;
	assert_int_equal(lh_optimizer_new(run->net.graph, &options, &run->optimizer, &err), 0);
	run->settings = json_pack("{s:s, s:{s:I, s:f}, s:[i, i]}", "model", "small", "sizes",
				  "hidden", (json_int_t)hidden, "dropout", 0.1 + 0.2, "list", 1, 2);
	assert_non_null(run->settings);
}

static inline void run_close(struct run *run)
{
	json_decref(run->settings);
	lh_optimizer_free(run->optimizer);
	lh_small_net_close(&run->net);
}

static inline void save(const struct run *run, const char *path)
{
	lh_cleanup_json json_t *progress =
		json_pack("{s:I, s:I, s:f}", "step", (json_int_t)run->net.steps, "sampler",
			  (json_int_t)INT64_MAX, "loss_scale", 1.0 / 3);
	struct lh_error err = {0};

	if (lh_checkpoint_write(path, run->net.graph, run->optimizer, run->settings, progress,
				&err))
		fail_msg("%s", err.message);
}

static inline void load(struct run *run, const char *path)
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

static inline void assert_same(const struct run *a, const struct run *b)
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

#endif
