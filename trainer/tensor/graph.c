/* SPDX-License-Identifier: Apache-2.0 */
/* Building graphs. See graph.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/layers/layers.h"
#include "trainer/tensor/graph_internal.h"

/* A tensor of more elements than this is a mistake. */
static const int64_t ELEMENTS_MAX = (int64_t)1 << 40;

size_t lh_dtype_bytes(enum lh_dtype dtype)
{
	switch (dtype) {
	case LH_F64:
		return 8;
	case LH_F16:
	case LH_BF16:
		return 2;
	case LH_F32:
	case LH_I32:
		break;
	}
	return 4;
}

const char *lh_dtype_name(enum lh_dtype dtype)
{
	static const char *const names[] = {"fp32", "fp64", "fp16", "bf16", "int32"};

	return names[dtype];
}

int lh_graph_new(struct lh_device *device, struct lh_graph **ret_graph, struct lh_error *err)
{
	struct lh_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return lh_fail(err, LH_ESYS, 0, "no memory for a graph");
	graph->device = device;
	*ret_graph = graph;
	return 0;
}

static void free_node(struct lh_graph *graph, struct lh_graph_node *node)
{
	const struct lh_kernel *kernel = graph->device->ops->kernel(node->layer);

	if (kernel && kernel->done && node->plan)
		kernel->done(node);
	free((void *)(uintptr_t)node->spec);
	free(node);
}

void lh_graph_free(struct lh_graph *graph)
{
	if (!graph)
		return;
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		free_node(graph, graph->nodes[i]);
	for (uint32_t i = 0; i < graph->n_tensors; i++) {
		free(graph->tensors[i]);
		free(graph->constants[i]);
	}
	free(graph->nodes);
	free(graph->tensors);
	free(graph->constants);
	graph->device->ops->free(graph->device, graph->parameters);
	graph->device->ops->free(graph->device, graph->casts);
	graph->device->ops->free(graph->device, graph->gradients);
	graph->device->ops->free(graph->device, graph->state);
	graph->device->ops->free(graph->device, graph->inputs);
	graph->device->ops->free(graph->device, graph->arena);
	graph->device->ops->free(graph->device, graph->workspace);
	free(graph);
}

void *lh_graph_fail(struct lh_graph *graph, const char *fmt, ...)
{
	char message[LH_ERROR_MESSAGE_MAX];
	va_list args;

	if (graph->mistake.code)
		return NULL;
	va_start(args, fmt);
	vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	lh_fail(&graph->mistake, LH_EINPUT, 0, "%s", message);
	return NULL;
}

static void *fail_memory(struct lh_graph *graph)
{
	if (!graph->mistake.code)
		lh_fail(&graph->mistake, LH_ESYS, 0, "no memory for the graph");
	return NULL;
}

bool lh_graph_has_failed(const struct lh_graph *graph)
{
	return graph->mistake.code != 0;
}

void lh_graph_enter(struct lh_graph *graph, const char *fmt, ...)
{
	va_list args;

	if (graph->n_scopes == LH_SCOPES_MAX) {
		lh_graph_fail(graph, "scopes nest deeper than %d", LH_SCOPES_MAX);
		return;
	}
	va_start(args, fmt);
	vsnprintf(graph->scopes[graph->n_scopes++], LH_TENSOR_NAME_MAX, fmt, args);
	va_end(args);
}

void lh_graph_leave(struct lh_graph *graph)
{
	if (graph->n_scopes)
		graph->n_scopes--;
}

/* Doubles *items, pointers, where n fills size. */
static bool grow(void ***items, uint32_t n, uint32_t *size)
{
	uint32_t wanted = *size ? 2 * *size : 64;
	void **grown;

	if (n < *size)
		return true;
	grown = realloc(*items, wanted * sizeof(*grown));
	if (!grown)
		return false;
	*items = grown;
	*size = wanted;
	return true;
}

static struct lh_tensor *add_tensor(struct lh_graph *graph, enum lh_role role, enum lh_dtype dtype,
				    uint32_t n_dims, const int64_t *dims)
{
	struct lh_tensor *tensor;
	uint32_t size = graph->tensors_size;

	if (graph->mistake.code)
		return NULL;
	if (n_dims > LH_TENSOR_DIMS_MAX)
		return lh_graph_fail(graph, "a tensor of %u dimensions; at most %d", n_dims,
				     LH_TENSOR_DIMS_MAX);
	if (!grow((void ***)&graph->constants, graph->n_tensors, &size) ||
	    !grow((void ***)&graph->tensors, graph->n_tensors, &graph->tensors_size))
		return fail_memory(graph);
	tensor = calloc(1, sizeof(*tensor));
	if (!tensor)
		return fail_memory(graph);
	graph->constants[graph->n_tensors] = NULL;
	*tensor = (struct lh_tensor){.role = role,
				     .dtype = dtype,
				     .n_dims = n_dims,
				     .n = 1,
				     .id = graph->n_tensors,
				     .producer = -1};
	graph->tensors[graph->n_tensors++] = tensor;
	for (uint32_t i = 0; i < n_dims; i++) {
		if (dims[i] < 1 || dims[i] > ELEMENTS_MAX / tensor->n)
			return lh_graph_fail(graph, "a tensor's dimension %u is %" PRId64, i,
					     dims[i]);
		tensor->dims[i] = dims[i];
		tensor->n *= dims[i];
	}
	return tensor;
}

