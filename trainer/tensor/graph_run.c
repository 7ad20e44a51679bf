/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for a finished graph, and its passes. See graph.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "trainer/layers/layers.h"
#include "trainer/tensor/graph_internal.h"

/* Elements that fill a cache line on every device: tensors of a multiple are placed first. */
enum { ALIGNED_ELEMENTS = 16 };

static void place_in_vector(struct lh_graph *graph, enum lh_role role, bool is_aligned, int64_t *at)
{
	for (uint32_t i = 0; i < graph->n_tensors; i++) {
		struct lh_tensor *tensor = graph->tensors[i];

		if (tensor->role != role || (tensor->n % ALIGNED_ELEMENTS == 0) != is_aligned)
			continue;
		tensor->at = *at;
		*at += tensor->n;
	}
}

static void place_in_vectors(struct lh_graph *graph)
{
	int64_t at = 0;

	place_in_vector(graph, LH_PARAMETER, true, &at);
	place_in_vector(graph, LH_PARAMETER, false, &at);
	at = 0;
	place_in_vector(graph, LH_STATE, true, &at);
	place_in_vector(graph, LH_STATE, false, &at);
}

/* Offsets of inputs and constants in their memory, by tensor; returns the bytes of all. */
static size_t place_inputs(const struct lh_graph *graph, size_t *ret_at)
{
	size_t at = 0;

	for (uint32_t i = 0; i < graph->n_tensors; i++) {
		const struct lh_tensor *tensor = graph->tensors[i];

		if (tensor->view_of || (tensor->role != LH_INPUT && tensor->role != LH_CONSTANT))
			continue;
		ret_at[i] = at;
		at += lh_align_bytes((size_t)tensor->n * lh_dtype_bytes(tensor->dtype));
	}
	return at;
}

static void *offset(void *base, int64_t bytes)
{
	return base && bytes >= 0 ? (char *)base + bytes : NULL;
}

static void point_tensor(struct lh_graph *graph, struct lh_tensor *tensor, const size_t *input_at,
			 const struct lh_memory_plan *plan)
{
	int64_t bytes = (int64_t)lh_dtype_bytes(tensor->dtype);

	switch (tensor->role) {
	case LH_INPUT:
	case LH_CONSTANT:
		tensor->data = offset(graph->inputs, (int64_t)input_at[tensor->id]);
		tensor->grad = offset(graph->arena, plan->grad_at[tensor->id]);
		break;
	case LH_PARAMETER:
		tensor->data = offset(graph->parameters, tensor->at * bytes);
		tensor->cast = offset(graph->casts,
				      tensor->at * (int64_t)lh_dtype_bytes(graph->device->compute));
		tensor->grad = offset(graph->gradients, tensor->at * bytes);
		break;
	case LH_STATE:
		tensor->data = offset(graph->state, tensor->at * bytes);
		break;
	case LH_ACTIVATION:
	case LH_SAVED:
		tensor->data = offset(graph->arena, plan->data_at[tensor->id]);
		tensor->grad = offset(graph->arena, plan->grad_at[tensor->id]);
		break;
	}
}

static void point_tensors(struct lh_graph *graph, const size_t *input_at,
			  const struct lh_memory_plan *plan)
{
	for (uint32_t i = 0; i < graph->n_tensors; i++)
		if (!graph->tensors[i]->view_of)
			point_tensor(graph, graph->tensors[i], input_at, plan);
	for (uint32_t i = 0; i < graph->n_tensors; i++) {
		struct lh_tensor *view = graph->tensors[i];

		if (view->view_of) {
			view->data = view->view_of->data;
			view->grad = view->view_of->grad;
		}
	}
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		graph->nodes[i]->workspace = graph->workspace;
}

static int prepare_nodes(struct lh_graph *graph, struct lh_error *err)
{
	for (uint32_t i = 0; i < graph->n_nodes; i++) {
		struct lh_graph_node *node = graph->nodes[i];
		const struct lh_kernel *kernel = graph->device->ops->kernel(node->layer);
		int rc = kernel->prepare ? kernel->prepare(graph->device, node, err) : 0;

		if (rc)
			return lh_error_prefix(err, "layer %s", node->name);
		if (node->workspace_bytes > graph->memory.workspace_bytes)
			graph->memory.workspace_bytes = node->workspace_bytes;
	}
	return 0;
}

