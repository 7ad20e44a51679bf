/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that indexes point into: sums of what their rows get, and indexes outside. */
#ifndef LH_TRAINER_CUDA_TABLES_CUH
#define LH_TRAINER_CUDA_TABLES_CUH

#include "trainer/device/cuda/kernels.cuh"

namespace lh
{

/* A block for each sorted place; those where a row of the table begins add up all that the row
 * gets, in the order of positions. f(position): where the c numbers for it lie. Threads over
 * channels in x, over what is added up in y. */
constexpr int CHANNELS = WARP, MEMBERS = THREADS / WARP;

template <typename F>
__global__ void add_to_table(F f, int64_t n, int64_t n_rows, int64_t c, const int32_t *rows,
			     const int32_t *positions, float *dw)
{
	__shared__ float shared[MEMBERS][CHANNELS];
	int64_t begin = blockIdx.x, end = begin + 1;
	int32_t row = rows[begin];

	if ((begin > 0 && rows[begin - 1] == row) || row < 0 || row >= n_rows)
		return;
	for (int64_t past = n; end < past;) {
		int64_t middle = end + (past - end) / 2;

		if (rows[middle] == row)
			end = middle + 1;
		else
			past = middle;
	}
	for (int64_t c0 = 0; c0 < c; c0 += CHANNELS) {
		int64_t channel = c0 + threadIdx.x;
		float sum = 0;

		for (int64_t i = begin + threadIdx.y; channel < c && i < end; i += MEMBERS)
			sum += to_float(f(positions[i])[channel]);
		shared[threadIdx.y][threadIdx.x] = sum;
		__syncthreads();
		if (threadIdx.y == 0 && channel < c) {
			for (int i = 1; i < MEMBERS; i++)
				sum += shared[i][threadIdx.x];
			dw[row * c + channel] += sum;
		}
		__syncthreads();
	}
}

__device__ inline void tell_fault(struct lh_cuda_fault *fault, uint32_t position, int32_t value,
				  int64_t at, int64_t n)
{
	if (atomicCAS(&fault->is_set, 0u, 1u) != 0)
		return;
	fault->position = position;
	fault->value = value;
	fault->at = at;
	fault->n = n;
}

} // namespace lh

#endif
