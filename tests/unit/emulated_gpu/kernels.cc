/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of trainer/device/cuda, compiled for the CPU. */
#include <algorithm>

#include "trainer/device/cuda/attention.cu"
#include "trainer/device/cuda/attention_mma.cu"
#include "trainer/device/cuda/compress.cu"
#include "trainer/device/cuda/depthwise.cu"
#include "trainer/device/cuda/elementwise.cu"
#include "trainer/device/cuda/embedding.cu"
#include "trainer/device/cuda/fields.cu"
#include "trainer/device/cuda/layer_norm.cu"
#include "trainer/device/cuda/loss.cu"
#include "trainer/device/cuda/mstopk.cu"
#include "trainer/device/cuda/norm.cu"
#include "trainer/device/cuda/pool.cu"
#include "trainer/device/cuda/shape.cu"
#include "trainer/device/cuda/update.cu"

/* In place of trainer/device/cuda/sort.cu, which is CUB. */
size_t lh_cuda_sort_bytes(int64_t n)
{
	return 2 * static_cast<size_t>(n) * sizeof(int32_t);
}

int lh_cuda_sort(struct lh_cuda *, const int32_t *keys, int64_t n, void *workspace,
		 const int32_t **ret_keys, const int32_t **ret_positions, struct lh_error *)
{
	int32_t *sorted = static_cast<int32_t *>(workspace), *positions = sorted + n;

	for (int64_t i = 0; i < n; i++)
		positions[i] = static_cast<int32_t>(i);
	std::stable_sort(positions, positions + n,
			 [keys](int32_t a, int32_t b) { return keys[a] < keys[b]; });
	for (int64_t i = 0; i < n; i++)
		sorted[i] = keys[positions[i]];
	*ret_keys = sorted;
	*ret_positions = positions;
	return 0;
}
