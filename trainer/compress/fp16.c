/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codec `fp16`: every number as IEEE 754 binary16, 2 bytes, little endian. Values are not scaled:
 * magnitudes beyond 65,504 become infinite.
 */
#include "trainer/compress/compress.h"
#include "trainer/compress/kernels_internal.h"
#include "trainer/compress/round_internal.h"

enum { BYTES = 2 };

uint16_t lh_fp16_from_float(float value)
{
	return lh_round_to_half(value);
}

float lh_fp16_to_float(uint16_t half)
{
	return lh_widen_half(half);
}

static uint64_t fp16_wire_bytes(uint64_t n)
{
	return n * BYTES;
}

static void fp16_encode(const float *values, size_t n, void *wire)
{
	lh_kernels()->fp16_encode(values, n, wire);
}

static void fp16_decode(const void *wire, size_t n, float *ret_values)
{
	lh_kernels()->fp16_decode(wire, n, ret_values);
}

const struct lh_codec_ops lh_codec_fp16 = {
	.name = "fp16",
	.doc = "half precision, 2 bytes per parameter",
	.bytes_per_element = BYTES,
	.wire_bytes = fp16_wire_bytes,
	.encode = fp16_encode,
	.decode = fp16_decode,
	.error_ratio = 0x1p-11,
};
