/* SPDX-License-Identifier: Apache-2.0 */
/* See layer_compare.h. */
#include "tests/unit/layer_compare.h"

#include <stdlib.h>

#include "tests/unit/test.h"

static const struct lh_init SMALL = {.kind = LH_INIT_NORMAL, .scale = 0.4};

static struct lh_tensor *numbers(struct lh_graph *graph, const char *name, size_t n_dims,
				 const int64_t *dims)
{
	struct lh_tensor *x = lh_graph_input(graph, name, LH_F32, (uint32_t)n_dims, dims);

	lh_graph_want_gradient(x);
	return x;
}

#define DIMS(...)                                                             \
	sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) \
	{                                                                     \
		__VA_ARGS__                                                   \
	}

/* In four rows: the loss of many rows takes longer than the layer before it. */
static struct lh_tensor *in_few_rows(struct lh_graph *g, struct lh_tensor *x)
{
	return x && x->n % 4 == 0 ? lh_reshape(g, x, DIMS(4, x->n / 4)) : x;
}

static struct lh_tensor *conv_depthwise(struct lh_graph *g)
{
	struct lh_conv2d spec = {.out_channels = 96,
				 .kernel_h = 5,
				 .kernel_w = 3,
				 .stride_h = 2,
				 .stride_w = 1,
				 .pad_h = 2,
				 .pad_w = 1,
				 .groups = 96,
				 .has_bias = true};

	return in_few_rows(g, lh_conv2d(g, "conv", numbers(g, "x", DIMS(2, 9, 11, 96)), spec, SMALL,
					SMALL));
}

/* A product of matrices, of more rows than one block adds up. */
static struct lh_tensor *conv_pixelwise(struct lh_graph *g)
{
	struct lh_conv2d spec = {.out_channels = 24,
				 .kernel_h = 1,
				 .kernel_w = 1,
				 .stride_h = 1,
				 .stride_w = 1,
				 .groups = 1,
				 .has_bias = true};

	return in_few_rows(g, lh_conv2d(g, "conv", numbers(g, "x", DIMS(3, 20, 21, 7)), spec, SMALL,
					SMALL));
}

static struct lh_tensor *batch_norm_rows(struct lh_graph *g, int64_t n, int64_t c)
{
	return in_few_rows(g, lh_batch_norm(g, "bn", numbers(g, "x", DIMS(n, 19, 23, c)),
					    (struct lh_batch_norm){.eps = 1e-5,
								   .momentum = 0.1,
								   .has_relu = true}));
}

static struct lh_tensor *batch_norm_packed(struct lh_graph *g)
{
	return batch_norm_rows(g, 3, 72);
}

static struct lh_tensor *batch_norm_odd(struct lh_graph *g)
{
	return batch_norm_rows(g, 4, 67);
}

static struct lh_tensor *batch_norm_narrow(struct lh_graph *g)
{
	return batch_norm_rows(g, 4, 3);
}

static struct lh_tensor *layer_norm_packed(struct lh_graph *g)
{
	return in_few_rows(g, lh_layer_norm(g, "ln", numbers(g, "x", DIMS(70, 768)), 1e-5));
}

static struct lh_tensor *layer_norm_odd(struct lh_graph *g)
{
	return in_few_rows(g, lh_layer_norm(g, "ln", numbers(g, "x", DIMS(44, 301)), 1e-5));
}

static struct lh_tensor *add_positions(struct lh_graph *g)
{
	return in_few_rows(g, lh_add(g, numbers(g, "x", DIMS(36, 9, 40)),
				     numbers(g, "positions", DIMS(9, 40)), true));
}

static struct lh_tensor *scale(struct lh_graph *g)
{
	return in_few_rows(g, lh_scale(g, "gamma", numbers(g, "x", DIMS(150, 48)), 0.7));
}

static struct lh_tensor *many_elements(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(52, 211));

	return in_few_rows(g, lh_dropout(g, lh_activate(g, lh_add(g, x, x, false), LH_GELU), 0.2,
					 false));
}

static struct lh_tensor *embedding(struct lh_graph *g)
{
	struct lh_tensor *tokens =
		lh_graph_input(g, "tokens/9", LH_I32, 2, (const int64_t[]){20, 31});

	return in_few_rows(g, lh_embedding(g, "wte", tokens, 9, 70, SMALL));
}

