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

#endif
