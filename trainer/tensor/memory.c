/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory plan of a graph. Node i runs forward at time i and backward at 2n-1-i. A block is a
 * piece of the arena with the times of its first and last use; tensors share a block where one
 * is overwritten by the other. Blocks are placed by size, the largest first, each at the lowest
 * place where no block of the same time lies; other orders are tried where that leaves gaps.
 *
 * Source: greedy by size for offset calculation, arXiv 2001.03288, section 5.
 */
#include <stdlib.h>
#include <string.h>

#include "trainer/layers/layers.h"
#include "trainer/tensor/graph_internal.h"

struct block {
	int64_t bytes;
	int32_t birth, death;
	int64_t at; /* as last tried */
	int64_t best_at;
};

/* Orders that are tried, where the first one does not pack well. */
enum { ATTEMPTS_MAX = 32 };

/* A gradient within a block that others may share. */
struct member {
	int32_t block;
	int32_t joined;	 /* when */
	int32_t death;	 /* its tensor's producer reads it last */
	uint32_t tensor; /* its id */
};

struct planner {
	struct lh_graph *graph;
	int32_t n_nodes;
	struct block *blocks;
	int32_t n_blocks;
	int32_t *data_block; /* by tensor; -1: none */
	int32_t *grad_block;
	int32_t *last_use; /* of the data */
	struct member *members;
	uint32_t n_members;
};

static int32_t backward_time(const struct planner *p, int32_t position)
{
	return 2 * p->n_nodes - 1 - position;
}

static int64_t bytes_of(const struct lh_tensor *tensor)
{
	return (int64_t)lh_align_bytes((size_t)tensor->n * lh_dtype_bytes(tensor->dtype));
}

static bool is_activation(const struct lh_tensor *tensor)
{
	return tensor->role >= LH_ACTIVATION;
}

static int32_t add_block(struct planner *p, int64_t bytes, int32_t birth, int32_t death)
{
	p->blocks[p->n_blocks] = (struct block){.bytes = bytes, .birth = birth, .death = death};
	return p->n_blocks++;
}

/* ---- data ----------------------------------------------------------------------------------- */

static void use(struct planner *p, struct lh_tensor *tensor, int32_t time)
{
	uint32_t id = lh_tensor_root(tensor)->id;

	if (time > p->last_use[id])
		p->last_use[id] = time;
}

static void find_last_uses(struct planner *p)
{
	bool has_backward = p->graph->loss != NULL;

	for (int32_t i = 0; i < p->n_nodes; i++) {
		struct lh_graph_node *node = p->graph->nodes[i];
		const struct lh_layer_kind *kind = lh_layer_kind(node->layer, node->spec);
		int32_t back = backward_time(p, i);

		use(p, node->out, i);
		if (node->out->is_kept)
			use(p, node->out, 2 * p->n_nodes);
		if (has_backward && kind->backward_needs_out)
			use(p, node->out, back);
		for (uint32_t j = 0; j < node->n_in; j++) {
			use(p, node->in[j], i);
			if (has_backward && (kind->backward_needs_in >> j & 1))
				use(p, node->in[j], back);
		}
		for (uint32_t j = 0; j < node->n_saved; j++)
			use(p, node->saved[j],
			    node->saved[j]->is_kept ? 2 * p->n_nodes : (has_backward ? back : i));
	}
}

/* Whether node's output may overwrite its first input. */
static bool overwrites_input(const struct planner *p, const struct lh_graph_node *node)
{
	struct lh_tensor *in = node->n_in ? lh_tensor_root(node->in[0]) : NULL;

	return in && lh_layer_kind(node->layer, node->spec)->runs_in_place && is_activation(in) &&
	       p->last_use[in->id] == (int32_t)node->position &&
	       bytes_of(in) == bytes_of(node->out) && in->dtype == node->out->dtype;
}

