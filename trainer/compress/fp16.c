/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressor `fp16`: every number as IEEE 754 binary16, 2 bytes, little endian. Values
 * are not scaled: magnitudes beyond 65,504 become infinite.
 */
#include <endian.h>
#include <string.h>

#include "trainer/compress/compress.h"

enum {
	HALF_INFINITY = 0x7c00,
	HALF_QUIET = 0x0200,
	FLOAT_MANTISSA_BITS = 23,
	HALF_MANTISSA_BITS = 10,
	FLOAT_BIAS = 127,
	HALF_BIAS = 15,
};

/* value >> shift, rounded to nearest, ties to even; 1 <= shift <= 31. */
static uint32_t shift_round(uint32_t value, unsigned shift)
{
	uint32_t kept = value >> shift;
	uint32_t rest = value & ((UINT32_C(1) << shift) - 1);
	uint32_t half = UINT32_C(1) << (shift - 1);

	return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t lh_fp16_from_float(float value)
{
	const unsigned drop = FLOAT_MANTISSA_BITS - HALF_MANTISSA_BITS;
	uint32_t bits, sign, mantissa;
	int exponent;

	memcpy(&bits, &value, sizeof(bits));
	sign = bits >> 16 & 0x8000;
	mantissa = bits & 0x7fffff;
	exponent = (int)(bits >> FLOAT_MANTISSA_BITS & 0xff);
	if (exponent == 0xff && mantissa)
		return (uint16_t)(sign | HALF_INFINITY | HALF_QUIET | mantissa >> drop);
	exponent += HALF_BIAS - FLOAT_BIAS;
	if (exponent >= 31)
		return (uint16_t)(sign | HALF_INFINITY);
	if (exponent < -HALF_MANTISSA_BITS)
		return (uint16_t)sign;
	if (exponent <= 0)
		return (uint16_t)(sign | shift_round(mantissa | 0x800000,
						     (unsigned)((int)drop + 1 - exponent)));
	/* A carry out of the mantissa raises the exponent, to infinity where it must. */
	return (uint16_t)(sign |
			  shift_round((uint32_t)exponent << FLOAT_MANTISSA_BITS | mantissa, drop));
}

float lh_fp16_to_float(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t exponent = half >> HALF_MANTISSA_BITS & 0x1f;
	uint32_t mantissa = half & 0x3ff;
	uint32_t bits;
	float value;

	if (exponent == 0) {
		value = (float)mantissa * 0x1p-24f;
		return sign ? -value : value;
	}
	if (exponent == 31)
		bits = sign | 0x7f800000 | mantissa << 13;
	else
		bits = sign | (exponent + FLOAT_BIAS - HALF_BIAS) << FLOAT_MANTISSA_BITS |
		       mantissa << 13;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void fp16_encode(const float *values, size_t n, void *wire)
{
	unsigned char *out = wire;

	for (size_t i = 0; i < n; i++) {
		uint16_t half = htole16(lh_fp16_from_float(values[i]));

		memcpy(out + i * sizeof(half), &half, sizeof(half));
	}
}

static void fp16_decode(const void *wire, size_t n, float *ret_values)
{
	const unsigned char *in = wire;

	for (size_t i = 0; i < n; i++) {
		uint16_t half;

		memcpy(&half, in + i * sizeof(half), sizeof(half));
		ret_values[i] = lh_fp16_to_float(le16toh(half));
	}
}

const struct lh_compress_ops lh_compress_fp16 = {
	.name = "fp16",
	.doc = "half precision, 2 bytes per parameter",
	.bytes_per_element = 2,
	.encode = fp16_encode,
	.decode = fp16_decode,
};