static struct lh_tensor *field_embedding(struct lh_graph *g)
{
	struct lh_tensor *ids = lh_graph_input(g, "ids/9", LH_I32, 2, (const int64_t[]){64, 5});
	struct lh_field_embedding spec = {.buckets = 9, .k = 40};

	return in_few_rows(g, lh_field_embedding(g, "fields", ids,
						 numbers(g, "values", DIMS(64, 3)), spec, SMALL));
}

static struct lh_tensor *factorization(struct lh_graph *g)
{
	return in_few_rows(g, lh_factorization(g, numbers(g, "x", DIMS(40, 6, 70))));
}

static struct lh_tensor *attention_of(struct lh_graph *g, int64_t width, bool is_causal,
				      bool has_lengths)
{
	struct lh_tensor *lengths =
		has_lengths ? lh_graph_input(g, "lengths/71+0", LH_I32, 1, (const int64_t[]){3})
			    : NULL;

	return in_few_rows(
		g, lh_attention(g, numbers(g, "qkv", DIMS(3, 70, 6 * width)), NULL, NULL, lengths,
				(struct lh_attention){
					.heads = 2, .is_causal = is_causal, .dropout = 0.1}));
}

static struct lh_tensor *attention_24(struct lh_graph *g)
{
	return attention_of(g, 24, true, false);
}

static struct lh_tensor *attention_64(struct lh_graph *g)
{
	return attention_of(g, 64, false, true);
}

static struct lh_tensor *attention_128(struct lh_graph *g)
{
	return attention_of(g, 128, true, true);
}

/* Queries and keys of other numbers, the keys being the values. */
static struct lh_tensor *attention_cross(struct lh_graph *g)
{
	struct lh_tensor *k = numbers(g, "k", DIMS(2, 75, 48));

	return in_few_rows(g, lh_attention(g, numbers(g, "q", DIMS(2, 34, 48)), k, k, NULL,
					   (struct lh_attention){.heads = 1}));
}

static struct lh_tensor *max_pool(struct lh_graph *g)
{
	return in_few_rows(g, lh_pool(g, numbers(g, "x", DIMS(2, 13, 14, 24)), true, 3, 2, 1));
}

static struct lh_tensor *global_pool(struct lh_graph *g)
{
	return in_few_rows(g, lh_pool(g, numbers(g, "x", DIMS(5, 7, 7, 130)), false, 0, 0, 0));
}

/* Rows of many classes: the loss itself. */
static struct lh_tensor *many_classes(struct lh_graph *g)
{
	return lh_linear(g, "fc", numbers(g, "x", DIMS(40, 5)),
			 (struct lh_linear){.out_features = 1001, .has_bias = true}, SMALL, SMALL);
}

static struct lh_tensor *many_clicks(struct lh_graph *g)
{
	return lh_linear(g, "fc", numbers(g, "x", DIMS(700, 5)),
			 (struct lh_linear){.out_features = 1, .has_bias = true}, SMALL, SMALL);
}

/* clang-format off */
const struct lh_layer_case lh_wide_cases[] = {
	{"wide conv_depthwise", conv_depthwise, false},
	{"wide conv_pixelwise", conv_pixelwise, false},
	{"wide batch_norm_packed", batch_norm_packed, false},
	{"wide batch_norm_odd", batch_norm_odd, false},
	{"wide batch_norm_narrow", batch_norm_narrow, false},
	{"wide batch_norm_evaluating", batch_norm_packed, true},
	{"wide layer_norm_packed", layer_norm_packed, false},
	{"wide layer_norm_odd", layer_norm_odd, false},
	{"wide add_positions", add_positions, false},
	{"wide scale", scale, false},
	{"wide many_elements", many_elements, false},
	{"wide embedding", embedding, false},
	{"wide field_embedding", field_embedding, false},
	{"wide factorization", factorization, false},
	{"wide attention_24", attention_24, false},
	{"wide attention_64", attention_64, false},
	{"wide attention_128", attention_128, false},
	{"wide attention_cross", attention_cross, false},
	{"wide max_pool", max_pool, false},
	{"wide global_pool", global_pool, false},
	{"wide many_classes", many_classes, false},
	{"wide many_clicks", many_clicks, false},
	{NULL, NULL, false},
};
/* clang-format on */

struct comparison {
	const struct lh_layer_case *c;
	struct lh_case_run device, reference;
	double tolerance;
	double *worst;
};

