/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of the CUDA device. See cuda.h. */
#include "trainer/device/cuda/cuda.h"

#define KERNEL(name)                                                                       \
	{                                                                                  \
		.forward = lh_cuda_##name##_forward, .backward = lh_cuda_##name##_backward \
	}
#define PREPARED(name)                                                                    \
	{                                                                                 \
		.prepare = lh_cuda_##name##_prepare, .forward = lh_cuda_##name##_forward, \
		.backward = lh_cuda_##name##_backward                                     \
	}

static const struct lh_kernel kernels[LH_N_LAYERS] = {
	[LH_CONV2D] = {.prepare = lh_cuda_conv2d_prepare,
		       .forward = lh_cuda_conv2d_forward,
		       .backward = lh_cuda_conv2d_backward,
		       .done = lh_cuda_conv2d_done},
	[LH_LINEAR] = PREPARED(linear),
	[LH_BATCH_NORM] = PREPARED(batch_norm),
	[LH_LAYER_NORM] = PREPARED(layer_norm),
	[LH_ACTIVATE] = KERNEL(activate),
	[LH_ADD] = PREPARED(add),
	[LH_SCALE] = PREPARED(scale),
	[LH_DROPOUT] = KERNEL(dropout),
	[LH_POOL] = KERNEL(pool),
	[LH_SHORTCUT] = KERNEL(shortcut),
	[LH_EMBEDDING] = PREPARED(embedding),
	[LH_FIELD_EMBEDDING] = PREPARED(field_embedding),
	[LH_ATTENTION] = PREPARED(attention),
	[LH_CONCAT] = KERNEL(concat),
	[LH_FACTORIZATION] = KERNEL(factorization),
	[LH_CROSS_ENTROPY] = PREPARED(cross_entropy),
	[LH_BINARY_CROSS_ENTROPY] = PREPARED(binary_cross_entropy),
};

const struct lh_kernel *lh_cuda_kernel(enum lh_layer layer)
{
	return kernels[layer].forward ? &kernels[layer] : NULL;
}
