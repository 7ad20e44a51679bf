/* SPDX-License-Identifier: Apache-2.0 */
/* Small variants of the models. See model_cases.h. */
#include "tests/unit/model_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

/* clang-format off */
const struct lh_model_case lh_model_cases[] = {
	{"lenet5", "lenet5", {NULL}, 2},
	{"lenet5_colour", "lenet5", {"image=32", "channels=3", "classes=4", NULL}, 2},
	{"resnet_basic", "resnet18",
	 {"image=32", "width=8", "classes=10", "stage2=1", "stage3=1", "stage4=0", NULL}, 3},
	{"resnet_bottleneck", "resnet50",
	 {"image=32", "width=4", "classes=10", "stage1=2", "stage2=1", "stage3=1", "stage4=0", NULL}, 3},
	{"resnet_wide", "wide-resnet101-2",
	 {"image=32", "width=4", "classes=10", "stage1=1", "stage2=2", "stage3=0", NULL}, 3},
	{"resnet_small_images", "resnet20",
	 {"image=8", "width=4", "stage1=1", "stage2=2", "stage3=1", NULL}, 3},
	{"convnext", "convnext-large",
	 {"image=32", "width=8", "classes=10", "stage1=1", "stage2=2", "stage3=1", "stage4=0",
	  "layer_scale=0.5", "stochastic_depth=0", NULL}, 2},
	{"roberta", "roberta-base",
	 {"vocabulary=61", "sequence=10", "positions=14", "width=64", "layers=2", "heads=4", "inner=96",
	  "dropout=0", NULL}, 2},
	{"gpt2", "gpt2",
	 {"vocabulary=61", "sequence=10", "positions=12", "width=64", "layers=2", "heads=4", "inner=96",
	  "dropout=0", NULL}, 2},
	{"whisper", "whisper-tiny",
	 {"vocabulary=61", "sequence=7", "positions=9", "frames=15", "frame_positions=12", "mels=8",
	  "width=32", "layers=2", "heads=4", NULL}, 2},
	{"deepfm", "deepfm",
	 {"fields=5", "buckets=7", "numbers=3", "embedding=4", "width=24", "layers=2", NULL}, 6},
	{"deepfm_without_numbers", "deepfm",
	 {"fields=5", "buckets=7", "numbers=0", "embedding=4", "width=24", "layers=1", NULL}, 6},
	{NULL, NULL, {NULL}, 0},
};
/* clang-format on */

void lh_model_case_config(const struct lh_model_case *c, struct lh_model_config *ret_config)
{
	struct lh_error err = {0};

	if (lh_model_config_init(c->preset, ret_config, &err))
		fail_msg("%s: %s", c->name, err.message);
	for (const char *const *setting = c->settings; *setting; setting++)
		if (lh_model_config_set(ret_config, *setting, &err))
			fail_msg("%s: %s", c->name, err.message);
}

void lh_model_case_open(const struct lh_model_case *c, const struct lh_device_ops *ops,
			enum lh_dtype compute, struct lh_case_run *ret_run)
{
	struct lh_device_options options = {.n_threads = 2, .compute = compute};
	struct lh_error err = {0};
	struct lh_model_config config;
	struct lh_model model;

	*ret_run = (struct lh_case_run){.pass = {.is_training = true, .seed = 3, .step = 5}};
	lh_model_case_config(c, &config);
	if (ops->open(&options, &ret_run->device, &err) ||
	    lh_graph_new(ret_run->device, &ret_run->graph, &err))
		fail_msg("%s: %s", c->name, err.message);
	lh_model_build(ret_run->graph, &config, c->batch, &model);
	ret_run->logits = model.logits;
	ret_run->loss = model.loss;
	lh_graph_keep(model.logits);
	if (lh_graph_finish(ret_run->graph, model.loss, false, &err))
		fail_msg("%s: %s", c->name, err.message);
}

/* Weights that keep the size of what flows through, norms near 1, biases that are not 0. */
static void fill_parameter(struct lh_case_run *run, struct lh_tensor *tensor)
{
	bool is_weight = tensor->n_dims > 1;
	double scale = is_weight ? sqrt((double)tensor->dims[0] / (double)tensor->n) : 0.3;
	bool is_bias = strcmp(strrchr(tensor->name, '.'), ".bias") == 0;
	double *values = calloc((size_t)tensor->n, sizeof(*values));
	struct lh_rng rng;

	assert_non_null(values);
	lh_rng_init(&rng, 2, tensor->name);
	for (int64_t i = 0; i < tensor->n; i++)
		values[i] = (float)((is_weight || is_bias ? 0 : 1) + scale * lh_rng_normal(&rng));
	lh_case_write(run, tensor, values);
	free(values);
}

double lh_model_case_forward(const struct lh_model_case *c, struct lh_case_run *run)
{
	struct lh_model_config config;
	struct lh_error err = {0};
	struct lh_loss loss;
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(run->graph, &n);

	lh_model_case_config(c, &config);
	if (lh_graph_init_parameters(run->graph, 1, &err) ||
	    lh_model_batch_write(run->graph, &config, 1, 0, &err))
		fail_msg("%s: %s", c->name, err.message);
	for (uint32_t i = 0; i < n; i++)
		if (tensors[i]->role == LH_PARAMETER && !tensors[i]->view_of)
			fill_parameter(run, tensors[i]);
	if (lh_graph_forward(run->graph, &run->pass, &err) ||
	    lh_loss_read(run->graph, run->loss, &loss, &err))
		fail_msg("%s: %s", c->name, err.message);
	return loss.mean;
}
