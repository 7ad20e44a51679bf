/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of layers over sequences and fields: embeddings, attention, factorization machines. See
 * layers.h. */
#include <inttypes.h>
#include <string.h>

#include "trainer/layers/layers.h"

struct lh_tensor *lh_embedding(struct lh_graph *graph, const char *name, struct lh_tensor *indexes,
			       int64_t rows, int64_t c, struct lh_init init)
{
	struct lh_embedding spec = {.rows = rows, .c = c};
	struct lh_graph_node *node;
	int64_t out[LH_TENSOR_DIMS_MAX] = {0};

	if (!indexes)
		return NULL;
	if (indexes->dtype != LH_I32 || indexes->n_dims == LH_TENSOR_DIMS_MAX)
		return lh_graph_fail(graph, "%s: indexes are int32 of at most %d dimensions", name,
				     LH_TENSOR_DIMS_MAX - 1);
	spec.n = indexes->n;
	memcpy(out, indexes->dims, sizeof(indexes->dims));
	out[indexes->n_dims] = c;
	node = lh_node_new(graph, LH_EMBEDDING, name, &spec, sizeof(spec));
	lh_node_add_input(graph, node, indexes);
	lh_node_add_parameter(graph, node, "weight", 2, (const int64_t[]){rows, c}, init, true);
	return lh_node_set_output(graph, node, indexes->n_dims + 1, out);
}

struct lh_tensor *lh_embedding_weight(struct lh_graph *graph, const struct lh_tensor *embedded)
{
	uint32_t n;

	if (!embedded || embedded->producer < 0)
		return NULL;
	return lh_graph_nodes(graph, &n)[embedded->producer]->parameter[0];
}

struct lh_tensor *lh_field_embedding(struct lh_graph *graph, const char *name,
				     struct lh_tensor *indexes, struct lh_tensor *values,
				     struct lh_field_embedding spec, struct lh_init init)
{
	struct lh_graph_node *node;
	int64_t rows;

	if (!indexes || lh_graph_has_failed(graph))
		return NULL;
	spec.n = indexes->dims[0];
	spec.fields = indexes->n / spec.n;
	spec.numbers = values ? values->n / values->dims[0] : 0;
	if (indexes->dtype != LH_I32 || indexes->n_dims != 2 ||
	    (values &&
	     (values->dtype == LH_I32 || values->n_dims != 2 || values->dims[0] != spec.n)))
		return lh_graph_fail(graph, "%s: expected indexes N, F and values N, M", name);
	rows = spec.fields * spec.buckets + spec.numbers;
	node = lh_node_new(graph, LH_FIELD_EMBEDDING, name, &spec, sizeof(spec));
	lh_node_add_input(graph, node, indexes);
	if (values)
		lh_node_add_input(graph, node, values);
	lh_node_add_parameter(graph, node, "weight", 2, (const int64_t[]){rows, spec.k}, init,
			      true);
	if (spec.is_summed)
		return lh_node_set_output(graph, node, 2, (const int64_t[]){spec.n, spec.k});
	return lh_node_set_output(graph, node, 3,
				  (const int64_t[]){spec.n, spec.fields + spec.numbers, spec.k});
}

/* The sequences' shapes; false after a mistake. */
static bool take_shapes(struct lh_graph *graph, const struct lh_tensor *q,
			const struct lh_tensor *k, const struct lh_tensor *v,
			struct lh_attention *spec)
{
	const char *wrong = NULL;

	spec->is_packed = !k;
	spec->n = q->dims[0];
	spec->t = q->dims[1];
	spec->c = spec->is_packed ? q->dims[2] / 3 : q->dims[2];
	spec->s = spec->is_packed ? spec->t : k->dims[1];
	if (q->n_dims != 3 || (spec->is_packed && q->dims[2] % 3))
		wrong = "queries that are not [N, T, C]";
	else if (!spec->is_packed && (k->n_dims != 3 || !v || v->n != k->n ||
				      k->dims[0] != spec->n || k->dims[2] != spec->c))
		wrong = "keys and values that do not fit the queries";
	else if (spec->heads < 1 || spec->c % spec->heads)
		wrong = "channels that the heads do not divide";
	else if (spec->is_causal && spec->s != spec->t)
		wrong = "causal, with other keys than queries";
	else if (!(spec->dropout >= 0 && spec->dropout < 1))
		wrong = "dropout outside 0 to less than 1";
	if (wrong)
		lh_graph_fail(graph, "attention: %s", wrong);
	return !wrong;
}

struct lh_tensor *lh_attention(struct lh_graph *graph, struct lh_tensor *q, struct lh_tensor *k,
			       struct lh_tensor *v, struct lh_tensor *lengths,
			       struct lh_attention spec)
{
	struct lh_graph_node *node;

	if (!q || lh_graph_has_failed(graph) || !take_shapes(graph, q, k, v, &spec))
		return NULL;
	spec.has_lengths = lengths != NULL;
	node = lh_node_new(graph, LH_ATTENTION, "", &spec, sizeof(spec));
	lh_node_add_input(graph, node, q);
	if (!spec.is_packed) {
		lh_node_add_input(graph, node, k);
		lh_node_add_input(graph, node, v);
	}
	if (lengths)
		lh_node_add_input(graph, node, lengths);
	lh_node_add_saved(graph, node, spec.n * spec.heads * spec.t);
	return lh_node_set_output(graph, node, 3, (const int64_t[]){spec.n, spec.t, spec.c});
}

struct lh_tensor *lh_factorization(struct lh_graph *graph, struct lh_tensor *x)
{
	struct lh_factorization spec;
	struct lh_graph_node *node;

	if (!x)
		return NULL;
	if (x->n_dims != 3)
		return lh_graph_fail(graph, "factorization: expected N, fields, K");
	spec = (struct lh_factorization){x->dims[0], x->dims[1], x->dims[2]};
	node = lh_node_new(graph, LH_FACTORIZATION, "", &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	return lh_node_set_output(graph, node, 2, (const int64_t[]){spec.n, 1});
}
