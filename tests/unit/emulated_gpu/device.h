/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device with its kernels run on the CPU, for tests alone: it is no device of the program.
 * In place of cuBLAS stands a plain product in double, in place of cuDNN the reference device.
 */
#ifndef LH_TESTS_EMULATED_GPU_H
#define LH_TESTS_EMULATED_GPU_H

#include "cuda_runtime_api.h" /* the stand-in, with enum lh_emulated_order */
#include "trainer/device/device.h"

extern const struct lh_device_ops lh_device_emulated_gpu;

#endif
