/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of the CUDA device, by what they are: products of matrices (1x1, each pixel once),
 * depthwise ones (own kernels), and all others (cuDNN). See cuda.h and layers.h.
 */
#include <stdlib.h>

#include "trainer/device/cuda/cuda.h"

enum way { BY_MATMUL, DEPTHWISE, BY_LIBRARY };

struct plan {
	enum way way;
	struct lh_cuda_convolution *convolution; /* BY_LIBRARY */
	size_t gradient_at; /* in the workspace: the weights' gradient in the compute type */
};

static enum way choose_way(const struct lh_conv2d *s)
{
	if (s->groups == 1 && s->kernel_h == 1 && s->kernel_w == 1 && s->stride_h == 1 &&
	    s->stride_w == 1 && s->pad_h == 0 && s->pad_w == 0)
		return BY_MATMUL;
	return s->groups > 1 && s->groups == s->c && s->c == s->out_channels ? DEPTHWISE
									     : BY_LIBRARY;
}

static int64_t pixels_of(const struct lh_conv2d *s)
{
	return s->n * s->oh * s->ow;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static int prepare_library(struct lh_cuda *cuda, struct lh_graph_node *node, struct plan *plan,
			   struct lh_error *err)
{
	size_t bytes;
	int rc = lh_cuda_convolution_new(cuda, node->spec, &plan->convolution, &bytes, err);

	if (rc)
		return rc;
	plan->gradient_at = lh_cuda_align(bytes);
	if (cuda->device.compute != LH_F32)
		bytes = plan->gradient_at +
			(size_t)node->parameter[0]->n * lh_dtype_bytes(cuda->device.compute);
	node->workspace_bytes = larger(node->workspace_bytes, bytes);
	return 0;
}

int lh_cuda_conv2d_prepare(struct lh_device *device, struct lh_graph_node *node,
			   struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	struct lh_cuda *cuda = lh_cuda_of(device);
	struct plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return lh_fail(err, LH_ESYS, 0, "no memory for a convolution");
	node->plan = plan;
	plan->way = choose_way(s);
	if (s->has_bias)
		node->workspace_bytes = lh_cuda_bias_bytes(cuda, pixels_of(s), s->out_channels);
	if (plan->way == DEPTHWISE)
		node->workspace_bytes =
			larger(node->workspace_bytes, lh_cuda_depthwise_bytes(cuda, s));
	return plan->way == BY_LIBRARY ? prepare_library(cuda, node, plan, err) : 0;
}

void lh_cuda_conv2d_done(struct lh_graph_node *node)
{
	struct plan *plan = node->plan;

	lh_cuda_convolution_free(plan->convolution);
	free(plan);
}

/* As a linear layer over pixels. */
static struct lh_cuda_matmul product_of(const struct lh_cuda *cuda,
					const struct lh_graph_node *node)
{
	const struct lh_conv2d *s = node->spec;

	return (struct lh_cuda_matmul){
		.a = node->in[0]->data,
		.b = lh_cuda_weight(node->parameter[0]),
		.c = node->out->data,
		.in = cuda->device.compute,
		.out = cuda->device.compute,
		.m = pixels_of(s),
		.n = s->out_channels,
		.k = s->c,
		.transposes_b = true,
	};
}

int lh_cuda_conv2d_forward(struct lh_device *device, const struct lh_graph_node *node,
			   const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	const struct plan *plan = node->plan;
	struct lh_cuda *cuda = lh_cuda_of(device);
	struct lh_cuda_matmul product = product_of(cuda, node);
	const float *bias = s->has_bias ? node->parameter[1]->data : NULL;
	int rc = 0;

	(void)pass;
	switch (plan->way) {
	case DEPTHWISE:
		return lh_cuda_depthwise(cuda, s, node->in[0]->data, node->parameter[0]->data, bias,
					 node->out->data, err);
	case BY_MATMUL:
		rc = lh_cuda_matmul(cuda, &product, err);
		break;
	case BY_LIBRARY:
		rc = lh_cuda_convolve(cuda, plan->convolution, product.a, product.b, product.c,
				      node->workspace, err);
		break;
	}
	if (rc || !bias)
		return rc;
	return lh_cuda_add_bias(cuda, node->out->data, bias, pixels_of(s), s->out_channels, err);
}

/* cuDNN writes a gradient of the compute type, which is then added to the float one. */
static int backward_w_by_library(struct lh_cuda *cuda, const struct lh_graph_node *node,
				 struct lh_error *err)
{
	const struct plan *plan = node->plan;
	bool is_narrow = cuda->device.compute != LH_F32;
	float *dw = node->parameter[0]->grad;
	void *to = is_narrow ? (char *)node->workspace + plan->gradient_at : (void *)dw;
	int rc = lh_cuda_convolve_backward_w(cuda, plan->convolution, node->in[0]->data,
					     node->out->grad, to, !is_narrow, node->workspace, err);

	if (rc || !is_narrow)
		return rc;
	return lh_cuda_convert(cuda, cuda->device.compute, to, LH_F32, dw, true,
			       node->parameter[0]->n, err);
}

static int backward_w(struct lh_cuda *cuda, const struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	const struct lh_cuda_matmul product = {
		.a = node->out->grad,
		.b = node->in[0]->data,
		.c = node->parameter[0]->grad,
		.in = cuda->device.compute,
		.out = LH_F32,
		.m = s->out_channels,
		.n = s->c,
		.k = pixels_of(s),
		.transposes_a = true,
		.adds = true,
	};

	switch (((const struct plan *)node->plan)->way) {
	case BY_MATMUL:
		return lh_cuda_matmul(cuda, &product, err);
	case DEPTHWISE:
		return lh_cuda_depthwise_backward_w(cuda, s, node->in[0]->data, node->out->grad,
						    node->parameter[0]->grad, node->workspace, err);
	case BY_LIBRARY:
		break;
	}
	return backward_w_by_library(cuda, node, err);
}

static int backward_x(struct lh_cuda *cuda, const struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	const struct plan *plan = node->plan;
	const struct lh_cuda_matmul product = {
		.a = node->out->grad,
		.b = lh_cuda_weight(node->parameter[0]),
		.c = node->in[0]->grad,
		.in = cuda->device.compute,
		.out = cuda->device.compute,
		.m = pixels_of(s),
		.n = s->c,
		.k = s->out_channels,
		.adds = node->adds[0],
	};

	switch (plan->way) {
	case BY_MATMUL:
		return lh_cuda_matmul(cuda, &product, err);
	case DEPTHWISE:
		return lh_cuda_depthwise_backward_x(cuda, s, node->out->grad,
						    node->parameter[0]->data, product.c,
						    product.adds, err);
	case BY_LIBRARY:
		break;
	}
	return lh_cuda_convolve_backward_x(cuda, plan->convolution, product.a, product.b, product.c,
					   product.adds, node->workspace, err);
}

int lh_cuda_conv2d_backward(struct lh_device *device, const struct lh_graph_node *node,
			    const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	struct lh_cuda *cuda = lh_cuda_of(device);
	float *db = s->has_bias ? node->parameter[1]->grad : NULL;
	int rc = node->parameter[0]->grad ? backward_w(cuda, node, err) : 0;

	(void)pass;
	if (rc == 0 && db)
		rc = lh_cuda_add_bias_backward(cuda, node->out->grad, db, pixels_of(s),
					       s->out_channels, node->workspace, err);
	return rc || !node->in[0]->grad ? rc : backward_x(cuda, node, err);
}
