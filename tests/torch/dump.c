/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a model on seeded random batches and writes what went in and what came out, so that
 * compare.py and compare_steps.py can do the same in PyTorch and compare. Without steps: one
 * forward and backward pass; its loss, logits and gradients. With steps: the losses of training.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/torch/dump_options.h"
#include "tests/torch/torch_settings.h"
#include "tests/unit/model_cases.h"
#include "trainer/layers/layers.h"
#include "trainer/tensor/safetensors.h"

enum { NAME_SIZE = LH_TENSOR_NAME_MAX + 48, BATCH_SEED = 1 };

/* The tensors of the file; names and data are owned. */
struct content {
	struct lh_safetensor_entry *entries;
	size_t n, size;
};

struct run {
	const struct lh_dump_options *options;
	struct lh_device *device;
	struct lh_graph *graph;
	struct lh_built_model model;
	struct content content;
	struct lh_pass pass;
};

/* ---- what goes into the file ----------------------------------------------------------------- */

/* Adds a tensor called name; takes its data over, whose NULL means no memory. */
static int add(struct content *content, const char *name, struct lh_safetensor_entry entry,
	       struct lh_error *err)
{
	char *copy = strdup(name);

	if (content->n == content->size) {
		size_t size = content->size ? 2 * content->size : 256;
		void *grown = realloc(content->entries, size * sizeof(*content->entries));

		content->entries = grown ? grown : content->entries;
		content->size = grown ? size : content->size;
	}
	if (!entry.data || !copy || content->n == content->size) {
		free((void *)(uintptr_t)entry.data);
		free(copy);
		return lh_fail(err, LH_ESYS, 0, "no memory for %s", name);
	}
	entry.name = copy;
	content->entries[content->n++] = entry;
	return 0;
}

static void free_content(struct content *content)
{
	for (size_t i = 0; i < content->n; i++) {
		free((void *)(uintptr_t)content->entries[i].name);
		free((void *)(uintptr_t)content->entries[i].data);
	}
	free(content->entries);
}

static enum lh_dtype host_dtype(enum lh_dtype dtype)
{
	return dtype == LH_F16 || dtype == LH_BF16 ? LH_F32 : dtype;
}

static int add_tensor(struct run *run, const char *prefix, const char *name,
		      const struct lh_tensor *tensor, enum lh_part part, struct lh_error *err)
{
	enum lh_dtype dtype = host_dtype(tensor->dtype);
	void *data = calloc((size_t)tensor->n, lh_dtype_bytes(dtype));
	int rc = data ? lh_tensor_read(run->graph, tensor, part, data, err)
		      : lh_fail(err, LH_ESYS, 0, "no memory for %s", name);
	struct lh_safetensor_entry entry;
	char whole[NAME_SIZE];

	if (rc) {
		free(data);
		return rc;
	}
	snprintf(whole, sizeof(whole), "%s%s", prefix, name);
	entry = (struct lh_safetensor_entry){
		.dtype = dtype, .n_dims = tensor->n_dims, .data = data};
	memcpy(entry.dims, tensor->dims, sizeof(tensor->dims));
	return add(&run->content, whole, entry, err);
}

/* All tensors of a role, under their names behind prefix. */
static int add_role(struct run *run, const char *prefix, enum lh_role role, enum lh_part part,
		    struct lh_error *err)
{
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(run->graph, &n);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		const char *name = tensors[i]->name;

		if (tensors[i]->role == role && !tensors[i]->view_of)
			rc = add_tensor(run, prefix, role == LH_INPUT ? lh_torch_field(name) : name,
					tensors[i], part, err);
	}
	return rc;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static int open_run(struct run *run, struct lh_error *err)
{
	const struct lh_dump_options *options = run->options;
	bool is_wide = options->device == &lh_device_reference64;
	struct lh_device_options device = {.compute = is_wide ? LH_F64 : LH_F32};
	int rc = options->device->open(&device, &run->device, err);

	rc = rc ? rc : lh_graph_new(run->device, &run->graph, err);
	if (rc)
		return rc;
	lh_model_build(run->graph, &options->config, options->batch, &run->model);
	if (options->steps == 0) {
		lh_graph_keep(run->model.logits);
		lh_graph_keep(run->model.loss);
	}
	rc = lh_graph_finish(run->graph, run->model.loss, false, err);
	if (rc)
		return rc;
	return options->is_initial ? lh_graph_init_parameters(run->graph, options->seed, err)
				   : lh_model_parameters_write(run->graph, options->seed, err);
}

static void close_run(struct run *run)
{
	free_content(&run->content);
	lh_graph_free(run->graph);
	if (run->device)
		run->device->ops->close(run->device);
}

