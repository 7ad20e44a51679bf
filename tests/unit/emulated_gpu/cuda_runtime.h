/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for CUDA's header of that name in the test that runs kernels on the CPU. A launch runs
 * the grid at once, block after block; the threads of a block are fibers that change at barriers
 * and shuffles. Shared memory is static memory. A barrier that not all threads of the block (or of
 * the warp) reach ends the test, and so does a shuffle of less than a whole warp.
 *
 * Not emulated: the memory model. Threads run one at a time, in one of the orders of enum
 * lh_emulated_order, so results that differ between orders tell of a missing barrier.
 */
#ifndef LH_TESTS_CUDA_RUNTIME_H
#define LH_TESTS_CUDA_RUNTIME_H

#include <math.h>

#include <cstdint>
#include <cstring>
#include <functional>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
	unsigned int x, y, z;

	dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_)
	{
	}
};

extern dim3 gridDim, blockDim, blockIdx, threadIdx;

/* Runs thread for every thread of the grid. */
void lh_emulated_run(dim3 grid, dim3 block, const std::function<void()> &thread);

/* Waits for the whole block, or warp. */
void __syncthreads();
void __syncwarp();

/* Gives a value to the warp and takes that of another lane. */
uint64_t lh_emulated_exchange(uint64_t mine, unsigned int lane);
unsigned int lh_emulated_lane();

template <typename T> T __shfl_xor_sync(unsigned int mask, T x, int lane)
{
	uint64_t bits = 0;

	static_assert(sizeof(T) <= sizeof(bits), "shuffles are of up to 8 bytes");
	if (mask != 0xffffffffu)
		__builtin_trap();
	memcpy(&bits, &x, sizeof(x));
	bits = lh_emulated_exchange(bits, lh_emulated_lane() ^ static_cast<unsigned int>(lane));
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* Never fused with what follows; neither is anything else, for a machine without such instructions. */
inline float __fmul_rn(float a, float b)
{
	return a * b;
}

inline float __fadd_rn(float a, float b)
{
	return a + b;
}

inline unsigned int atomicCAS(unsigned int *at, unsigned int expected, unsigned int value)
{
	unsigned int old = *at;

	if (old == expected)
		*at = value;
	return old;
}

struct cudaLaunchConfig_t {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	cudaStream_t stream;
};

/* Refuses what a GPU refuses. */
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
			       Arguments... arguments)
{
	dim3 grid = config->gridDim, block = config->blockDim;

	if (grid.x < 1 || grid.x > 0x7fffffffu || grid.y < 1 || grid.y > 65535 || grid.z < 1 ||
	    grid.z > 65535 || block.x * block.y * block.z < 1 || block.x * block.y * block.z > 1024)
		return cudaErrorInvalidConfiguration;
	lh_emulated_run(grid, block, [&] { kernel(arguments...); });
	return cudaSuccess;
}

#endif
