/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of layers over the last dimension, whatever stands before it, and of losses. See
 * layers.h. */
#include <inttypes.h>
#include <string.h>

#include "trainer/layers/layers.h"

static const struct lh_init ZEROS = {.kind = LH_INIT_ZEROS}, ONES = {.kind = LH_INIT_ONES};

static int64_t last_dim(const struct lh_tensor *x)
{
	return x->dims[x->n_dims - 1];
}

/* x's dims with another last one. */
static void with_last(const struct lh_tensor *x, int64_t last, int64_t ret_dims[LH_TENSOR_DIMS_MAX])
{
	memcpy(ret_dims, x->dims, sizeof(x->dims));
	ret_dims[x->n_dims - 1] = last;
}

struct lh_tensor *lh_linear(struct lh_graph *graph, const char *name, struct lh_tensor *x,
			    struct lh_linear spec, struct lh_init init_weight,
			    struct lh_init init_bias)
{
	struct lh_graph_node *node;
	int64_t out[LH_TENSOR_DIMS_MAX];

	if (!x)
		return NULL;
	spec.in_features = last_dim(x);
	spec.rows = x->n / spec.in_features;
	with_last(x, spec.out_features, out);
	node = lh_node_new(graph, LH_LINEAR, name, &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	lh_node_add_parameter(graph, node, "weight", 2,
			      (const int64_t[]){spec.out_features, spec.in_features}, init_weight,
			      true);
	if (spec.has_bias)
		lh_node_add_parameter(graph, node, "bias", 1, &spec.out_features, init_bias, false);
	return lh_node_set_output(graph, node, x->n_dims, out);
}

struct lh_tensor *lh_linear_tied(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				 struct lh_tensor *weight, bool has_bias)
{
	struct lh_linear spec = {.has_bias = has_bias};
	struct lh_graph_node *node;
	int64_t out[LH_TENSOR_DIMS_MAX];

	if (!x || !weight)
		return NULL;
	spec.in_features = last_dim(x);
	spec.rows = x->n / spec.in_features;
	spec.out_features = weight->dims[0];
	if (weight->n_dims != 2 || weight->dims[1] != spec.in_features)
		return lh_graph_fail(graph, "%s: %s does not fit %" PRId64 " features", name,
				     weight->name, spec.in_features);
	with_last(x, spec.out_features, out);
	node = lh_node_new(graph, LH_LINEAR, name, &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	lh_node_share_parameter(graph, node, weight);
	if (has_bias)
		lh_node_add_parameter(graph, node, "bias", 1, &spec.out_features, ZEROS, false);
	return lh_node_set_output(graph, node, x->n_dims, out);
}

struct lh_tensor *lh_layer_norm(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				double eps)
{
	struct lh_layer_norm spec = {.eps = eps};
	struct lh_graph_node *node;

	if (!x)
		return NULL;
	spec.c = last_dim(x);
	spec.rows = x->n / spec.c;
	node = lh_node_new(graph, LH_LAYER_NORM, name, &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	lh_node_add_parameter(graph, node, "weight", 1, &spec.c, ONES, false);
	lh_node_add_parameter(graph, node, "bias", 1, &spec.c, ZEROS, false);
	lh_node_add_saved(graph, node, spec.rows);
	lh_node_add_saved(graph, node, spec.rows);
	return lh_node_set_output(graph, node, x->n_dims, x->dims);
}

struct lh_tensor *lh_activate(struct lh_graph *graph, struct lh_tensor *x, enum lh_activation f)
{
	struct lh_activate spec = {f};
	struct lh_graph_node *node;

