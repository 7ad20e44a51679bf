/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for CUDA's header of that name in the test that runs kernels on the CPU: the few names
 * that trainer/device/cuda uses, for C and C++. */
#ifndef LH_TESTS_CUDA_RUNTIME_API_H
#define LH_TESTS_CUDA_RUNTIME_API_H

#include <stddef.h>

typedef int cudaError_t;
typedef void *cudaStream_t;
typedef void *cudaEvent_t;

enum { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9 };

/*
 * The order in which threads run between barriers: ascending or descending, one after the other
 * until each has come to a barrier or shuffle; or each warp, the last one first, as far as a
 * barrier of the block.
 */
enum lh_emulated_order { LH_ASCENDING, LH_DESCENDING, LH_WARP_BY_WARP };

#ifdef __cplusplus
extern "C" {
#endif
extern enum lh_emulated_order lh_emulated_order;
#ifdef __cplusplus
}
#endif

#endif
