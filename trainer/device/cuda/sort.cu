/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting indexes, through CUB's radix sort, which keeps the order of equal keys. See cuda.h. */
#include <cub/device/device_radix_sort.cuh>

#include "trainer/device/cuda/kernels.cuh"

using namespace lh;

namespace
{

__global__ void count_up(int32_t *positions, int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step())
		positions[i] = static_cast<int32_t>(i);
}

/* Pairs, with NULL as temporary memory: tells in *bytes how much of it is needed. */
cudaError_t sort_pairs(void *temporary, size_t *bytes, const int32_t *keys, int32_t *sorted_keys,
		       const int32_t *positions, int32_t *sorted_positions, int64_t n,
		       cudaStream_t stream)
{
	return cub::DeviceRadixSort::SortPairs(temporary, *bytes, keys, sorted_keys, positions,
					       sorted_positions, static_cast<int>(n), 0,
					       8 * static_cast<int>(sizeof(*keys)), stream);
}

size_t temporary_bytes(int64_t n)
{
	size_t bytes = 0;

	/* Fails only where there is no GPU; then sorting tells. */
	if (sort_pairs(nullptr, &bytes, nullptr, nullptr, nullptr, nullptr, n, nullptr))
		return 0;
	return bytes;
}

} // namespace

extern "C" {

/* Sorted keys, positions, sorted positions, temporary memory. */
size_t lh_cuda_sort_bytes(int64_t n)
{
	return 3 * lh_cuda_align(static_cast<size_t>(n) * sizeof(int32_t)) + temporary_bytes(n);
}

int lh_cuda_sort(struct lh_cuda *cuda, const int32_t *keys, int64_t n, void *workspace,
		 const int32_t **ret_keys, const int32_t **ret_positions, struct lh_error *err)
{
	size_t vector = lh_cuda_align(static_cast<size_t>(n) * sizeof(int32_t));
	char *base = static_cast<char *>(workspace);
	int32_t *sorted_keys = reinterpret_cast<int32_t *>(base);
	int32_t *positions = reinterpret_cast<int32_t *>(base + vector);
	int32_t *sorted_positions = reinterpret_cast<int32_t *>(base + 2 * vector);
	size_t bytes = temporary_bytes(n);
	int rc = launch(cuda, err, "sort", count_up, blocks_for(n), dim3(THREADS), positions, n);

	if (rc)
		return rc;
	rc = lh_cuda_check(sort_pairs(base + 3 * vector, &bytes, keys, sorted_keys, positions,
				      sorted_positions, n, cuda->stream),
			   "sort", err);
	*ret_keys = sorted_keys;
	*ret_positions = sorted_positions;
	return rc;
}

} // extern "C"
