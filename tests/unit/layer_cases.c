/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs of every layer. See layer_cases.h. */
#include "tests/unit/layer_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

static const struct lh_init SMALL = {.kind = LH_INIT_NORMAL, .scale = 0.4};

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

/* Indexes below the number that the name ends with: "tokens/11". */
static struct lh_tensor *indexes(struct lh_graph *graph, const char *name, size_t n_dims,
				 const int64_t *dims)
{
	return lh_graph_input(graph, name, LH_I32, (uint32_t)n_dims, dims);
}

static struct lh_tensor *conv(struct lh_graph *graph, struct lh_tensor *x, int64_t out, int64_t k,
			      int64_t stride, int64_t pad, int64_t groups, bool has_bias)
{
	struct lh_conv2d spec = {.out_channels = out,
				 .kernel_h = k,
				 .kernel_w = k,
				 .stride_h = stride,
				 .stride_w = stride,
				 .pad_h = pad,
				 .pad_w = pad,
				 .groups = groups,
				 .has_bias = has_bias};

	return lh_conv2d(graph, "conv", x, spec, SMALL, SMALL);
}

static struct lh_tensor *conv_3x3(struct lh_graph *g)
{
	return conv(g, numbers(g, "x", DIMS(2, 5, 6, 4)), 8, 3, 1, 1, 1, true);
}

static struct lh_tensor *conv_strided(struct lh_graph *g)
{
	return conv(g, numbers(g, "x", DIMS(2, 7, 6, 3)), 5, 3, 2, 1, 1, false);
}

static struct lh_tensor *conv_7x7_stem(struct lh_graph *g)
{
	return conv(g, numbers(g, "x", DIMS(2, 13, 13, 3)), 16, 7, 2, 3, 1, false);
}

static struct lh_tensor *conv_1x1(struct lh_graph *g)
{
	return conv(g, numbers(g, "x", DIMS(2, 4, 4, 16)), 32, 1, 2, 0, 1, false);
}

static struct lh_tensor *conv_depthwise(struct lh_graph *g)
{
	return conv(g, numbers(g, "x", DIMS(2, 6, 7, 16)), 16, 7, 1, 3, 16, true);
}

static struct lh_tensor *conv_depthwise_odd(struct lh_graph *g)
{
	return conv(g, numbers(g, "x", DIMS(2, 5, 5, 6)), 6, 3, 1, 1, 6, true);
}

static struct lh_tensor *conv_grouped(struct lh_graph *g)
{
	return conv(g, numbers(g, "x", DIMS(1, 5, 5, 8)), 12, 3, 1, 1, 4, true);
}

static struct lh_tensor *conv_patches(struct lh_graph *g)
{
	return conv(g, numbers(g, "x", DIMS(2, 8, 8, 3)), 8, 4, 4, 0, 1, true);
}

/* Over a sequence: H = 1. */
static struct lh_tensor *conv_sequence(struct lh_graph *g)
{
	struct lh_conv2d spec = {.out_channels = 6,
				 .kernel_h = 1,
				 .kernel_w = 3,
				 .stride_h = 1,
				 .stride_w = 2,
				 .pad_h = 0,
				 .pad_w = 1,
				 .groups = 1,
				 .has_bias = true};

	return lh_conv2d(g, "conv", numbers(g, "x", DIMS(2, 1, 9, 5)), spec, SMALL, SMALL);
}

static struct lh_tensor *linear(struct lh_graph *g)
{
	return lh_linear(g, "fc", numbers(g, "x", DIMS(3, 4, 17)),
			 (struct lh_linear){.out_features = 9, .has_bias = true}, SMALL, SMALL);
}

static struct lh_tensor *linear_without_bias(struct lh_graph *g)
{
	return lh_linear(g, "fc", numbers(g, "x", DIMS(7, 32)),
			 (struct lh_linear){.out_features = 48}, SMALL, SMALL);
}

static struct lh_tensor *batch_norm(struct lh_graph *g)
{
	return lh_batch_norm(g, "bn", numbers(g, "x", DIMS(3, 4, 4, 16)),
			     (struct lh_batch_norm){.eps = 1e-5, .momentum = 0.1});
}