static int allocate(struct lh_graph *graph, struct lh_error *err)
{
	const struct lh_device_ops *ops = graph->device->ops;
	const struct lh_graph_memory *m = &graph->memory;
	const struct {
		const char *what;
		uint64_t bytes;
		void **memory;
	} parts[] = {
		{"parameters", m->parameters_bytes, &graph->parameters},
		{"parameters in the compute type", m->casts_bytes, &graph->casts},
		{"gradients", m->gradients_bytes, &graph->gradients},
		{"state", m->state_bytes, &graph->state},
		{"inputs", m->inputs_bytes, &graph->inputs},
		{"activations", m->arena_bytes, &graph->arena},
		{"workspace", m->workspace_bytes, &graph->workspace},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		int rc = parts[i].bytes
				 ? ops->alloc(graph->device, parts[i].bytes, parts[i].memory, err)
				 : 0;

		if (rc)
			return lh_error_prefix(err, "%s", parts[i].what);
	}
	return 0;
}

static int write_constants(struct lh_graph *graph, struct lh_error *err)
{
	for (uint32_t i = 0; i < graph->n_tensors; i++) {
		struct lh_tensor *tensor = graph->tensors[i];
		int rc = graph->constants[i]
				 ? lh_tensor_write(graph, tensor, graph->constants[i], err)
				 : 0;

		if (rc)
			return rc;
	}
	return 0;
}

static int check_built(struct lh_graph *graph, struct lh_tensor *loss, struct lh_error *err)
{
	for (uint32_t i = 0; graph->mistake.code == 0 && i < graph->n_nodes; i++)
		if (!graph->nodes[i]->out)
			lh_graph_fail(graph, "layer %s has no output", graph->nodes[i]->name);
	if (graph->mistake.code == 0 && graph->n_nodes == 0)
		lh_graph_fail(graph, "a graph without layers");
	if (graph->mistake.code == 0 && loss && loss->n != 1)
		lh_graph_fail(graph, "the loss %s has %" PRId64 " elements; expected one",
			      loss->name, loss->n);
	if (graph->mistake.code && err)
		*err = graph->mistake;
	return graph->mistake.code;
}

static int give_memory(struct lh_graph *graph, const struct lh_memory_plan *plan, bool is_dry,
		       struct lh_error *err)
{
	struct lh_graph_memory *m = &graph->memory;
	size_t *input_at = calloc(graph->n_tensors, sizeof(*input_at));
	size_t master = lh_dtype_bytes(graph->device->master);
	int rc = 0;

	if (!input_at)
		return lh_fail(err, LH_ESYS, 0, "no memory for the graph");
	m->parameters_bytes = (uint64_t)graph->n_parameters * master;
	if (graph->device->compute != graph->device->master)
		m->casts_bytes =
			(uint64_t)graph->n_parameters * lh_dtype_bytes(graph->device->compute);
	m->gradients_bytes = graph->loss ? m->parameters_bytes : 0;
	m->state_bytes = (uint64_t)graph->n_state * master;
	m->inputs_bytes = place_inputs(graph, input_at);
	m->activations_bytes = plan->peak_bytes;
	m->arena_bytes = plan->arena_bytes;
	if (!is_dry && (rc = prepare_nodes(graph, err)) == 0 && (rc = allocate(graph, err)) == 0) {
		point_tensors(graph, input_at, plan);
		rc = write_constants(graph, err);
	}
	free(input_at);
	return rc;
}

int lh_graph_finish(struct lh_graph *graph, struct lh_tensor *loss, bool is_dry,
		    struct lh_error *err)
{
	struct lh_memory_plan plan = {0};
	int rc = check_built(graph, loss, err);

	if (rc)
		return rc;
	graph->loss = loss;
	place_in_vectors(graph);
	rc = lh_memory_plan_make(graph, &plan, err);
	if (rc == 0)
		rc = give_memory(graph, &plan, is_dry, err);
	lh_memory_plan_done(&plan);
	return rc;
}

/* ---- parameters ----------------------------------------------------------------------------- */

/* Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5, sines and cosines in two halves. */
static double sinusoid(const struct lh_tensor *tensor, int64_t i)
{
	int64_t width = tensor->n / tensor->dims[0], half = width / 2, c = i % width;
	double steps = half > 1 ? (double)(half - 1) : 1;
	double angle = (double)(i / width) * exp(-log(10000) * (double)(c % half) / steps);

	return c < half ? sin(angle) : cos(angle);
}

static double draw(const struct lh_tensor *tensor, int64_t i, struct lh_rng *rng)
{
	const struct lh_init *init = &tensor->init;
	double z;

	switch (init->kind) {
	case LH_INIT_ZEROS:
		return 0;
	case LH_INIT_ONES:
		return 1;
	case LH_INIT_VALUE:
		return init->scale;
	case LH_INIT_UNIFORM:
		return (2 * lh_rng_uniform(rng) - 1) * init->scale;
	case LH_INIT_SINUSOIDS:
		return sinusoid(tensor, i);
	case LH_INIT_NORMAL:
		break;
	}
	do
		z = lh_rng_normal(rng);
	while (init->truncate_at > 0 && (z < -init->truncate_at || z > init->truncate_at));
	return z * init->scale;
}

