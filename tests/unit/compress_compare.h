/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's compressors against those of trainer/compress. */
#ifndef LH_TESTS_COMPRESS_COMPARE_H
#define LH_TESTS_COMPRESS_COMPARE_H

#include "trainer/device/device.h"

/* Encodes and decodes on ops, a CUDA device or its emulation, and fails the test where a bit is
 * another than the reference's. */
void lh_codecs_compare(const struct lh_device_ops *ops);

/* Chooses by MSTopK on ops, and fails the test where it is not k values in order, with 99 % of the
 * largest squares and none of the largest missing but for a band of 0.1 %. */
void lh_mstopk_compare(const struct lh_device_ops *ops);

#endif
