/* SPDX-License-Identifier: Apache-2.0 */
/* Random batches for any model. See model_cases.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/rng.h"
#include "tests/unit/model_cases.h"

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

static int write_numbers(struct lh_graph *graph, struct lh_tensor *input, uint64_t seed,
			 uint64_t index, struct lh_error *err)
{
	lh_cleanup_free char *values = malloc((size_t)input->n * sizeof(double));
	struct lh_rng rng;

	if (!values)
		return lh_fail(err, LH_ESYS, 0, "no memory for %s", input->name);
	start_stream(input, seed, index, &rng);
	for (int64_t i = 0; i < input->n; i++) {
		float z = (float)lh_rng_normal(&rng);

		if (lh_graph_device(graph)->compute == LH_F64)
			((double *)(void *)values)[i] = (double)z;
		else
			((float *)(void *)values)[i] = z;
	}
	return lh_tensor_write(graph, input, values, err);
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

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		struct lh_tensor *input = tensors[i];

		if (input->role != LH_INPUT || input->view_of)
			continue;
		if (input->dtype != LH_I32)
			rc = write_numbers(graph, input, seed, index, err);
		else if (!has_text)
			rc = write_integers(graph, config, input, seed, index, err);
	}
	return rc;
}