static void plan_data(struct planner *p)
{
	for (int32_t i = 0; i < p->n_nodes; i++) {
		struct lh_graph_node *node = p->graph->nodes[i];
		struct lh_tensor *out = node->out;

		if (overwrites_input(p, node)) {
			int32_t block = p->data_block[lh_tensor_root(node->in[0])->id];

			p->data_block[out->id] = block;
			if (p->last_use[out->id] > p->blocks[block].death)
				p->blocks[block].death = p->last_use[out->id];
		} else {
			p->data_block[out->id] =
				add_block(p, bytes_of(out), i, p->last_use[out->id]);
		}
		for (uint32_t j = 0; j < node->n_saved; j++)
			p->data_block[node->saved[j]->id] = add_block(
				p, bytes_of(node->saved[j]), i, p->last_use[node->saved[j]->id]);
	}
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* When, after the backward of the node at `before`, tensor's gradient is next added to. */
static int32_t next_write(const struct planner *p, uint32_t tensor, int32_t before)
{
	for (int32_t i = before - 1; i >= 0; i--) {
		const struct lh_graph_node *node = p->graph->nodes[i];

		for (uint32_t j = 0; j < node->n_in; j++)
			if (lh_tensor_root(node->in[j])->id == tensor && node->out->wants_grad)
				return backward_time(p, i);
	}
	return 2 * p->n_nodes;
}

/*
 * Whether the gradient of `tensor`, born in node's backward, may share the block of the output's
 * gradient. Others may live on in it, if they and the new one are each written to only
 * after the other's last use; but where the node changes what it shares, none but what joins
 * now.
 */
static bool shares_gradient(const struct planner *p, const struct lh_graph_node *node,
			    const struct lh_tensor *tensor)
{
	const struct lh_layer_kind *kind = lh_layer_kind(node->layer, node->spec);
	const struct lh_tensor *out = lh_tensor_root(node->out);
	int32_t now = backward_time(p, (int32_t)node->position);
	int32_t death = backward_time(p, tensor->producer);
	int32_t block = p->grad_block[out->id];

	if (!kind->passes_gradient && !kind->changes_gradient)
		return false;
	if (bytes_of(tensor) != bytes_of(out) || tensor->dtype != out->dtype)
		return false;
	for (uint32_t m = 0; m < p->n_members; m++) {
		const struct member *member = &p->members[m];

		if (member->block != block || member->tensor == out->id || member->death <= now)
			continue;
		if (kind->changes_gradient && member->joined < now)
			return false;
		if (!kind->passes_gradient)
			return false;
		if (next_write(p, tensor->id, (int32_t)node->position) <= member->death ||
		    next_write(p, member->tensor, (int32_t)node->position) <= death)
			return false;
	}
	return true;
}

static void join(struct planner *p, int32_t block, const struct lh_tensor *tensor, int32_t now)
{
	int32_t death = backward_time(p, tensor->producer);

	p->grad_block[tensor->id] = block;
	p->members[p->n_members++] = (struct member){
		.block = block, .joined = now, .death = death, .tensor = tensor->id};
	if (death > p->blocks[block].death)
		p->blocks[block].death = death;
}

static void plan_node_gradients(struct planner *p, struct lh_graph_node *node)
{
	int32_t now = backward_time(p, (int32_t)node->position);

	for (uint32_t j = 0; j < node->n_in; j++) {
		struct lh_tensor *in = lh_tensor_root(node->in[j]);

		if (!in->wants_grad)
			continue;
		if (p->grad_block[in->id] >= 0) {
			node->adds[j] = true;
			continue;
		}
		node->adds[j] = false;
		join(p,
		     shares_gradient(p, node, in) ? p->grad_block[lh_tensor_root(node->out)->id]
						  : add_block(p, bytes_of(in), now, now),
		     in, now);
	}
}

static void plan_gradients(struct planner *p)
{
	struct lh_tensor *loss = p->graph->loss;

	if (!loss)
		return;
	join(p, add_block(p, bytes_of(loss), p->n_nodes, p->n_nodes), loss, p->n_nodes);
	for (int32_t i = p->n_nodes; i-- > 0;)
		if (p->grad_block[lh_tensor_root(p->graph->nodes[i]->out)->id] >= 0)
			plan_node_gradients(p, p->graph->nodes[i]);
}

/* ---- places --------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	const struct block *const *x = a, *const *y = b;

	if ((*x)->bytes != (*y)->bytes)
		return (*x)->bytes < (*y)->bytes ? 1 : -1;
	return *x < *y ? -1 : 1;
}

static int by_place(const void *a, const void *b)
{
	const struct block *const *x = a, *const *y = b;

	if ((*x)->at != (*y)->at)
		return (*x)->at < (*y)->at ? -1 : 1;
	return *x < *y ? -1 : 1;
}

/* The lowest place for block beside those of neighbours (n, ordered here) that live with it. */
static int64_t lowest_place(const struct block *block, const struct block **neighbours, int32_t n)
{
	int64_t at = 0;

	qsort(neighbours, (size_t)n, sizeof(struct block *), by_place);
	for (int32_t i = 0; i < n; i++) {
		int64_t end = neighbours[i]->at + neighbours[i]->bytes;

		if (at + block->bytes <= neighbours[i]->at)
			break;
		if (end > at)
			at = end;
	}
	return at;
}

/* Places all blocks in order and returns the bytes that they take up; *ret_top: which of the order
 * ends highest. */
static int64_t place_in_order(struct planner *p, struct block **order, const struct block **scratch,
			      int32_t *ret_top)
{
	int64_t total = 0;

	for (int32_t i = 0; i < p->n_blocks; i++) {
		struct block *block = order[i];
		int32_t n = 0;

		for (int32_t j = 0; j < i; j++)
			if (order[j]->birth <= block->death && block->birth <= order[j]->death)
				scratch[n++] = order[j];
		block->at = lowest_place(block, scratch, n);
		if (block->at + block->bytes > total) {
			total = block->at + block->bytes;
			*ret_top = i;
		}
	}
	return total;
}

/* Places all blocks and returns the bytes that they take up. Where these are more than the peak,
 * what came to lie on top is placed first next time. */
static int64_t place_blocks(struct planner *p, struct block **order, const struct block **scratch,
			    int64_t peak)
{
	int64_t best = INT64_MAX;

	for (int32_t i = 0; i < p->n_blocks; i++)
		order[i] = &p->blocks[i];
	qsort(order, (size_t)p->n_blocks, sizeof(*order), by_size);
	for (int attempt = 0; attempt < ATTEMPTS_MAX && best - peak > peak / 100; attempt++) {
		int32_t top = 0;
		int64_t total = place_in_order(p, order, scratch, &top);
		struct block *first = order[top];

		for (int32_t i = 0; total < best && i < p->n_blocks; i++)
			p->blocks[i].best_at = p->blocks[i].at;
		if (total < best)
			best = total;
		memmove(order + 1, order, (size_t)top * sizeof(*order));
		order[0] = first;
	}
	return best;
}

/* The most bytes alive at one time. */
static int64_t peak_of(const struct planner *p, int64_t *changes)
{
	int64_t alive = 0, peak = 0;

	for (int32_t i = 0; i < p->n_blocks; i++) {
		changes[p->blocks[i].birth] += p->blocks[i].bytes;
		changes[p->blocks[i].death + 1] -= p->blocks[i].bytes;
	}
	for (int32_t t = 0; t <= 2 * p->n_nodes; t++) {
		alive += changes[t];
		if (alive > peak)
			peak = alive;
	}
	return peak;
}

static void make(struct planner *p, struct block **order, const struct block **scratch,
		 int64_t *changes, struct lh_memory_plan *ret_plan)
{
	for (uint32_t i = 0; i < p->graph->n_tensors; i++) {
		p->data_block[i] = -1;
		p->grad_block[i] = -1;
		p->last_use[i] = -1;
	}
	find_last_uses(p);
	plan_data(p);
	plan_gradients(p);
	ret_plan->peak_bytes = (uint64_t)peak_of(p, changes);
	ret_plan->arena_bytes =
		(uint64_t)place_blocks(p, order, scratch, (int64_t)ret_plan->peak_bytes);
	for (uint32_t i = 0; i < p->graph->n_tensors; i++) {
		ret_plan->data_at[i] =
			p->data_block[i] < 0 ? LH_NO_PLACE : p->blocks[p->data_block[i]].best_at;
		ret_plan->grad_at[i] =
			p->grad_block[i] < 0 ? LH_NO_PLACE : p->blocks[p->grad_block[i]].best_at;
	}
}

int lh_memory_plan_make(struct lh_graph *graph, struct lh_memory_plan *ret_plan,
			struct lh_error *err)
{
	uint32_t n = graph->n_tensors;
	struct planner p = {.graph = graph, .n_nodes = (int32_t)graph->n_nodes};
	struct block **order = calloc(2 * n, sizeof(*order));
	const struct block **scratch = calloc(2 * n, sizeof(*scratch));
	int64_t *changes = calloc(2 * (size_t)p.n_nodes + 3, sizeof(*changes));
	bool has_memory;

	p.blocks = calloc(2 * n, sizeof(*p.blocks));
	p.data_block = calloc(n, sizeof(*p.data_block));
	p.grad_block = calloc(n, sizeof(*p.grad_block));
	p.last_use = calloc(n, sizeof(*p.last_use));
	p.members = calloc(n, sizeof(*p.members));
	ret_plan->data_at = calloc(n, sizeof(*ret_plan->data_at));
	ret_plan->grad_at = calloc(n, sizeof(*ret_plan->grad_at));
	has_memory = order && scratch && changes && p.blocks && p.data_block && p.grad_block &&
		     p.last_use && p.members && ret_plan->data_at && ret_plan->grad_at;
	if (has_memory)
		make(&p, order, scratch, changes, ret_plan);
	free(order);
	free(scratch);
	free(changes);
	free(p.blocks);
	free(p.data_block);
	free(p.grad_block);
	free(p.last_use);
	free(p.members);
	return has_memory ? 0 : lh_fail(err, LH_ESYS, 0, "no memory for the memory plan");
}

void lh_memory_plan_done(struct lh_memory_plan *plan)
{
	free(plan->data_at);
	free(plan->grad_at);
	*plan = (struct lh_memory_plan){0};
}