	if (!x || f == LH_IDENTITY)
		return x;
	node = lh_node_new(graph, LH_ACTIVATE, "", &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	return lh_node_set_output(graph, node, x->n_dims, x->dims);
}

/* Whether b's dims are the last ones of a's. */
static bool ends_with(const struct lh_tensor *a, const struct lh_tensor *b)
{
	return b->n_dims <= a->n_dims &&
	       memcmp(a->dims + a->n_dims - b->n_dims, b->dims, b->n_dims * sizeof(*b->dims)) == 0;
}

struct lh_tensor *lh_add(struct lh_graph *graph, struct lh_tensor *a, struct lh_tensor *b,
			 bool has_relu)
{
	struct lh_add spec = {has_relu};
	struct lh_graph_node *node;

	if (!a || !b)
		return NULL;
	if (!ends_with(a, b))
		return lh_graph_fail(graph, "add: %s and %s have other dimensions", a->name,
				     b->name);
	node = lh_node_new(graph, LH_ADD, "", &spec, sizeof(spec));
	lh_node_add_input(graph, node, a);
	lh_node_add_input(graph, node, b);
	return lh_node_set_output(graph, node, a->n_dims, a->dims);
}

struct lh_tensor *lh_scale(struct lh_graph *graph, const char *name, struct lh_tensor *x,
			   double value)
{
	struct lh_scale spec = {value};
	struct lh_graph_node *node;
	int64_t c;

	if (!x)
		return NULL;
	c = last_dim(x);
	node = lh_node_new(graph, LH_SCALE, "", &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	lh_node_add_parameter(graph, node, name, 1, &c,
			      (struct lh_init){.kind = LH_INIT_VALUE, .scale = value}, false);
	return lh_node_set_output(graph, node, x->n_dims, x->dims);
}

struct lh_tensor *lh_dropout(struct lh_graph *graph, struct lh_tensor *x, double p, bool per_sample)
{
	struct lh_dropout spec = {.p = p, .per_sample = per_sample};
	struct lh_graph_node *node;

	if (!x || p == 0)
		return x;
	if (!(p > 0 && p < 1))
		return lh_graph_fail(graph, "dropout: %g; expected 0 to less than 1", p);
	spec.n = x->dims[0];
	node = lh_node_new(graph, LH_DROPOUT, "", &spec, sizeof(spec));
	lh_node_add_input(graph, node, x);
	return lh_node_set_output(graph, node, x->n_dims, x->dims);
}

struct lh_tensor *lh_concat(struct lh_graph *graph, struct lh_tensor *const *xs, uint32_t n)
{
	struct lh_concat spec;
	struct lh_graph_node *node;
	int64_t out[LH_TENSOR_DIMS_MAX], width = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!xs[i])
			return NULL;
		if (xs[i]->n / last_dim(xs[i]) != xs[0]->n / last_dim(xs[0]))
			return lh_graph_fail(graph, "concat: %s and %s have other rows",
					     xs[0]->name, xs[i]->name);
		width += last_dim(xs[i]);
	}
	spec.rows = xs[0]->n / last_dim(xs[0]);
	node = lh_node_new(graph, LH_CONCAT, "", &spec, sizeof(spec));
	for (uint32_t i = 0; i < n; i++)
		lh_node_add_input(graph, node, xs[i]);
	with_last(xs[0], width, out);
	return lh_node_set_output(graph, node, xs[0]->n_dims, out);
}

/* ---- losses --------------------------------------------------------------------------------- */

struct lh_tensor *lh_cross_entropy(struct lh_graph *graph, struct lh_tensor *logits,
				   struct lh_tensor *targets, double smoothing)
{
	struct lh_cross_entropy spec = {.smoothing = smoothing};
	struct lh_graph_node *node;

	if (!logits || !targets)
		return NULL;
	spec.classes = last_dim(logits);
	spec.rows = logits->n / spec.classes;
	if (targets->dtype != LH_I32 || targets->n != spec.rows)
		return lh_graph_fail(graph, "cross entropy: %" PRId64 " rows, %" PRId64 " targets",
				     spec.rows, targets->n);
	node = lh_node_new(graph, LH_CROSS_ENTROPY, "loss", &spec, sizeof(spec));
	lh_node_add_input(graph, node, logits);
	lh_node_add_input(graph, node, targets);
	lh_node_add_saved(graph, node, 3);
	lh_node_add_saved(graph, node, spec.rows);
	if (node && node->n_saved)
		node->saved[0]->is_kept = true;
	return lh_node_set_output(graph, node, 1, (const int64_t[]){1});
}

struct lh_tensor *lh_binary_cross_entropy(struct lh_graph *graph, struct lh_tensor *logits,
					  struct lh_tensor *targets)
{
	struct lh_cross_entropy spec = {.classes = 1};
	struct lh_graph_node *node;

	if (!logits || !targets)
		return NULL;
	spec.rows = logits->n;
	if (targets->dtype != LH_I32 || targets->n != logits->n)
		return lh_graph_fail(graph,
				     "binary cross entropy: %" PRId64 " logits, %" PRId64
				     " targets",
				     logits->n, targets->n);
	node = lh_node_new(graph, LH_BINARY_CROSS_ENTROPY, "loss", &spec, sizeof(spec));
	lh_node_add_input(graph, node, logits);
	lh_node_add_input(graph, node, targets);
	lh_node_add_saved(graph, node, 3);
	if (node && node->n_saved)
		node->saved[0]->is_kept = true;
	return lh_node_set_output(graph, node, 1, (const int64_t[]){1});
}