static int write_file(struct run *run, struct lh_error *err)
{
	const struct lh_dump_options *options = run->options;
	json_t *settings = lh_torch_settings(&options->config);
	json_t *optimizer = lh_dump_optimizer(options);
	char *settings_text = json_dumps(settings, JSON_SORT_KEYS);
	char *optimizer_text = json_dumps(optimizer, JSON_SORT_KEYS);
	json_t *metadata =
		json_pack("{s:s, s:s, s:s}", "model", options->config.preset->family->name,
			  "settings", settings_text, "optimizer", optimizer_text);
	int rc = metadata ? lh_safetensors_write(options->path, run->content.entries,
						 run->content.n, metadata, err)
			  : lh_fail(err, LH_ESYS, 0, "no memory for metadata");

	json_decref(metadata);
	free(settings_text);
	free(optimizer_text);
	json_decref(settings);
	json_decref(optimizer);
	return rc;
}

/* Forward and backward of batch `index`; adds its loss. */
static int pass_batch(struct run *run, uint64_t index, double *loss, struct lh_error *err)
{
	struct lh_loss read;
	int rc = lh_model_batch_write(run->graph, &run->options->config, BATCH_SEED, index, err);

	rc = rc ? rc : lh_graph_forward(run->graph, &run->pass, err);
	rc = rc ? rc : lh_loss_read(run->graph, run->model.loss, &read, err);
	rc = rc ? rc : lh_graph_backward(run->graph, &run->pass, 1, err);
	if (rc == 0)
		*loss += read.mean;
	return rc;
}

static int dump_pass(struct run *run, struct lh_error *err)
{
	double loss = 0;
	int rc = add_role(run, "", LH_PARAMETER, LH_DATA, err);

	rc = rc ? rc : add_role(run, "state.", LH_STATE, LH_DATA, err);
	rc = rc ? rc : pass_batch(run, 0, &loss, err);
	rc = rc ? rc : add_role(run, "input.", LH_INPUT, LH_DATA, err);
	rc = rc ? rc : add_role(run, "after.", LH_STATE, LH_DATA, err);
	rc = rc ? rc : add_role(run, "grad.", LH_PARAMETER, LH_GRAD, err);
	rc = rc ? rc : add_tensor(run, "", "loss", run->model.loss, LH_DATA, err);
	return rc ? rc : add_tensor(run, "", "logits", run->model.logits, LH_DATA, err);
}

static int take_step(struct run *run, struct lh_optimizer *optimizer, int64_t step, double *loss,
		     struct lh_error *err)
{
	int64_t k = run->options->accumulate, n_batches = run->options->steps * k;
	double norm, lr = lh_schedule_lr(&run->options->schedule, (uint64_t)step);
	int rc = lh_graph_zero_gradients(run->graph, err);

	for (int64_t i = step * k; rc == 0 && i < (step + 1) * k; i++) {
		char prefix[48];

		snprintf(prefix, sizeof(prefix), "step.%" PRId64 ".input.", i);
		run->pass.step = (uint64_t)i;
		rc = pass_batch(run, (uint64_t)(i % n_batches), loss, err);
		if (rc == 0 && i < n_batches)
			rc = add_role(run, prefix, LH_INPUT, LH_DATA, err);
	}
	*loss /= (double)k;
	return rc ? rc : lh_optimizer_step(optimizer, lr, (double)k, &norm, err);
}

/* In the type that the model computed in. */
static int add_losses(struct run *run, const double *losses, int64_t n, struct lh_error *err)
{
	bool is_wide = run->device->compute == LH_F64;
	void *values = calloc((size_t)n, sizeof(double));

	for (int64_t i = 0; values && i < n; i++) {
		if (is_wide)
			((double *)values)[i] = losses[i];
		else
			((float *)values)[i] = (float)losses[i];
	}
	return add(&run->content, "losses",
		   (struct lh_safetensor_entry){.dtype = is_wide ? LH_F64 : LH_F32,
						.n_dims = 1,
						.dims = {n},
						.data = values},
		   err);
}

static int dump_steps(struct run *run, struct lh_error *err)
{
	int64_t n = run->options->steps * run->options->epochs;
	double *losses = calloc((size_t)n, sizeof(*losses));
	struct lh_optimizer *optimizer = NULL;
	int rc = add_role(run, "", LH_PARAMETER, LH_DATA, err);

	rc = rc ? rc : lh_optimizer_new(run->graph, &run->options->optimizer, &optimizer, err);
	if (rc == 0 && !losses)
		rc = lh_fail(err, LH_ESYS, 0, "no memory for losses");
	for (int64_t step = 0; rc == 0 && step < n; step++)
		rc = take_step(run, optimizer, step, &losses[step], err);
	lh_optimizer_free(optimizer);
	rc = rc ? rc : add_losses(run, losses, n, err);
	free(losses);
	return rc;
}

int main(int argc, char **argv)
{
	struct lh_error err = {0};
	struct lh_dump_options options;
	struct run run = {.options = &options, .pass = {.is_training = true}};
	int rc = lh_dump_read_options(argc, argv, &options, &err);

	run.pass.seed = options.seed;
	rc = rc ? rc : open_run(&run, &err);
	rc = rc ? rc : (options.steps ? dump_steps(&run, &err) : dump_pass(&run, &err));
	rc = rc ? rc : write_file(&run, &err);
	if (rc)
		fprintf(stderr, "dump: %s\n", err.message);
	close_run(&run);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
