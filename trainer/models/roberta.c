/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RoBERTa as a masked language model: sequences are full, there is no padding and no second
 * segment. Source: Liu et al. 2019, arXiv 1907.11692; Devlin et al. 2018, arXiv 1810.04805.
 */
#include "trainer/models/transformer.h"

/* Rows before it are kept for padding, and stay unused. */
enum { FIRST_POSITION = 2 };
static const double DEVIATION = 0.02;

static const struct lh_model_setting settings[] = {
	{"vocabulary", 50265, 2, LH_MODEL_VOCABULARY_MAX, true, "tokens"},
	{"sequence", 512, 1, LH_MODEL_SEQUENCE_MAX, true, "tokens of a sample"},
	{"positions", 514, 3, LH_MODEL_SEQUENCE_MAX, true,
	 "rows of the table of positions: two more than the longest sequence"},
	{"width", 768, 2, LH_MODEL_WIDTH_MAX, true, "channels"},
	{"layers", 12, 1, LH_MODEL_DEPTH_MAX, true, "of attention and two linear layers each"},
	{"heads", 12, 1, LH_MODEL_WIDTH_MAX, true, "of attention; they divide the width"},
	{"inner", 3072, 1, LH_MODEL_WIDTH_MAX * 4, true, "channels between two linear layers"},
	{"dropout", 0.1, 0, LH_MODEL_DROPOUT_MAX, false, "of embeddings, attention and branches"},
	{0},
};

static struct lh_tensor *embed(struct lh_graph *graph, const struct lh_transformer *t,
			       const struct lh_model_config *config, struct lh_tensor *tokens,
			       struct lh_tensor **ret_words)
{
	const struct lh_init init = lh_init_normal(DEVIATION);
	struct lh_positions positions = {lh_model_size(config, "positions"), FIRST_POSITION,
					 lh_model_size(config, "sequence"), init};
	struct lh_tensor *x, *position, *type;

	lh_graph_enter(graph, "embeddings");
	x = lh_embedding(graph, "word", tokens, lh_model_size(config, "vocabulary"), t->width,
			 init);
	*ret_words = lh_embedding_weight(graph, x);
	position = lh_transformer_positions(graph, t, "position", "position_indexes", positions);
	type = lh_graph_constant(graph, "type_index", 1, (const int64_t[]){1},
				 (const int32_t[]){0});
	type = lh_embedding(graph, "token_type", type, 1, t->width, init);
	type = lh_reshape(graph, type, 1, &t->width);
	x = lh_add(graph, x, lh_add(graph, position, type, false), false);
	x = lh_layer_norm(graph, "norm", x, LH_TRANSFORMER_EPS);
	lh_graph_leave(graph);
	return lh_dropout(graph, x, t->dropout, false);
}

/* Normalises behind each branch. */
static struct lh_tensor *build_layer(struct lh_graph *graph, const struct lh_transformer *t,
				     struct lh_tensor *x)
{
	struct lh_tensor *y = lh_transformer_attention(graph, t, "attention", x, x, false);

	x = lh_layer_norm(graph, "attention_norm", lh_add(graph, y, x, false), LH_TRANSFORMER_EPS);
	y = lh_transformer_mlp(graph, t, x);
	return lh_layer_norm(graph, "mlp_norm", lh_add(graph, y, x, false), LH_TRANSFORMER_EPS);
}

static struct lh_tensor *build_head(struct lh_graph *graph, const struct lh_transformer *t,
				    struct lh_tensor *x, struct lh_tensor *words)
{
	lh_graph_enter(graph, "head");
	x = lh_transformer_linear(graph, "dense", x, t->width, true, t->deviation);
	x = lh_layer_norm(graph, "norm", lh_activate(graph, x, t->activation), LH_TRANSFORMER_EPS);
	lh_graph_leave(graph);
	return lh_linear_tied(graph, "head", x, words, true);
}

static void build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		  struct lh_built_model *ret_model)
{
	const struct lh_transformer t = {.width = lh_model_size(config, "width"),
					 .heads = lh_model_size(config, "heads"),
					 .inner = lh_model_size(config, "inner"),
					 .activation = LH_GELU,
					 .has_key_bias = true,
					 .dropout = lh_model_setting(config, "dropout"),
					 .deviation = DEVIATION,
					 .output_deviation = DEVIATION};
	struct lh_text text = lh_transformer_text(graph, config, batch);
	struct lh_tensor *words, *x;

	lh_transformer_check(graph, &t);
	x = embed(graph, &t, config, text.tokens, &words);
	for (int i = 0; i < lh_model_size(config, "layers"); i++) {
		lh_graph_enter(graph, "layers.%d", i);
		x = build_layer(graph, &t, x);
		lh_graph_leave(graph);
	}
	ret_model->logits = build_head(graph, &t, x, words);
	ret_model->loss = lh_cross_entropy(graph, ret_model->logits, text.targets, 0);
}

const struct lh_model_family lh_family_roberta = {
	.name = "roberta", .task = LH_TASK_MASKED_TEXT, .settings = settings, .build = build};