static struct lh_tensor *batch_norm_relu(struct lh_graph *g)
{
	return lh_batch_norm(
		g, "bn", numbers(g, "x", DIMS(2, 3, 5, 7)),
		(struct lh_batch_norm){.eps = 1e-5, .momentum = 0.1, .has_relu = true});
}

static struct lh_tensor *layer_norm(struct lh_graph *g)
{
	return lh_layer_norm(g, "ln", numbers(g, "x", DIMS(3, 5, 24)), 1e-5);
}

static struct lh_tensor *layer_norm_odd(struct lh_graph *g)
{
	return lh_layer_norm(g, "ln", numbers(g, "x", DIMS(5, 37)), 1e-12);
}

static struct lh_tensor *activated(struct lh_graph *g, enum lh_activation f)
{
	return lh_activate(g, linear(g), f);
}

static struct lh_tensor *relu(struct lh_graph *g)
{
	return activated(g, LH_RELU);
}

static struct lh_tensor *gelu(struct lh_graph *g)
{
	return activated(g, LH_GELU);
}

static struct lh_tensor *gelu_tanh(struct lh_graph *g)
{
	return activated(g, LH_GELU_TANH);
}

static struct lh_tensor *sigmoid(struct lh_graph *g)
{
	return activated(g, LH_SIGMOID);
}

static struct lh_tensor *hyperbolic_tangent(struct lh_graph *g)
{
	return activated(g, LH_TANH);
}

/* x + f(x), where the gradients of both ways meet. */
static struct lh_tensor *residual(struct lh_graph *g, bool has_relu)
{
	struct lh_tensor *x = conv_3x3(g), *y;

	lh_graph_enter(g, "second");
	y = lh_batch_norm(g, "bn", conv(g, x, 8, 3, 1, 1, 1, false),
			  (struct lh_batch_norm){.eps = 1e-5, .momentum = 0.1});
	lh_graph_leave(g);
	return lh_add(g, y, x, has_relu);
}

static struct lh_tensor *add(struct lh_graph *g)
{
	return residual(g, false);
}

static struct lh_tensor *add_relu(struct lh_graph *g)
{
	return residual(g, true);
}

/* Twice x, once x + b: every way to share a gradient's memory. */
static struct lh_tensor *add_chain(struct lh_graph *g)
{
	struct lh_tensor *x = linear(g), *b = numbers(g, "b", DIMS(3, 4, 9));
	struct lh_tensor *twice = lh_add(g, x, x, false), *y = lh_add(g, x, b, true);

	return lh_add(g, lh_activate(g, lh_add(g, twice, y, false), LH_TANH), y, false);
}

static struct lh_tensor *add_positions(struct lh_graph *g)
{
	return lh_add(g, linear(g), numbers(g, "positions", DIMS(4, 9)), false);
}

static struct lh_tensor *scale(struct lh_graph *g)
{
	return lh_scale(g, "gamma", numbers(g, "x", DIMS(3, 2, 10)), 0.7);
}

static struct lh_tensor *dropout(struct lh_graph *g)
{
	return lh_dropout(g, linear(g), 0.3, false);
}

static struct lh_tensor *stochastic_depth(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(8, 3, 17));
	struct lh_tensor *y =
		lh_linear(g, "fc", x, (struct lh_linear){.out_features = 17}, SMALL, SMALL);

	return lh_add(g, lh_dropout(g, y, 0.4, true), x, false);
}

static struct lh_tensor *max_pool(struct lh_graph *g)
{
	return lh_pool(g, numbers(g, "x", DIMS(2, 7, 7, 16)), true, 3, 2, 1);
}

static struct lh_tensor *mean_pool(struct lh_graph *g)
{
	return lh_pool(g, numbers(g, "x", DIMS(2, 6, 8, 5)), false, 2, 2, 0);
}

static struct lh_tensor *global_pool(struct lh_graph *g)
{
	return lh_pool(g, numbers(g, "x", DIMS(3, 4, 5, 16)), false, 0, 0, 0);
}