/* scope.scope.name; name may be empty. */
static void join_name(struct lh_graph *graph, const char *name, const char *part,
		      char ret_name[LH_TENSOR_NAME_MAX])
{
	char whole[(LH_SCOPES_MAX + 2) * LH_TENSOR_NAME_MAX] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < graph->n_scopes; i++)
		at += (size_t)snprintf(whole + at, sizeof(whole) - at, "%s%s", at ? "." : "",
				       graph->scopes[i]);
	if (*name)
		at += (size_t)snprintf(whole + at, sizeof(whole) - at, "%s%.95s", at ? "." : "",
				       name);
	if (part)
		at += (size_t)snprintf(whole + at, sizeof(whole) - at, "%s%.95s", at ? "." : "",
				       part);
	if (at >= LH_TENSOR_NAME_MAX)
		lh_graph_fail(graph, "the name %s is longer than %d", whole,
			      LH_TENSOR_NAME_MAX - 1);
	snprintf(ret_name, LH_TENSOR_NAME_MAX, "%.95s", whole);
}

struct lh_tensor *lh_graph_find(const struct lh_graph *graph, const char *name)
{
	for (uint32_t i = 0; i < graph->n_tensors; i++) {
		struct lh_tensor *tensor = graph->tensors[i];

		if (tensor->role < LH_ACTIVATION && strcmp(tensor->name, name) == 0)
			return tensor;
	}
	return NULL;
}

static struct lh_tensor *set_name(struct lh_graph *graph, struct lh_tensor *tensor,
				  const char *name)
{
	if (lh_graph_find(graph, name))
		return lh_graph_fail(graph, "two tensors are called %s", name);
	snprintf(tensor->name, sizeof(tensor->name), "%s", name);
	return tensor;
}

struct lh_tensor *lh_graph_input(struct lh_graph *graph, const char *name, enum lh_dtype dtype,
				 uint32_t n_dims, const int64_t *dims)
{
	enum lh_dtype held = dtype == LH_I32 ? LH_I32 : graph->device->compute;
	struct lh_tensor *tensor = add_tensor(graph, LH_INPUT, held, n_dims, dims);

	return tensor ? set_name(graph, tensor, name) : NULL;
}

struct lh_tensor *lh_graph_constant(struct lh_graph *graph, const char *name, uint32_t n_dims,
				    const int64_t *dims, const int32_t *values)
{
	struct lh_tensor *tensor = add_tensor(graph, LH_CONSTANT, LH_I32, n_dims, dims);
	int32_t *copy;

	if (!tensor || !set_name(graph, tensor, name))
		return NULL;
	copy = malloc((size_t)tensor->n * sizeof(*copy));
	if (!copy)
		return fail_memory(graph);
	memcpy(copy, values, (size_t)tensor->n * sizeof(*copy));
	graph->constants[tensor->id] = copy;
	return tensor;
}

struct lh_graph_node *lh_node_new(struct lh_graph *graph, enum lh_layer layer, const char *name,
				  const void *spec, size_t spec_size)
{
	struct lh_graph_node *node;
	void *copy;

	if (graph->mistake.code)
		return NULL;
	if (!graph->device->ops->kernel(layer))
		return lh_graph_fail(graph, "device %s has no layer of kind %s",
				     graph->device->ops->name, lh_layer_kind(layer, spec)->name);
	if (!grow((void ***)&graph->nodes, graph->n_nodes, &graph->nodes_size))
		return fail_memory(graph);
	node = calloc(1, sizeof(*node));
	copy = malloc(spec_size);
	if (!node || !copy) {
		free(node);
		free(copy);
		return fail_memory(graph);
	}
	memcpy(copy, spec, spec_size);
	node->layer = layer;
	node->spec = copy;
	node->position = graph->n_nodes;
	graph->nodes[graph->n_nodes++] = node;
	join_name(graph, name, NULL, node->name);
	return node;
}

void lh_node_add_input(struct lh_graph *graph, struct lh_graph_node *node, struct lh_tensor *x)
{
	if (!node)
		return;
	if (!x || node->n_in == LH_NODE_INPUTS_MAX) {
		lh_graph_fail(graph, "%s: an input is missing, or one too many", node->name);
		return;
	}
	node->in[node->n_in++] = x;
}

void lh_node_share_parameter(struct lh_graph *graph, struct lh_graph_node *node,
			     struct lh_tensor *parameter)
{
	if (!node || !parameter)
		return;
	if (node->n_parameters == LH_NODE_PARAMETERS_MAX) {
		lh_graph_fail(graph, "%s: one parameter too many", node->name);
		return;
	}
	node->parameter[node->n_parameters++] = parameter;
}

