/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the graph share. */
#ifndef LH_TRAINER_GRAPH_INTERNAL_H
#define LH_TRAINER_GRAPH_INTERNAL_H

#include "trainer/tensor/graph.h"

enum { LH_SCOPES_MAX = 8, LH_MEMORY_ALIGN = 64 };

struct lh_graph {
	struct lh_device *device;
	struct lh_graph_node **nodes;
	uint32_t n_nodes, nodes_size;
	struct lh_tensor **tensors;
	uint32_t n_tensors, tensors_size;
	int32_t **constants; /* by tensor; NULL for all others */
	char scopes[LH_SCOPES_MAX][LH_TENSOR_NAME_MAX];
	uint32_t n_scopes;
	struct lh_error mistake;
	struct lh_tensor *loss;
	int64_t n_parameters, n_state; /* elements */
	/* on the device */
	void *parameters, *casts, *gradients, *state, *inputs, *arena, *workspace;
	struct lh_graph_memory memory;
};

/* The tensor that owns x's memory. */
static inline struct lh_tensor *lh_tensor_root(struct lh_tensor *x)
{
	return x->view_of ? x->view_of : x;
}

static inline size_t lh_align_bytes(size_t bytes)
{
	return (bytes + LH_MEMORY_ALIGN - 1) / LH_MEMORY_ALIGN * LH_MEMORY_ALIGN;
}

/*
 * Where activations, saved tensors and gradients of activations lie in the arena: those that live
 * at the same time do not overlap. Fills offsets and sets nodes' adds. Time runs over the forward
 * pass, node by node, and back over the backward pass.
 */
enum { LH_NO_PLACE = -1 };
struct lh_memory_plan {
	int64_t *data_at; /* by tensor: bytes into the arena, or LH_NO_PLACE; owned */
	int64_t *grad_at; /* owned */
	uint64_t arena_bytes;
	uint64_t peak_bytes; /* alive at once */
};
int lh_memory_plan_make(struct lh_graph *graph, struct lh_memory_plan *ret_plan,
			struct lh_error *err);
void lh_memory_plan_done(struct lh_memory_plan *plan);

#endif
