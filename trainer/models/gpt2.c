/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2: a decoder that foretells the next token. Source: Radford et al. 2019, "Language models
 * are unsupervised multitask learners", section 2.3. */
#include <math.h>

#include "trainer/models/transformer.h"

static const double DEVIATION = 0.02;

static const struct lh_model_setting settings[] = {
	{"vocabulary", 50257, 2, LH_MODEL_VOCABULARY_MAX, true, "tokens"},
	{"sequence", 1024, 1, LH_MODEL_SEQUENCE_MAX, true, "tokens of a sample"},
	{"positions", 1024, 1, LH_MODEL_SEQUENCE_MAX, true,
	 "rows of the table of positions: the longest sequence"},
	{"width", 768, 2, LH_MODEL_WIDTH_MAX, true, "channels"},
	{"layers", 12, 1, LH_MODEL_DEPTH_MAX, true, "of attention and two linear layers each"},
	{"heads", 12, 1, LH_MODEL_WIDTH_MAX, true, "of attention; they divide the width"},
	{"inner", 3072, 1, LH_MODEL_WIDTH_MAX * 4, true, "channels between two linear layers"},
	{"dropout", 0.1, 0, LH_MODEL_DROPOUT_MAX, false, "of embeddings, attention and branches"},
	{0},
};

static void build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		  struct lh_built_model *ret_model)
{
	const int64_t layers = lh_model_size(config, "layers");
	const struct lh_transformer t = {.width = lh_model_size(config, "width"),
					 .heads = lh_model_size(config, "heads"),
					 .inner = lh_model_size(config, "inner"),
					 .activation = LH_GELU_TANH,
					 .has_key_bias = true,
					 .dropout = lh_model_setting(config, "dropout"),
					 .deviation = DEVIATION,
					 .output_deviation = DEVIATION / sqrt(2 * (double)layers)};
	struct lh_positions positions = {lh_model_size(config, "positions"), 0,
					 lh_model_size(config, "sequence"),
					 lh_init_normal(DEVIATION)};
	struct lh_text text = lh_transformer_text(graph, config, batch);
	struct lh_tensor *tokens, *x;

	lh_transformer_check(graph, &t);
	tokens = lh_embedding(graph, "token", text.tokens, lh_model_size(config, "vocabulary"),
			      t.width, positions.init);
	x = lh_transformer_positions(graph, &t, "position", "position_indexes", positions);
	x = lh_dropout(graph, lh_add(graph, tokens, x, false), t.dropout, false);
	for (int i = 0; i < layers; i++) {
		lh_graph_enter(graph, "layers.%d", i);
		x = lh_transformer_pre_norm(graph, &t, x, NULL, true);
		lh_graph_leave(graph);
	}
	x = lh_layer_norm(graph, "norm", x, LH_TRANSFORMER_EPS);
	ret_model->logits =
		lh_linear_tied(graph, "head", x, lh_embedding_weight(graph, tokens), false);
	ret_model->loss = lh_cross_entropy(graph, ret_model->logits, text.targets, 0);
}

const struct lh_model_family lh_family_gpt2 = {
	.name = "gpt2", .task = LH_TASK_TEXT, .settings = settings, .build = build};