static struct lh_tensor *shortcut(struct lh_graph *g)
{
	return lh_shortcut(g, numbers(g, "x", DIMS(2, 5, 6, 4)), 2, 10);
}

static struct lh_tensor *embedding(struct lh_graph *g)
{
	return lh_embedding(g, "wte", indexes(g, "tokens/11", DIMS(3, 7)), 11, 12, SMALL);
}

static struct lh_tensor *field_embedding(struct lh_graph *g)
{
	return lh_field_embedding(g, "fields", indexes(g, "ids/7", DIMS(5, 3)),
				  numbers(g, "values", DIMS(5, 2)),
				  (struct lh_field_embedding){.buckets = 7, .k = 4}, SMALL);
}

static struct lh_tensor *field_embedding_summed(struct lh_graph *g)
{
	return lh_field_embedding(
		g, "fields", indexes(g, "ids/7", DIMS(5, 3)), numbers(g, "values", DIMS(5, 2)),
		(struct lh_field_embedding){.buckets = 7, .k = 4, .is_summed = true}, SMALL);
}

static struct lh_tensor *field_embedding_without_numbers(struct lh_graph *g)
{
	return lh_field_embedding(g, "fields", indexes(g, "ids/4", DIMS(6, 5)), NULL,
				  (struct lh_field_embedding){.buckets = 4, .k = 16}, SMALL);
}

static struct lh_tensor *tied(struct lh_graph *g)
{
	struct lh_tensor *x =
		lh_embedding(g, "wte", indexes(g, "tokens/11", DIMS(3, 7)), 11, 12, SMALL);

	return lh_linear_tied(g, "head", lh_activate(g, x, LH_GELU), lh_embedding_weight(g, x),
			      true);
}

static struct lh_tensor *attention(struct lh_graph *g)
{
	return lh_attention(g, numbers(g, "q", DIMS(2, 5, 12)), numbers(g, "k", DIMS(2, 7, 12)),
			    numbers(g, "v", DIMS(2, 7, 12)), NULL,
			    (struct lh_attention){.heads = 3});
}

static struct lh_tensor *attention_causal(struct lh_graph *g)
{
	return lh_attention(g, numbers(g, "qkv", DIMS(2, 6, 48)), NULL, NULL, NULL,
			    (struct lh_attention){.heads = 2, .is_causal = true});
}

static struct lh_tensor *attention_lengths(struct lh_graph *g)
{
	return lh_attention(g, numbers(g, "qkv", DIMS(3, 6, 24)), NULL, NULL,
			    indexes(g, "lengths/5+1", DIMS(3)), (struct lh_attention){.heads = 2});
}

static struct lh_tensor *attention_dropout(struct lh_graph *g)
{
	return lh_attention(g, numbers(g, "qkv", DIMS(2, 5, 24)), NULL, NULL, NULL,
			    (struct lh_attention){.heads = 2, .dropout = 0.25});
}

static struct lh_tensor *concat(struct lh_graph *g)
{
	struct lh_tensor *xs[] = {numbers(g, "a", DIMS(4, 3)), numbers(g, "b", DIMS(4, 8)),
				  numbers(g, "c", DIMS(4, 1))};

	return lh_concat(g, xs, 3);
}

static struct lh_tensor *factorization(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(6, 5, 8));

	return lh_factorization(g, x);
}

static struct lh_tensor *reshape(struct lh_graph *g)
{
	struct lh_tensor *x = lh_reshape(g, linear(g), DIMS(6, 18));

	return lh_linear(g, "head", x, (struct lh_linear){.out_features = 5, .has_bias = true},
			 SMALL, SMALL);
}

