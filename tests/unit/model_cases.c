/* SPDX-License-Identifier: Apache-2.0 */
/* See model_cases.h. */
#include "tests/unit/model_cases.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/rng.h"

/* clang-format off */
const struct lh_model_case lh_model_cases[] = {
	{"small-lenet5", "lenet5", {NULL}, 2},
	{"small-lenet5-colour", "lenet5", {"image=32", "channels=3", "classes=4", NULL}, 2},
	{"small-resnet-basic", "resnet18",
	 {"image=32", "width=8", "classes=10", "stage2=1", "stage3=1", "stage4=0", NULL}, 3},
	{"small-resnet-bottleneck", "resnet50",
	 {"image=24", "width=16", "classes=10", "stage1=2", "stage2=1", "stage3=0", NULL}, 3},
	{"small-resnet-wide", "wide-resnet101-2",
	 {"image=24", "width=16", "classes=10", "stage1=1", "stage2=1", "stage3=0", NULL}, 3},
	{"small-resnet20", "resnet20",
	 {"image=8", "width=4", "stage1=1", "stage2=2", "stage3=1", NULL}, 3},
	{"small-convnext", "convnext-large",
	 {"image=32", "width=8", "classes=10", "stage1=1", "stage2=2", "stage3=1", "stage4=0",
	  "layer_scale=0.5", "stochastic_depth=0", NULL}, 2},
	{"small-roberta", "roberta-base",
	 {"vocabulary=61", "sequence=10", "positions=14", "width=64", "layers=2", "heads=4", "inner=96",
	  "dropout=0", NULL}, 2},
	{"small-gpt2", "gpt2",
	 {"vocabulary=61", "sequence=10", "positions=12", "width=64", "layers=2", "heads=4", "inner=96",
	  "dropout=0", NULL}, 2},
	{"small-whisper", "whisper-tiny",
	 {"vocabulary=61", "sequence=7", "positions=9", "frames=15", "frame_positions=12", "mels=8",
	  "width=32", "layers=2", "heads=4", NULL}, 2},
	{"small-deepfm", "deepfm",
	 {"fields=5", "buckets=7", "numbers=3", "embedding=4", "width=24", "layers=2", NULL}, 6},
	{"small-deepfm-categories", "deepfm",
	 {"fields=5", "buckets=7", "numbers=0", "embedding=4", "width=24", "layers=1", NULL}, 6},
	{NULL, NULL, {NULL}, 0},
};
/* clang-format on */

int lh_model_case_config(const struct lh_model_case *c, struct lh_model_config *ret_config,
			 struct lh_error *err)
{
	int rc = lh_model_config_init(c->preset, ret_config, err);

	for (const char *const *setting = c->settings; rc == 0 && *setting; setting++)
		rc = lh_model_config_set(ret_config, *setting, err);
	return rc;
}

/* ---- batches -------------------------------------------------------------------------------- */

/* One of so many tokens is masked, and becomes the mask. */
enum { MASKED_OF = 4, MASK = 0 };

static int64_t count_kinds(const struct lh_model_config *config, const struct lh_tensor *input)
{
	switch (config->preset->family->task) {
	case LH_TASK_IMAGES:
		return lh_model_size(config, "classes");
	case LH_TASK_CTR:
		return strcmp(input->name, "sparse") ? 2 : lh_model_size(config, "buckets");
	case LH_TASK_TEXT:
	case LH_TASK_MASKED_TEXT:
	case LH_TASK_SPEECH:
		break;
	}
	return lh_model_size(config, "vocabulary");
}

static void start_stream(const struct lh_tensor *input, uint64_t seed, uint64_t index,
			 struct lh_rng *ret_rng)
{
	char stream[LH_TENSOR_NAME_MAX + 32];

	snprintf(stream, sizeof(stream), "batch/%" PRIu64 "/%s", index, input->name);
	lh_rng_init(ret_rng, seed, stream);
}

/* Numbers around mean, rounded to float, so that every device gets the same. */
static int write_normal(struct lh_graph *graph, struct lh_tensor *tensor, double mean,
			double deviation, struct lh_rng *rng, struct lh_error *err)
{
	bool is_wide = tensor->dtype == LH_F64;
	lh_cleanup_free void *values = malloc((size_t)tensor->n * sizeof(double));

	if (!values)
		return lh_fail(err, LH_ESYS, 0, "no memory for %s", tensor->name);
	for (int64_t i = 0; i < tensor->n; i++) {
		float value = (float)(mean + deviation * lh_rng_normal(rng));

		if (is_wide)
			((double *)values)[i] = (double)value;
		else
			((float *)values)[i] = value;
	}
	return lh_tensor_write(graph, tensor, values, err);
}

