/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that all transformers are built of. Source: Vaswani et al. 2017, arXiv 1706.03762. */
#ifndef LH_TRAINER_TRANSFORMER_H
#define LH_TRAINER_TRANSFORMER_H

#include "trainer/models/models_internal.h"

/* Of every layer norm of RoBERTa, GPT-2 and Whisper. */
#define LH_TRANSFORMER_EPS 1e-5

/* What all layers of a transformer have in common. */
struct lh_transformer {
	int64_t width, heads;
	int64_t inner; /* channels between the two linear layers of "mlp" */
	enum lh_activation activation;
	bool has_key_bias;
	double dropout;		 /* of attention's weights and of each branch */
	double deviation;	 /* of initial weights */
	double output_deviation; /* of those that end a branch */
};

/* Fails the graph where heads do not divide the width. */
void lh_transformer_check(struct lh_graph *graph, const struct lh_transformer *t);

/* A linear layer with initial weights of the deviation, biases 0. */
struct lh_tensor *lh_transformer_linear(struct lh_graph *graph, const char *name,
					struct lh_tensor *x, int64_t out_features, bool has_bias,
					double deviation);

/* Multi-head attention called name, with dropout behind: queries of x, keys and values of
 * memory (x itself: self attention). */
struct lh_tensor *lh_transformer_attention(struct lh_graph *graph, const struct lh_transformer *t,
					   const char *name, struct lh_tensor *x,
					   struct lh_tensor *memory, bool is_causal);

/* Two linear layers around the activation, called mlp, with dropout behind. */
struct lh_tensor *lh_transformer_mlp(struct lh_graph *graph, const struct lh_transformer *t,
				     struct lh_tensor *x);

/* A layer that normalises what enters each branch; memory NULL: without cross attention. */
struct lh_tensor *lh_transformer_pre_norm(struct lh_graph *graph, const struct lh_transformer *t,
					  struct lh_tensor *x, struct lh_tensor *memory,
					  bool is_causal);

/* Rows first to first + n - 1 of a table of `rows` learnt positions, [n, width], called name and
 * its indexes indexes_name. */
struct lh_positions {
	int64_t rows, first, n;
	struct lh_init init;
};
struct lh_tensor *lh_transformer_positions(struct lh_graph *graph, const struct lh_transformer *t,
					   const char *name, const char *indexes_name,
					   struct lh_positions positions);

/* The inputs tokens and targets, [batch, sequence], of the config. */
struct lh_text {
	struct lh_tensor *tokens, *targets;
};
struct lh_text lh_transformer_text(struct lh_graph *graph, const struct lh_model_config *config,
				   int64_t batch);

#endif
