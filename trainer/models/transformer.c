/* SPDX-License-Identifier: Apache-2.0 */
/* See transformer.h. */
#include "trainer/models/transformer.h"

#include <inttypes.h>
#include <stdlib.h>

void lh_transformer_check(struct lh_graph *graph, const struct lh_transformer *t)
{
	if (t->width % t->heads)
		lh_graph_fail(graph, "heads=%" PRId64 " do not divide width=%" PRId64, t->heads,
			      t->width);
}

struct lh_tensor *lh_transformer_linear(struct lh_graph *graph, const char *name,
					struct lh_tensor *x, int64_t out_features, bool has_bias,
					double deviation)
{
	struct lh_linear spec = {.out_features = out_features, .has_bias = has_bias};

	return lh_linear(graph, name, x, spec, lh_init_normal(deviation), lh_init_zeros());
}

struct lh_tensor *lh_transformer_attention(struct lh_graph *graph, const struct lh_transformer *t,
					   const char *name, struct lh_tensor *x,
					   struct lh_tensor *memory, bool is_causal)
{
	struct lh_attention spec = {
		.heads = t->heads, .is_causal = is_causal, .dropout = t->dropout};
	struct lh_tensor *q, *k, *v, *y;

	lh_graph_enter(graph, "%s", name);
	q = lh_transformer_linear(graph, "query", x, t->width, true, t->deviation);
	k = lh_transformer_linear(graph, "key", memory, t->width, t->has_key_bias, t->deviation);
	v = lh_transformer_linear(graph, "value", memory, t->width, true, t->deviation);
	y = lh_attention(graph, q, k, v, NULL, spec);
	y = lh_transformer_linear(graph, "output", y, t->width, true, t->output_deviation);
	lh_graph_leave(graph);
	return lh_dropout(graph, y, t->dropout, false);
}

struct lh_tensor *lh_transformer_mlp(struct lh_graph *graph, const struct lh_transformer *t,
				     struct lh_tensor *x)
{
	lh_graph_enter(graph, "mlp");
	x = lh_transformer_linear(graph, "up", x, t->inner, true, t->deviation);
	x = lh_activate(graph, x, t->activation);
	x = lh_transformer_linear(graph, "down", x, t->width, true, t->output_deviation);
	lh_graph_leave(graph);
	return lh_dropout(graph, x, t->dropout, false);
}

struct lh_tensor *lh_transformer_pre_norm(struct lh_graph *graph, const struct lh_transformer *t,
					  struct lh_tensor *x, struct lh_tensor *memory,
					  bool is_causal)
{
	struct lh_tensor *y = lh_layer_norm(graph, "attention_norm", x, LH_TRANSFORMER_EPS);

	y = lh_transformer_attention(graph, t, "attention", y, y, is_causal);
	x = lh_add(graph, y, x, false);
	if (memory) {
		y = lh_layer_norm(graph, "cross_norm", x, LH_TRANSFORMER_EPS);
		y = lh_transformer_attention(graph, t, "cross", y, memory, false);
		x = lh_add(graph, y, x, false);
	}
	y = lh_layer_norm(graph, "mlp_norm", x, LH_TRANSFORMER_EPS);
	return lh_add(graph, lh_transformer_mlp(graph, t, y), x, false);
}

struct lh_tensor *lh_transformer_positions(struct lh_graph *graph, const struct lh_transformer *t,
					   const char *name, const char *indexes_name,
					   struct lh_positions positions)
{
	struct lh_tensor *indexes;
	int32_t *values;

	if (positions.first + positions.n > positions.rows)
		return lh_graph_fail(graph,
				     "a sequence of %" PRId64 "; its table of %" PRId64
				     " positions holds at most %" PRId64,
				     positions.n, positions.rows, positions.rows - positions.first);
	values = malloc((size_t)positions.n * sizeof(*values));
	if (!values)
		return lh_graph_fail(graph, "no memory for %" PRId64 " positions", positions.n);
	for (int64_t i = 0; i < positions.n; i++)
		values[i] = (int32_t)(positions.first + i);
	indexes = lh_graph_constant(graph, indexes_name, 1, &positions.n, values);
	free(values);
	return lh_embedding(graph, name, indexes, positions.rows, t->width, positions.init);
}

struct lh_text lh_transformer_text(struct lh_graph *graph, const struct lh_model_config *config,
				   int64_t batch)
{
	const int64_t dims[] = {batch, lh_model_size(config, "sequence")};

	return (struct lh_text){lh_graph_input(graph, "tokens", LH_I32, 2, dims),
				lh_graph_input(graph, "targets", LH_I32, 2, dims)};
}
