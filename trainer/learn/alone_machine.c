/* SPDX-License-Identifier: Apache-2.0 */
/* What a training alone runs on. See alone.h. */
#include <stdlib.h>
#include <string.h>

#include "trainer/device/host.h"
#include "trainer/learn/alone.h"
#include "trainer/learn/machine.h"

/* ---- the specification ---------------------------------------------------------------------- */

static int join_faults(const struct lh_diag *diag, struct lh_error *err)
{
	char text[LH_ERROR_MESSAGE_MAX] = "";
	size_t n = 0;

	for (size_t i = 0; i < diag->n_messages && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? "\n" : "",
				      diag->messages[i]);
	return lh_fail(err, LH_EINPUT, 0, "%s", text);
}

int lh_alone_spec_read(const struct lh_alone_job *job, struct lh_learn_spec *ret_spec,
		       struct lh_error *err)
{
	const struct lh_learn_reading reading = {.prefix = "", .devices = lh_devices};
	struct lh_diag diag = {0};
	int rc = 0;

	lh_learn_spec_read(job->model, job->train, &reading, ret_spec, &diag);
	if (diag.n_messages)
		rc = join_faults(&diag, err);
	lh_diag_done(&diag);
	return rc;
}

/* ---- memory --------------------------------------------------------------------------------- */

static double to_mb(uint64_t bytes)
{
	return (double)bytes / 1e6;
}

int lh_alone_check_memory(const struct lh_learn_spec *spec, uint32_t micro_batch,
			  struct lh_error *err)
{
	uint64_t available = lh_machine_available_bytes(), needed;
	struct lh_learner_memory memory = {0};
	const struct lh_graph_memory *graph = &memory.graph;
	int rc = lh_learner_foresee(spec, micro_batch, &memory, err);

	if (rc)
		return lh_error_prefix(err, "model %s", spec->model.preset->name);
	/* inputs stand in the batch, too */
	needed = graph->parameters_bytes + graph->gradients_bytes + graph->state_bytes +
		 2 * graph->inputs_bytes + graph->arena_bytes + memory.optimizer_bytes;
	if (spec->device->alloc != lh_host_alloc || needed <= available)
		return 0;
	return lh_fail(err, LH_EENV, 0,
		       "model %s needs %.0f MB: weights %.0f, gradients %.0f, optimizer %.0f, "
		       "activations of a micro-batch of %u %.0f, inputs %.0f; this machine has "
		       "%.0f MB free: take a smaller micro-batch, smaller sizes or another "
		       "optimizer",
		       spec->model.preset->name, to_mb(needed), to_mb(graph->parameters_bytes),
		       to_mb(graph->gradients_bytes), to_mb(memory.optimizer_bytes), micro_batch,
		       to_mb(graph->arena_bytes + graph->state_bytes),
		       to_mb(2 * graph->inputs_bytes), to_mb(available));
}

/* ---- descriptions --------------------------------------------------------------------------- */

json_t *lh_alone_describe_device(const struct lh_device *device)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:s}", "name", device->ops->name, "processor",
			 device->processor, "software", device->software, "threads",
			 (json_int_t)device->n_threads, "precision",
			 lh_dtype_name(device->compute));
}

json_t *lh_alone_describe_memory(const struct lh_learner *learner)
{
	struct lh_learner_memory m;
	uint64_t sum;

	lh_learner_count_memory(learner, &m);
	sum = m.graph.parameters_bytes + m.graph.gradients_bytes + m.graph.state_bytes +
	      m.graph.inputs_bytes + m.graph.arena_bytes + m.graph.workspace_bytes +
	      m.optimizer_bytes;
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights_bytes",
			 (json_int_t)m.graph.parameters_bytes, "gradients_bytes",
			 (json_int_t)m.graph.gradients_bytes, "optimizer_bytes",
			 (json_int_t)m.optimizer_bytes, "state_bytes",
			 (json_int_t)m.graph.state_bytes, "activations_bytes",
			 (json_int_t)m.graph.arena_bytes, "inputs_bytes",
			 (json_int_t)m.graph.inputs_bytes, "workspace_bytes",
			 (json_int_t)m.graph.workspace_bytes, "sum_bytes", (json_int_t)sum);
}
