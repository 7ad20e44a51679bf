/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for the tests of the CPU device. See cpu_cases.h. */
#include "tests/unit/cpu_cases.h"

#include <string.h>

static const struct lh_init SMALL = {.kind = LH_INIT_NORMAL, .scale = 0.05};

#define DIMS(...)                                                             \
	sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) \
	{                                                                     \
		__VA_ARGS__                                                   \
	}

static struct lh_tensor *numbers(struct lh_graph *graph, const char *name, size_t n_dims,
				 const int64_t *dims)
{
	struct lh_tensor *x = lh_graph_input(graph, name, LH_F32, (uint32_t)n_dims, dims);

	lh_graph_want_gradient(x);
	return x;
}

static struct lh_tensor *conv(struct lh_graph *g, const char *name, struct lh_tensor *x,
			      int64_t out, int64_t k, int64_t stride, int64_t groups)
{
	struct lh_conv2d spec = {.out_channels = out,
				 .kernel_h = k,
				 .kernel_w = k,
				 .stride_h = stride,
				 .stride_w = stride,
				 .pad_h = k / 2,
				 .pad_w = k / 2,
				 .groups = groups,
				 .has_bias = groups > 1};

	return lh_conv2d(g, name, x, spec, SMALL, SMALL);
}

static struct lh_tensor *conv_64(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(2, 14, 14, 64)), 64, 3, 1, 1);
}

static struct lh_tensor *conv_one_sample(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(1, 15, 13, 32)), 48, 3, 2, 1);
}

static struct lh_tensor *depthwise_7(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(3, 12, 14, 40)), 40, 7, 1, 40);
}

static struct lh_tensor *depthwise_3_strided(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(4, 13, 16, 72)), 72, 3, 2, 72);
}

static struct lh_tensor *depthwise_5(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(4, 11, 12, 32)), 32, 5, 1, 32);
}

/* An image smaller than the kernel. */
static struct lh_tensor *depthwise_tiny(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(2, 2, 3, 19)), 19, 7, 1, 19);
}

static struct lh_tensor *fc(struct lh_graph *g)
{
	return lh_linear(g, "fc", numbers(g, "x", DIMS(3, 37, 130)),
			 (struct lh_linear){.out_features = 201, .has_bias = true}, SMALL, SMALL);
}

static struct lh_tensor *batch_norm_of(struct lh_graph *g, int64_t n, int64_t c, bool has_relu)
{
	return lh_batch_norm(
		g, "bn", numbers(g, "x", DIMS(n, 9, 11, c)),
		(struct lh_batch_norm){.eps = 1e-5, .momentum = 0.1, .has_relu = has_relu});
}

static struct lh_tensor *batch_norm_16(struct lh_graph *g)
{
	return batch_norm_of(g, 60, 16, true);
}

static struct lh_tensor *batch_norm_7(struct lh_graph *g)
{
	return batch_norm_of(g, 130, 7, false);
}

static struct lh_tensor *batch_norm_192(struct lh_graph *g)
{
	return batch_norm_of(g, 6, 192, true);
}

static struct lh_tensor *batch_norm_one_row(struct lh_graph *g)
{
	return lh_batch_norm(g, "bn", numbers(g, "x", DIMS(1, 5)),
			     (struct lh_batch_norm){.eps = 1e-5, .momentum = 0.1});
}

static struct lh_tensor *layer_norm_768(struct lh_graph *g)
{
	return lh_layer_norm(g, "ln", numbers(g, "x", DIMS(2, 100, 768)), 1e-5);
}

static struct lh_tensor *layer_norm_17(struct lh_graph *g)
{
	return lh_layer_norm(g, "ln", numbers(g, "x", DIMS(9000, 17)), 1e-6);
}

static struct lh_tensor *gelu_large(struct lh_graph *g)
{
	return lh_activate(g, numbers(g, "x", DIMS(401, 333)), LH_GELU);
}

static struct lh_tensor *tanh_large(struct lh_graph *g)
{
	return lh_activate(g, lh_activate(g, numbers(g, "x", DIMS(401, 333)), LH_GELU_TANH),
			   LH_TANH);
}

static struct lh_tensor *add_large(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(7, 100, 129));

	x = lh_add(g, x, numbers(g, "positions", DIMS(100, 129)), true);
	return lh_add(g, lh_scale(g, "gamma", x, 0.5), x, false);
}

static struct lh_tensor *add_itself(struct lh_graph *g)
{
	struct lh_tensor *x = lh_activate(g, numbers(g, "x", DIMS(5, 33)), LH_SIGMOID);

	return lh_add(g, x, x, false);
}

static struct lh_tensor *dropout_large(struct lh_graph *g)
{
	struct lh_tensor *x = lh_dropout(g, numbers(g, "x", DIMS(30, 70, 65)), 0.1, false);

	return lh_dropout(g, lh_scale(g, "gamma", x, 1), 0.3, true);
}

static struct lh_tensor *pools_large(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(2, 29, 31, 80));

	return lh_pool(g, lh_pool(g, x, true, 3, 2, 1), false, 3, 1, 1);
}

/* A stride wider than the window leaves pixels without a gradient. */
static struct lh_tensor *pool_gaps(struct lh_graph *g)
{
	return lh_pool(g, lh_pool(g, numbers(g, "x", DIMS(2, 11, 10, 3)), true, 2, 3, 0), false, 0,
		       0, 0);
}