static struct lh_tensor *add_kept(struct lh_graph *graph, struct lh_graph_node *node,
				  enum lh_role role, const char *name, uint32_t n_dims,
				  const int64_t *dims, struct lh_init init)
{
	struct lh_tensor *tensor;
	char whole[LH_TENSOR_NAME_MAX];

	if (!node)
		return NULL;
	tensor = add_tensor(graph, role, graph->device->master, n_dims, dims);
	if (!tensor)
		return NULL;
	if (snprintf(whole, sizeof(whole), "%s.%s", node->name, name) >= (int)sizeof(whole))
		return lh_graph_fail(graph, "the name %s.%s is too long", node->name, name);
	tensor->init = init;
	return set_name(graph, tensor, *node->name ? whole : name);
}

struct lh_tensor *lh_node_add_parameter(struct lh_graph *graph, struct lh_graph_node *node,
					const char *name, uint32_t n_dims, const int64_t *dims,
					struct lh_init init, bool has_decay)
{
	struct lh_tensor *tensor = add_kept(graph, node, LH_PARAMETER, name, n_dims, dims, init);

	if (!tensor)
		return NULL;
	tensor->wants_grad = true;
	tensor->has_decay = has_decay;
	graph->n_parameters += tensor->n;
	lh_node_share_parameter(graph, node, tensor);
	return tensor;
}

struct lh_tensor *lh_node_add_state(struct lh_graph *graph, struct lh_graph_node *node,
				    const char *name, int64_t n, struct lh_init init)
{
	struct lh_tensor *tensor = add_kept(graph, node, LH_STATE, name, 1, &n, init);

	if (!tensor)
		return NULL;
	graph->n_state += tensor->n;
	node->state[node->n_states++] = tensor;
	return tensor;
}

void lh_node_add_saved(struct lh_graph *graph, struct lh_graph_node *node, int64_t n)
{
	struct lh_tensor *tensor;

	if (!node)
		return;
	tensor = add_tensor(graph, LH_SAVED, graph->device->master, 1, &n);
	if (!tensor)
		return;
	tensor->producer = (int32_t)node->position;
	node->saved[node->n_saved++] = tensor;
}

struct lh_tensor *lh_node_set_output(struct lh_graph *graph, struct lh_graph_node *node,
				     uint32_t n_dims, const int64_t *dims)
{
	struct lh_tensor *out;
	bool is_loss;

	if (!node)
		return NULL;
	is_loss = node->layer == LH_CROSS_ENTROPY || node->layer == LH_BINARY_CROSS_ENTROPY;
	out = add_tensor(graph, LH_ACTIVATION,
			 is_loss ? graph->device->master : graph->device->compute, n_dims, dims);
	if (!out)
		return NULL;
	memcpy(out->name, node->name, sizeof(out->name));
	out->producer = (int32_t)node->position;
	out->wants_grad = node->n_parameters > 0;
	for (uint32_t i = 0; i < node->n_in; i++)
		out->wants_grad = out->wants_grad || node->in[i]->wants_grad;
	node->out = out;
	return out;
}

struct lh_tensor *lh_reshape(struct lh_graph *graph, struct lh_tensor *x, uint32_t n_dims,
			     const int64_t *dims)
{
	struct lh_tensor *view;

	if (!x)
		return NULL;
	view = add_tensor(graph, x->role, x->dtype, n_dims, dims);
	if (!view)
		return NULL;
	if (view->n != x->n)
		return lh_graph_fail(graph, "%s: a reshape of %" PRId64 " to %" PRId64 " elements",
				     x->name, x->n, view->n);
	view->view_of = lh_tensor_root(x);
	view->wants_grad = x->wants_grad;
	view->producer = x->producer;
	return view;
}

void lh_graph_want_gradient(struct lh_tensor *input)
{
	if (input)
		input->wants_grad = true;
}

void lh_graph_keep(struct lh_tensor *tensor)
{
	if (tensor)
		lh_tensor_root(tensor)->is_kept = true;
}

void *lh_graph_parameters(const struct lh_graph *graph)
{
	return graph->parameters;
}

void *lh_graph_gradients(const struct lh_graph *graph)
{
	return graph->gradients;
}

void *lh_graph_state(const struct lh_graph *graph)
{
	return graph->state;
}

int64_t lh_graph_n_parameters(const struct lh_graph *graph)
{
	return graph->n_parameters;
}

int64_t lh_graph_n_state(const struct lh_graph *graph)
{
	return graph->n_state;
}

struct lh_tensor *const *lh_graph_tensors(const struct lh_graph *graph, uint32_t *ret_n)
{
	*ret_n = graph->n_tensors;
	return graph->tensors;
}

struct lh_graph_node *const *lh_graph_nodes(const struct lh_graph *graph, uint32_t *ret_n)
{
	*ret_n = graph->n_nodes;
	return graph->nodes;
}

struct lh_device *lh_graph_device(const struct lh_graph *graph)
{
	return graph->device;
}

void lh_graph_count_memory(const struct lh_graph *graph, struct lh_graph_memory *ret_memory)
{
	*ret_memory = graph->memory;
}