static void draw_tensor(const struct lh_tensor *tensor, uint64_t seed, void *ret_values)
{
	char stream[LH_TENSOR_NAME_MAX + 8] = "init/";
	int64_t row = tensor->n / tensor->dims[0];
	struct lh_rng rng;

	strcat(stream, tensor->name);
	lh_rng_init(&rng, seed, stream);
	for (int64_t i = 0; i < tensor->n; i++) {
		double value = draw(tensor, i, &rng);

		if (tensor->init.zero_row && i / row == tensor->init.zero_row - 1)
			value = 0;
		if (tensor->dtype == LH_F64)
			((double *)ret_values)[i] = (float)value;
		else
			((float *)ret_values)[i] = (float)value;
	}
}

int lh_graph_init_parameters(struct lh_graph *graph, uint64_t seed, struct lh_error *err)
{
	for (uint32_t i = 0; i < graph->n_tensors; i++) {
		struct lh_tensor *tensor = graph->tensors[i];
		void *values;
		int rc;

		if (tensor->view_of || (tensor->role != LH_PARAMETER && tensor->role != LH_STATE))
			continue;
		values = malloc((size_t)tensor->n * lh_dtype_bytes(tensor->dtype));
		if (!values)
			return lh_fail(err, LH_ESYS, 0, "no memory for %s", tensor->name);
		draw_tensor(tensor, seed, values);
		rc = lh_tensor_write(graph, tensor, values, err);
		free(values);
		if (rc)
			return rc;
	}
	return 0;
}

int lh_tensor_write(struct lh_graph *graph, struct lh_tensor *tensor, const void *host,
		    struct lh_error *err)
{
	return graph->device->ops->write(graph->device, tensor->data, tensor->dtype, host,
					 tensor->n, err);
}

int lh_tensor_read(struct lh_graph *graph, const struct lh_tensor *tensor, enum lh_part part,
		   void *ret_host, struct lh_error *err)
{
	const void *memory = part == LH_DATA ? tensor->data : tensor->grad;

	if (!memory)
		return lh_fail(err, LH_ERUN, 0, "%s: nothing of it is kept", tensor->name);
	return graph->device->ops->read(graph->device, memory, tensor->dtype, ret_host, tensor->n,
					err);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* Casts are made anew for every pass: whoever changes parameters need not know of them. */
static int refresh_casts(struct lh_graph *graph, struct lh_error *err)
{
	if (!graph->casts)
		return 0;
	return graph->device->ops->cast(graph->device, graph->casts, graph->parameters,
					graph->n_parameters, err);
}

int lh_graph_forward(struct lh_graph *graph, const struct lh_pass *pass, struct lh_error *err)
{
	int rc;

	lh_device_phase(graph->device, "forward");
	rc = refresh_casts(graph, err);
	for (uint32_t i = 0; rc == 0 && i < graph->n_nodes; i++) {
		const struct lh_graph_node *node = graph->nodes[i];

		rc = graph->device->ops->kernel(node->layer)
			     ->forward(graph->device, node, pass, err);
		if (rc)
			lh_error_prefix(err, "layer %s, forward", node->name);
	}
	lh_device_phase(graph->device, NULL);
	return rc;
}

int lh_graph_backward(struct lh_graph *graph, const struct lh_pass *pass, double loss_scale,
		      struct lh_error *err)
{
	struct lh_tensor *loss = graph->loss;
	float scale = (float)loss_scale;
	int rc;

	if (!loss)
		return lh_fail(err, LH_ERUN, 0, "a graph without a loss has no backward pass");
	lh_device_phase(graph->device, "backward");
	rc = graph->device->ops->write(
		graph->device, loss->grad, loss->dtype,
		loss->dtype == LH_F64 ? (const void *)&loss_scale : (const void *)&scale, 1, err);
	for (uint32_t i = graph->n_nodes; rc == 0 && i-- > 0;) {
		const struct lh_graph_node *node = graph->nodes[i];

		if (!node->out->grad)
			continue;
		rc = graph->device->ops->kernel(node->layer)
			     ->backward(graph->device, node, pass, err);
		if (rc)
			lh_error_prefix(err, "layer %s, backward", node->name);
	}
	lh_device_phase(graph->device, NULL);
	return rc;
}

int lh_graph_zero_gradients(struct lh_graph *graph, struct lh_error *err)
{
	return graph->device->ops->zero(graph->device, graph->gradients,
					(size_t)graph->memory.gradients_bytes, err);
}
