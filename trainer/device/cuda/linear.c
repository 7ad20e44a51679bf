/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers of the CUDA device: matrix products and biases. See cuda.h and layers.h. */
#include "trainer/device/cuda/cuda.h"

int lh_cuda_linear_prepare(struct lh_device *device, struct lh_graph_node *node,
			   struct lh_error *err)
{
	const struct lh_linear *s = node->spec;

	(void)err;
	if (s->has_bias)
		node->workspace_bytes =
			lh_cuda_bias_bytes(lh_cuda_of(device), s->rows, s->out_features);
	return 0;
}

int lh_cuda_linear_forward(struct lh_device *device, const struct lh_graph_node *node,
			   const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_linear *s = node->spec;
	const struct lh_cuda_matmul product = {
		.a = node->in[0]->data,
		.b = lh_cuda_weight(node->parameter[0]),
		.c = node->out->data,
		.in = device->compute,
		.out = device->compute,
		.m = s->rows,
		.n = s->out_features,
		.k = s->in_features,
		.transposes_b = true,
	};
	int rc = lh_cuda_matmul(lh_cuda_of(device), &product, err);

	(void)pass;
	if (rc || !s->has_bias)
		return rc;
	return lh_cuda_add_bias(lh_cuda_of(device), node->out->data, node->parameter[1]->data,
				s->rows, s->out_features, err);
}

/* dw [O, I] += dy^T x; db += sums of dy. */
static int backward_parameters(struct lh_cuda *cuda, const struct lh_graph_node *node,
			       struct lh_error *err)
{
	const struct lh_linear *s = node->spec;
	const struct lh_cuda_matmul product = {
		.a = node->out->grad,
		.b = node->in[0]->data,
		.c = node->parameter[0]->grad,
		.in = cuda->device.compute,
		.out = LH_F32,
		.m = s->out_features,
		.n = s->in_features,
		.k = s->rows,
		.transposes_a = true,
		.adds = true,
	};
	int rc = product.c ? lh_cuda_matmul(cuda, &product, err) : 0;

	if (rc || !s->has_bias || !node->parameter[1]->grad)
		return rc;
	return lh_cuda_add_bias_backward(cuda, node->out->grad, node->parameter[1]->grad, s->rows,
					 s->out_features, node->workspace, err);
}

int lh_cuda_linear_backward(struct lh_device *device, const struct lh_graph_node *node,
			    const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_linear *s = node->spec;
	const struct lh_cuda_matmul product = {
		.a = node->out->grad,
		.b = lh_cuda_weight(node->parameter[0]),
		.c = node->in[0]->grad,
		.in = device->compute,
		.out = device->compute,
		.m = s->rows,
		.n = s->in_features,
		.k = s->out_features,
		.adds = node->adds[0],
	};
	int rc = backward_parameters(lh_cuda_of(device), node, err);

	(void)pass;
	if (rc || !product.c)
		return rc;
	return lh_cuda_matmul(lh_cuda_of(device), &product, err);
}
