/* SPDX-License-Identifier: Apache-2.0 */
/* Whisper: text from log-mel spectrograms; encoder positions are sinusoids at first and learnt.
 * Source: Radford et al. 2022, arXiv 2212.04356, section 2.2. */
#include "trainer/models/transformer.h"

enum { INNER_RATIO = 4, KERNEL = 3 };
static const double DEVIATION = 0.02;

static const struct lh_model_setting settings[] = {
	{"vocabulary", 51865, 2, LH_MODEL_VOCABULARY_MAX, true, "tokens"},
	{"sequence", 448, 1, LH_MODEL_SEQUENCE_MAX, true, "tokens of a sample"},
	{"positions", 448, 1, LH_MODEL_SEQUENCE_MAX, true,
	 "rows of the decoder's table of positions: the longest sequence"},
	{"frames", 3000, 1, 2 * LH_MODEL_SEQUENCE_MAX, true, "of sound of a sample"},
	{"frame_positions", 1500, 1, LH_MODEL_SEQUENCE_MAX, true,
	 "rows of the encoder's table of positions: half the most frames"},
	{"mels", 80, 1, 1024, true, "channels of the spectrogram"},
	{"width", 384, 4, LH_MODEL_WIDTH_MAX, true, "channels; four times as many between layers"},
	{"layers", 4, 1, LH_MODEL_DEPTH_MAX, true, "of the encoder, and as many of the decoder"},
	{"heads", 6, 1, LH_MODEL_WIDTH_MAX, true, "of attention; they divide the width"},
	{"dropout", 0, 0, LH_MODEL_DROPOUT_MAX, false, "of attention and branches"},
	{0},
};

/* x: [N, 1, frames, C]. */
static struct lh_tensor *convolve(struct lh_graph *graph, const char *name, struct lh_tensor *x,
				  int64_t width, int64_t stride)
{
	struct lh_conv2d spec = {.out_channels = width,
				 .kernel_h = 1,
				 .kernel_w = KERNEL,
				 .stride_h = 1,
				 .stride_w = stride,
				 .pad_w = KERNEL / 2,
				 .groups = 1,
				 .has_bias = true};

	x = lh_conv2d(graph, name, x, spec, lh_init_normal(DEVIATION), lh_init_zeros());
	return lh_activate(graph, x, LH_GELU);
}

static struct lh_tensor *build_layers(struct lh_graph *graph, const struct lh_transformer *t,
				      int64_t layers, struct lh_tensor *x, struct lh_tensor *memory,
				      bool is_causal)
{
	for (int i = 0; i < layers; i++) {
		lh_graph_enter(graph, "layers.%d", i);
		x = lh_transformer_pre_norm(graph, t, x, memory, is_causal);
		lh_graph_leave(graph);
	}
	return lh_layer_norm(graph, "norm", x, LH_TRANSFORMER_EPS);
}

static struct lh_tensor *encode(struct lh_graph *graph, const struct lh_transformer *t,
				const struct lh_model_config *config, int64_t batch)
{
	int64_t frames = lh_model_size(config, "frames"), mels = lh_model_size(config, "mels");
	int64_t halved = (frames + 1) / 2;
	struct lh_positions positions = {
		lh_model_size(config, "frame_positions"), 0, halved, {.kind = LH_INIT_SINUSOIDS}};
	struct lh_tensor *x =
		lh_graph_input(graph, "mel", LH_F32, 3, (const int64_t[]){batch, frames, mels});

	x = lh_reshape(graph, x, 4, (const int64_t[]){batch, 1, frames, mels});
	lh_graph_enter(graph, "encoder");
	x = convolve(graph, "conv1", x, t->width, 1);
	x = convolve(graph, "conv2", x, t->width, 2);
	x = lh_reshape(graph, x, 3, (const int64_t[]){batch, halved, t->width});
	x = lh_add(graph, x,
		   lh_transformer_positions(graph, t, "position", "frame_position_indexes",
					    positions),
		   false);
	x = build_layers(graph, t, lh_model_size(config, "layers"), x, NULL, false);
	lh_graph_leave(graph);
	return x;
}

static void build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		  struct lh_built_model *ret_model)
{
	const int64_t width = lh_model_size(config, "width");
	const struct lh_transformer t = {.width = width,
					 .heads = lh_model_size(config, "heads"),
					 .inner = INNER_RATIO * width,
					 .activation = LH_GELU,
					 .dropout = lh_model_setting(config, "dropout"),
					 .deviation = DEVIATION,
					 .output_deviation = DEVIATION};
	struct lh_positions positions = {lh_model_size(config, "positions"), 0,
					 lh_model_size(config, "sequence"),
					 lh_init_normal(DEVIATION)};
	struct lh_text text = lh_transformer_text(graph, config, batch);
	struct lh_tensor *memory, *tokens, *x;

	lh_transformer_check(graph, &t);
	memory = encode(graph, &t, config, batch);
	lh_graph_enter(graph, "decoder");
	tokens = lh_embedding(graph, "token", text.tokens, lh_model_size(config, "vocabulary"),
			      width, positions.init);
	x = lh_transformer_positions(graph, &t, "position", "position_indexes", positions);
	x = lh_add(graph, tokens, x, false);
	x = build_layers(graph, &t, lh_model_size(config, "layers"), x, memory, true);
	ret_model->logits =
		lh_linear_tied(graph, "head", x, lh_embedding_weight(graph, tokens), false);
	lh_graph_leave(graph);
	ret_model->loss = lh_cross_entropy(graph, ret_model->logits, text.targets, 0);
}

const struct lh_model_family lh_family_whisper = {
	.name = "whisper", .task = LH_TASK_SPEECH, .settings = settings, .build = build};