static void compare_tensor(struct comparison *comparison, uint32_t id, enum lh_part part)
{
	uint32_t n;
	const struct lh_tensor *tensor = lh_graph_tensors(comparison->device.graph, &n)[id];
	double *x = lh_case_read(&comparison->device, tensor, part);
	double *y = lh_case_read(&comparison->reference,
				 lh_graph_tensors(comparison->reference.graph, &n)[id], part);
	double distance = lh_case_distance(x, y, tensor->n);

	if (!(distance <= comparison->tolerance))
		fail_msg("%s in %s, %s of %s: distance %.3g; at most %.3g", comparison->c->name,
			 lh_dtype_name(comparison->device.device->compute),
			 part ? "gradient" : "data", tensor->name, distance, comparison->tolerance);
	if (distance > *comparison->worst)
		*comparison->worst = distance;
	free(x);
	free(y);
}

static void compare_tensors(struct comparison *comparison)
{
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(comparison->device.graph, &n);

	compare_tensor(comparison, comparison->device.logits->id, LH_DATA);
	for (uint32_t i = 0; i < n; i++) {
		if (tensors[i]->view_of)
			continue;
		if (tensors[i]->role == LH_STATE)
			compare_tensor(comparison, i, LH_DATA);
		else if (tensors[i]->role < LH_STATE && tensors[i]->wants_grad)
			compare_tensor(comparison, i, LH_GRAD);
	}
}

void lh_case_compare(const struct lh_layer_case *c, const struct lh_device_ops *ops,
		     enum lh_dtype compute, double tolerance, double *worst)
{
	struct comparison comparison = {.c = c, .tolerance = tolerance, .worst = worst};
	double on_device, on_reference;

	lh_case_open(c, ops, compute, &comparison.device);
	lh_case_open(c, &lh_device_reference32, LH_F32, &comparison.reference);
	comparison.device.rounds_to = compute;
	comparison.reference.rounds_to = compute;
	on_device = lh_case_forward(&comparison.device);
	on_reference = lh_case_forward(&comparison.reference);
	if (!(fabs(on_device - on_reference) <= tolerance * fmax(1, fabs(on_reference))))
		fail_msg("%s in %s: loss %.9g; on the reference device %.9g", c->name,
			 lh_dtype_name(compute), on_device, on_reference);
	lh_case_backward(&comparison.device);
	lh_case_backward(&comparison.reference);
	compare_tensors(&comparison);
	lh_case_close(&comparison.device);
	lh_case_close(&comparison.reference);
}

/* ---- ties ----------------------------------------------------------------------------------- */

static struct lh_tensor *ties(struct lh_graph *g)
{
	return lh_pool(g, numbers(g, "x", DIMS(2, 7, 7, 8)), true, 3, 2, 1);
}

/* Forward and backward of windows and logits that hold 0, 1 and 2; the gradient of x. */
static double *run_ties(const struct lh_device_ops *ops, enum lh_dtype compute, int64_t *ret_n,
			struct lh_loss *ret_loss)
{
	const struct lh_layer_case c = {"ties", ties, false};
	struct lh_error err = {0};
	struct lh_case_run run;
	struct lh_tensor *x;
	double *values, *gradient;

	lh_case_open(&c, ops, compute, &run);
	lh_case_forward(&run);
	x = lh_graph_find(run.graph, "x");
	values = lh_case_read(&run, x, LH_DATA);
	for (int64_t i = 0; i < x->n; i++)
		values[i] = (double)(i * 7 % 5 % 3);
	lh_case_write(&run, x, values);
	if (lh_graph_forward(run.graph, &run.pass, &err) ||
	    lh_loss_read(run.graph, run.loss, ret_loss, &err))
		fail_msg("%s", err.message);
	lh_case_backward(&run);
	gradient = lh_case_read(&run, x, LH_GRAD);
	*ret_n = x->n;
	free(values);
	lh_case_close(&run);
	return gradient;
}

void lh_ties_compare(const struct lh_device_ops *ops, enum lh_dtype compute)
{
	struct lh_loss loss, expected;
	int64_t n;
	double *on_device = run_ties(ops, compute, &n, &loss);
	double *on_reference = run_ties(&lh_device_reference32, LH_F32, &n, &expected);

	assert_true(expected.n_right > 0 && expected.n_right < expected.n_counted);
	assert_near(loss.n_counted, expected.n_counted, 0);
	assert_near(loss.n_right, expected.n_right, 0);
	for (int64_t i = 0; i < n; i++)
		assert_near(on_device[i], on_reference[i], 1e-2 * fabs(on_reference[i]));
	free(on_device);
	free(on_reference);
}
