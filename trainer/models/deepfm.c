/* SPDX-License-Identifier: Apache-2.0 */
/* DeepFM: first order, pairs and a multi-layer perceptron over one table of embeddings. Source: Guo
 * et al. 2017, arXiv 1703.04247. */
#include "trainer/models/models_internal.h"

static const double EMBEDDING_DEVIATION = 0.01;

static const struct lh_model_setting settings[] = {
	{"fields", 26, 1, 4096, true, "categorical ones"},
	{"buckets", 1000, 1, 100000000, true, "hash buckets of each field"},
	{"numbers", 13, 0, 4096, true, "numerical fields"},
	{"embedding", 10, 1, 4096, true, "dimensions of an embedding"},
	{"width", 400, 1, LH_MODEL_WIDTH_MAX, true, "of each hidden layer"},
	{"layers", 3, 1, LH_MODEL_DEPTH_MAX, true, "hidden layers"},
	{0},
};

/* The embeddings that the pairs and the perceptron share, and the first order. */
struct looked_up {
	struct lh_tensor *vectors, *first_order;
};

static struct looked_up look_up(struct lh_graph *graph, const struct lh_model_config *config,
				int64_t batch)
{
	int64_t fields = lh_model_size(config, "fields"),
		numbers = lh_model_size(config, "numbers");
	struct lh_field_embedding spec = {.buckets = lh_model_size(config, "buckets"),
					  .k = lh_model_size(config, "embedding")};
	struct lh_field_embedding sum = {.buckets = spec.buckets, .k = 1, .is_summed = true};
	struct lh_tensor *sparse, *dense = NULL;
	struct looked_up result;

	sparse = lh_graph_input(graph, "sparse", LH_I32, 2, (const int64_t[]){batch, fields});
	if (numbers > 0)
		dense = lh_graph_input(graph, "dense", LH_F32, 2,
				       (const int64_t[]){batch, numbers});
	result.first_order =
		lh_field_embedding(graph, "linear", sparse, dense, sum, lh_init_zeros());
	result.vectors = lh_field_embedding(graph, "embedding", sparse, dense, spec,
					    lh_init_normal(EMBEDDING_DEVIATION));
	return result;
}

static struct lh_tensor *build_perceptron(struct lh_graph *graph,
					  const struct lh_model_config *config, int64_t batch,
					  struct lh_tensor *vectors)
{
	struct lh_tensor *x;

	if (!vectors)
		return NULL;
	x = lh_reshape(graph, vectors, 2, (const int64_t[]){batch, vectors->n / batch});
	for (int i = 0; i < lh_model_size(config, "layers"); i++) {
		lh_graph_enter(graph, "mlp.%d", i);
		x = lh_model_linear_fan_in(graph, "", x, lh_model_size(config, "width"));
		x = lh_activate(graph, x, LH_RELU);
		lh_graph_leave(graph);
	}
	return lh_model_linear_fan_in(graph, "output", x, 1);
}

static void build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		  struct lh_built_model *ret_model)
{
	struct looked_up all = look_up(graph, config, batch);
	struct lh_tensor *pairs = lh_factorization(graph, all.vectors);
	struct lh_tensor *deep = build_perceptron(graph, config, batch, all.vectors);
	struct lh_tensor *labels = lh_graph_input(graph, "labels", LH_I32, 1, &batch);
	struct lh_tensor *sum = lh_add(graph, pairs, all.first_order, false);

	ret_model->logits = lh_add(graph, deep, sum, false);
	ret_model->loss = lh_binary_cross_entropy(graph, ret_model->logits, labels);
}

const struct lh_model_family lh_family_deepfm = {
	.name = "deepfm", .task = LH_TASK_CTR, .settings = settings, .build = build};
