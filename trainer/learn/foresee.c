/* SPDX-License-Identifier: Apache-2.0 */
/* What a learner will take. See learner.h. */
#include "trainer/learn/learner.h"

static uint32_t count_states(const struct lh_optimizer_options *options)
{
	const struct lh_optimizer_kind *kind = lh_optimizer_find(options->kind);

	return kind->count_states ? kind->count_states(options) : kind->n_states;
}

int lh_learner_foresee(const struct lh_learn_spec *spec, uint32_t micro_batch,
		       struct lh_learner_memory *ret_memory, struct lh_error *err)
{
	struct lh_graph *graph = NULL;
	struct lh_device *device;
	struct lh_built_model model;
	int rc = spec->device->open(&spec->device_options, &device, err);

	if (rc)
		return rc;
	rc = lh_graph_new(device, &graph, err);
	if (rc == 0) {
		lh_model_build(graph, &spec->model, micro_batch, &model);
		rc = lh_graph_finish(graph, model.loss, true, err);
	}
	if (rc == 0) {
		lh_graph_count_memory(graph, &ret_memory->graph);
		ret_memory->optimizer_bytes =
			count_states(&spec->optimizer) * ret_memory->graph.parameters_bytes;
	}
	lh_graph_free(graph);
	device->ops->close(device);
	return rc;
}
