/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codec `bf16`: the upper half of every IEEE 754 binary32, rounded to nearest even, 2 bytes,
 * little endian: the range of single precision with 8 bits of precision.
 */
#include "trainer/compress/compress.h"
#include "trainer/compress/kernels_internal.h"
#include "trainer/compress/round_internal.h"

enum { BYTES = 2 };

uint16_t lh_bf16_from_float(float value)
{
	return lh_round_to_bf16(value);
}

float lh_bf16_to_float(uint16_t upper)
{
	return lh_bits_float((uint32_t)upper << 16);
}

static uint64_t bf16_wire_bytes(uint64_t n)
{
	return n * BYTES;
}

static void bf16_encode(const float *values, size_t n, void *wire)
{
	lh_kernels()->bf16_encode(values, n, wire);
}

static void bf16_decode(const void *wire, size_t n, float *ret_values)
{
	lh_kernels()->bf16_decode(wire, n, ret_values);
}

const struct lh_codec_ops lh_codec_bf16 = {
	.name = "bf16",
	.doc = "upper half of single precision, 2 bytes per parameter",
	.bytes_per_element = BYTES,
	.wire_bytes = bf16_wire_bytes,
	.encode = bf16_encode,
	.decode = bf16_decode,
	.error_ratio = 0x1p-8,
};