static int write_integers(struct lh_graph *graph, const struct lh_model_config *config,
			  struct lh_tensor *input, uint64_t seed, uint64_t index,
			  struct lh_error *err)
{
	lh_cleanup_free int32_t *values = malloc((size_t)input->n * sizeof(*values));
	uint64_t kinds = (uint64_t)count_kinds(config, input);
	struct lh_rng rng;

	if (!values)
		return lh_fail(err, LH_ESYS, 0, "no memory for %s", input->name);
	start_stream(input, seed, index, &rng);
	for (int64_t i = 0; i < input->n; i++)
		values[i] = (int32_t)lh_rng_below(&rng, kinds);
	return lh_tensor_write(graph, input, values, err);
}

/* Makes of the tokens drawn what is to be foretold: the next one, or those that are masked. */
static int write_text(struct lh_graph *graph, const struct lh_model_config *config, uint64_t seed,
		      uint64_t index, struct lh_error *err)
{
	struct lh_tensor *tokens = lh_graph_find(graph, "tokens");
	struct lh_tensor *targets = lh_graph_find(graph, "targets");
	bool is_masked = config->preset->family->task == LH_TASK_MASKED_TEXT;
	lh_cleanup_free int32_t *given = malloc((size_t)tokens->n * sizeof(*given));
	lh_cleanup_free int32_t *wanted = malloc((size_t)tokens->n * sizeof(*wanted));
	int rc = write_integers(graph, config, tokens, seed, index, err);

	if (!given || !wanted)
		return lh_fail(err, LH_ESYS, 0, "no memory for tokens");
	rc = rc ? rc : lh_tensor_read(graph, tokens, LH_DATA, given, err);
	if (rc)
		return rc;
	for (int64_t i = 0; i < tokens->n; i++) {
		bool is_last = (i + 1) % tokens->dims[1] == 0;

		wanted[i] = is_masked || is_last ? -1 : given[i + 1];
		if (is_masked && i % MASKED_OF == 1) {
			wanted[i] = given[i];
			given[i] = MASK;
		}
	}
	rc = lh_tensor_write(graph, tokens, given, err);
	return rc ? rc : lh_tensor_write(graph, targets, wanted, err);
}

int lh_model_batch_write(struct lh_graph *graph, const struct lh_model_config *config,
			 uint64_t seed, uint64_t index, struct lh_error *err)
{
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(graph, &n);
	bool has_text = lh_graph_find(graph, "tokens") != NULL;
	int rc = has_text ? write_text(graph, config, seed, index, err) : 0;
	struct lh_rng rng;

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		struct lh_tensor *input = tensors[i];

		if (input->role != LH_INPUT || input->view_of)
			continue;
		if (input->dtype != LH_I32) {
			start_stream(input, seed, index, &rng);
			rc = write_normal(graph, input, 0, 1, &rng, err);
		} else if (!has_text) {
			rc = write_integers(graph, config, input, seed, index, err);
		}
	}
	return rc;
}

/* ---- parameters ----------------------------------------------------------------------------- */

static int write_parameter(struct lh_graph *graph, struct lh_tensor *tensor, uint64_t seed,
			   struct lh_error *err)
{
	bool is_weight = tensor->n_dims > 1;
	bool is_bias = strcmp(strrchr(tensor->name, '.'), ".bias") == 0;
	double scale = is_weight ? sqrt((double)tensor->dims[0] / (double)tensor->n) : 0.3;
	struct lh_rng rng;

	lh_rng_init(&rng, seed, tensor->name);
	return write_normal(graph, tensor, is_weight || is_bias ? 0 : 1, scale, &rng, err);
}

int lh_model_parameters_write(struct lh_graph *graph, uint64_t seed, struct lh_error *err)
{
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(graph, &n);
	int rc = lh_graph_init_parameters(graph, seed, err);

	for (uint32_t i = 0; rc == 0 && i < n; i++)
		if (tensors[i]->role == LH_PARAMETER && !tensors[i]->view_of)
			rc = write_parameter(graph, tensors[i], seed, err);
	return rc;
}