/* clang-format off */
const struct lh_layer_case lh_layer_cases[] = {
	{"conv_3x3", conv_3x3, false},
	{"conv_strided", conv_strided, false},
	{"conv_7x7_stem", conv_7x7_stem, false},
	{"conv_1x1", conv_1x1, false},
	{"conv_depthwise", conv_depthwise, false},
	{"conv_depthwise_odd", conv_depthwise_odd, false},
	{"conv_grouped", conv_grouped, false},
	{"conv_patches", conv_patches, false},
	{"conv_sequence", conv_sequence, false},
	{"linear", linear, false},
	{"linear_without_bias", linear_without_bias, false},
	{"batch_norm", batch_norm, false},
	{"batch_norm_relu", batch_norm_relu, false},
	{"batch_norm_evaluating", batch_norm_relu, true},
	{"layer_norm", layer_norm, false},
	{"layer_norm_odd", layer_norm_odd, false},
	{"relu", relu, false},
	{"gelu", gelu, false},
	{"gelu_tanh", gelu_tanh, false},
	{"sigmoid", sigmoid, false},
	{"tanh", hyperbolic_tangent, false},
	{"add", add, false},
	{"add_relu", add_relu, false},
	{"add_chain", add_chain, false},
	{"add_positions", add_positions, false},
	{"scale", scale, false},
	{"dropout", dropout, false},
	{"dropout_evaluating", dropout, true},
	{"stochastic_depth", stochastic_depth, false},
	{"max_pool", max_pool, false},
	{"mean_pool", mean_pool, false},
	{"global_pool", global_pool, false},
	{"shortcut", shortcut, false},
	{"embedding", embedding, false},
	{"field_embedding", field_embedding, false},
	{"field_embedding_summed", field_embedding_summed, false},
	{"field_embedding_without_numbers", field_embedding_without_numbers, false},
	{"tied", tied, false},
	{"attention", attention, false},
	{"attention_causal", attention_causal, false},
	{"attention_lengths", attention_lengths, false},
	{"attention_dropout", attention_dropout, false},
	{"concat", concat, false},
	{"factorization", factorization, false},
	{"reshape", reshape, false},
	{NULL, NULL, false},
};
/* clang-format on */

/* ---- running -------------------------------------------------------------------------------- */

static void add_loss(struct lh_case_run *run)
{
	struct lh_tensor *logits = run->logits;
	int64_t width = logits ? logits->dims[logits->n_dims - 1] : 1;
	int64_t rows = logits ? logits->n / width : 1;
	char name[32];

	snprintf(name, sizeof(name), "targets/%d", width > 1 ? (int)width : 2);
	run->loss = width > 1 ? lh_cross_entropy(run->graph, logits,
						 indexes(run->graph, name, DIMS(rows)), 0.1)
			      : lh_binary_cross_entropy(run->graph, logits,
							indexes(run->graph, name, DIMS(rows)));
}

void lh_case_open_with(const struct lh_layer_case *c, const struct lh_device_ops *ops,
		       const struct lh_device_options *options, struct lh_case_run *ret_run)
{
	struct lh_error err = {0};

	*ret_run = (struct lh_case_run){
		.pass = {.is_training = !c->is_evaluating, .seed = 3, .step = 5}};
	if (ops->open(options, &ret_run->device, &err) ||
	    lh_graph_new(ret_run->device, &ret_run->graph, &err))
		fail_msg("%s: %s", c->name, err.message);
	ret_run->logits = c->build(ret_run->graph);
	lh_graph_keep(ret_run->logits);
	add_loss(ret_run);
	if (lh_graph_finish(ret_run->graph, ret_run->loss, false, &err))
		fail_msg("%s: %s", c->name, err.message);
}

void lh_case_open(const struct lh_layer_case *c, const struct lh_device_ops *ops,
		  enum lh_dtype compute, struct lh_case_run *ret_run)
{
	struct lh_device_options options = {.n_threads = 2, .compute = compute};

	lh_case_open_with(c, ops, &options, ret_run);
}

void lh_case_close(struct lh_case_run *run)
{
	lh_graph_free(run->graph);
	run->device->ops->close(run->device);
}

static bool is_double(const struct lh_case_run *run)
{
	return run->device->compute == LH_F64;
}

double *lh_case_read(struct lh_case_run *run, const struct lh_tensor *tensor, enum lh_part part)
{
	double *values = calloc((size_t)tensor->n, sizeof(*values));
	struct lh_error err = {0};

	assert_non_null(values);
	if (lh_tensor_read(run->graph, tensor, part, values, &err))
		fail_msg("%s: %s", tensor->name, err.message);
	for (int64_t i = is_double(run) ? 0 : tensor->n; i-- > 0;)
		values[i] = ((const float *)values)[i];
	return values;
}