static struct lh_tensor *shortcut_large(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(8, 16, 16, 32));

	return lh_add(g, conv(g, "conv", x, 64, 3, 2, 1), lh_shortcut(g, x, 2, 64), true);
}

static struct lh_tensor *embedding_large(struct lh_graph *g)
{
	return lh_embedding(g, "wte", lh_graph_input(g, "tokens/50", LH_I32, DIMS(8, 128)), 50, 96,
			    SMALL);
}

static struct lh_tensor *fields_large(struct lh_graph *g)
{
	struct lh_tensor *ids = lh_graph_input(g, "ids/40", LH_I32, DIMS(400, 13));
	struct lh_tensor *values = numbers(g, "values", DIMS(400, 6)), *xs[2];
	struct lh_field_embedding spec = {.buckets = 40, .k = 18};

	xs[0] = lh_reshape(g, lh_field_embedding(g, "fields", ids, values, spec, SMALL),
			   DIMS(400, 19 * 18));
	spec.is_summed = true;
	xs[1] = lh_field_embedding(g, "sums", ids, values, spec, SMALL);
	return lh_concat(g, xs, 2);
}

static struct lh_tensor *attention_of(struct lh_graph *g, bool is_causal, bool has_lengths,
				      double dropout)
{
	struct lh_tensor *lengths =
		has_lengths ? lh_graph_input(g, "lengths/128+1", LH_I32, DIMS(2)) : NULL;

	return lh_attention(
		g, numbers(g, "qkv", DIMS(2, 128, 3 * 96)), NULL, NULL, lengths,
		(struct lh_attention){.heads = 3, .is_causal = is_causal, .dropout = dropout});
}

static struct lh_tensor *attention_128(struct lh_graph *g)
{
	return attention_of(g, false, true, 0.1);
}

static struct lh_tensor *attention_causal_128(struct lh_graph *g)
{
	return attention_of(g, true, false, 0);
}

static struct lh_tensor *attention_across(struct lh_graph *g)
{
	return lh_attention(g, numbers(g, "q", DIMS(3, 53, 60)), numbers(g, "k", DIMS(3, 101, 60)),
			    numbers(g, "v", DIMS(3, 101, 60)), NULL,
			    (struct lh_attention){.heads = 3});
}

/* Queries, keys and values are one tensor: its gradient is that of all three. */
static struct lh_tensor *attention_to_itself(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(2, 70, 32));

	return lh_attention(g, x, x, x, NULL, (struct lh_attention){.heads = 2});
}

static struct lh_tensor *classes_large(struct lh_graph *g)
{
	return lh_scale(g, "gamma", numbers(g, "x", DIMS(64, 5003)), 3);
}

static struct lh_tensor *factorization_large(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(300, 26, 19));
	struct lh_tensor *xs[] = {lh_factorization(g, x), lh_reshape(g, x, DIMS(300, 26 * 19))};

	return lh_concat(g, xs, 2);
}

/* clang-format off */
const struct lh_cpu_case lh_cpu_cases[] = {
	{{"conv_64", conv_64, false}, false},
	{{"conv_one_sample", conv_one_sample, false}, false},
	{{"depthwise_7", depthwise_7, false}, false},
	{{"depthwise_3_strided", depthwise_3_strided, false}, false},
	{{"depthwise_5", depthwise_5, false}, false},
	{{"depthwise_tiny", depthwise_tiny, false}, false},
	{{"fc", fc, false}, false},
	{{"batch_norm_16", batch_norm_16, false}, true},
	{{"batch_norm_16_evaluating", batch_norm_16, true}, true},
	{{"batch_norm_7", batch_norm_7, false}, true},
	{{"batch_norm_192", batch_norm_192, false}, true},
	{{"batch_norm_one_row", batch_norm_one_row, false}, true},
	{{"layer_norm_768", layer_norm_768, false}, true},
	{{"layer_norm_17", layer_norm_17, false}, true},
	{{"gelu_large", gelu_large, false}, true},
	{{"tanh_large", tanh_large, false}, true},
	{{"add_large", add_large, false}, true},
	{{"add_itself", add_itself, false}, true},
	{{"dropout_large", dropout_large, false}, true},
	{{"dropout_large_evaluating", dropout_large, true}, true},
	{{"pools_large", pools_large, false}, true},
	{{"pool_gaps", pool_gaps, false}, true},
	{{"shortcut_large", shortcut_large, false}, false},
	{{"embedding_large", embedding_large, false}, true},
	{{"fields_large", fields_large, false}, true},
	{{"attention_128", attention_128, false}, true},
	{{"attention_causal_128", attention_causal_128, false}, true},
	{{"attention_across", attention_across, false}, true},
	{{"attention_to_itself", attention_to_itself, false}, true},
	{{"classes_large", classes_large, false}, true},
	{{"factorization_large", factorization_large, false}, true},
	{{NULL, NULL, false}, false},
};
/* clang-format on */

const struct lh_layer_case *lh_cpu_case_find(const char *name)
{
	for (const struct lh_cpu_case *c = lh_cpu_cases; c->c.name; c++)
		if (strcmp(c->c.name, name) == 0)
			return &c->c;
	return NULL;
}