void lh_case_write(struct lh_case_run *run, struct lh_tensor *tensor, const double *values)
{
	float *narrow = calloc((size_t)tensor->n, sizeof(*narrow));
	struct lh_error err = {0};

	assert_non_null(narrow);
	for (int64_t i = 0; i < tensor->n; i++)
		narrow[i] = (float)values[i];
	if (lh_tensor_write(run->graph, tensor,
			    is_double(run) ? (const void *)values : (const void *)narrow, &err))
		fail_msg("%s: %s", tensor->name, err.message);
	free(narrow);
}

/* name/BELOW+AT: in [AT, AT + BELOW); one in eight targets is -1. */
static void fill_indexes(struct lh_case_run *run, struct lh_tensor *tensor)
{
	int below = 1, from = 0;
	int32_t *values = calloc((size_t)tensor->n, sizeof(*values));
	bool is_target = strncmp(tensor->name, "targets", 7) == 0;
	struct lh_error err = {0};
	struct lh_rng rng;

	assert_non_null(values);
	assert_true(sscanf(strchr(tensor->name, '/'), "/%d+%d", &below, &from) >= 1);
	lh_rng_init(&rng, 1, tensor->name);
	for (int64_t i = 0; i < tensor->n; i++) {
		values[i] = from + (int32_t)lh_rng_below(&rng, (uint64_t)below);
		if (is_target && i % 8 == 7)
			values[i] = -1;
	}
	if (lh_tensor_write(run->graph, tensor, values, &err))
		fail_msg("%s: %s", tensor->name, err.message);
	free(values);
}

/* To the nearest number of a narrow type, ties to even. */
static double round_to(enum lh_dtype dtype, double value)
{
	int bits = dtype == LH_F16 ? 11 : 8, exponent;

	frexp(value, &exponent);
	if (dtype == LH_F16 && exponent < -13)
		exponent = -13;
	return ldexp(rint(ldexp(value, bits - exponent)), exponent - bits);
}

static void fill_numbers(struct lh_case_run *run, struct lh_tensor *tensor)
{
	bool is_variance = strstr(tensor->name, "running_var") != NULL;
	bool is_narrow = run->rounds_to == LH_F16 || run->rounds_to == LH_BF16;
	double *values = calloc((size_t)tensor->n, sizeof(*values));
	struct lh_rng rng;

	assert_non_null(values);
	lh_rng_init(&rng, 2, tensor->name);
	for (int64_t i = 0; i < tensor->n; i++) {
		double z = lh_rng_normal(&rng);

		z = is_variance ? 0.5 + fabs(z) : (tensor->role == LH_INPUT ? z : 0.4 * z);
		values[i] = is_narrow ? round_to(run->rounds_to, z) : (float)z;
	}
	lh_case_write(run, tensor, values);
	free(values);
}

double lh_case_forward(struct lh_case_run *run)
{
	struct lh_error err = {0};
	struct lh_loss loss;
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(run->graph, &n);

	for (uint32_t i = 0; i < n; i++) {
		if (tensors[i]->view_of || tensors[i]->role > LH_STATE)
			continue;
		if (tensors[i]->dtype == LH_I32)
			fill_indexes(run, tensors[i]);
		else
			fill_numbers(run, tensors[i]);
	}
	if (lh_graph_forward(run->graph, &run->pass, &err) ||
	    lh_loss_read(run->graph, run->loss, &loss, &err))
		fail_msg("%s", err.message);
	return loss.mean;
}

void lh_case_backward(struct lh_case_run *run)
{
	struct lh_error err = {0};

	if (lh_graph_zero_gradients(run->graph, &err) ||
	    lh_graph_backward(run->graph, &run->pass, 1, &err))
		fail_msg("%s", err.message);
}

double lh_case_distance(const double *a, const double *b, int64_t n)
{
	double difference = 0, norm = 0;

	for (int64_t i = 0; i < n; i++) {
		difference += (a[i] - b[i]) * (a[i] - b[i]);
		norm += b[i] * b[i];
	}
	return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}
