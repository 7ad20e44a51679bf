/* SPDX-License-Identifier: Apache-2.0 */
/* Single numbers in 16 bits, for loops that compilers turn into vectors: no branches that matter.
 */
#ifndef LH_TRAINER_COMPRESS_ROUND_INTERNAL_H
#define LH_TRAINER_COMPRESS_ROUND_INTERNAL_H

#include <stdint.h>
#include <string.h>

enum {
	LH_MAGNITUDE = 0x7fffffff, /* all bits of a float but its sign */
	LH_FLOAT_INFINITY = 0x7f800000,
};

static inline uint32_t lh_float_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float lh_bits_float(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* To IEEE 754 binary16. Numbers below the least normal one are rounded by the sum with 0.5, whose
 * last place is 2^-24; the others by adding half of what falls away. */
static inline uint16_t lh_round_to_half(float value)
{
	const uint32_t too_large = 0x47800000; /* 65,536 */
	const uint32_t least_normal = 0x38800000;
	uint32_t bits = lh_float_bits(value), size = bits & LH_MAGNITUDE;
	uint32_t small = lh_float_bits(lh_bits_float(size) + 0.5f) - 0x3f000000;
	uint32_t normal = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
	uint32_t nan = 0x7e00 | (size >> 13 & 0x3ff);
	uint32_t half = size < least_normal ? small : normal;

	half = size >= too_large ? 0x7c00 : half;
	half = size > LH_FLOAT_INFINITY ? nan : half;
	return (uint16_t)(half | (bits >> 16 & 0x8000));
}

/* From IEEE 754 binary16; NaN becomes quiet. */
static inline float lh_widen_half(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7fff;
	uint32_t small = lh_float_bits((float)(int32_t)size * 0x1p-24f);
	uint32_t bits = (size << 13) + 0x38000000;

	bits = size < 0x400 ? small : bits;
	bits = size >= 0x7c00 ? (size << 13) | LH_FLOAT_INFINITY : bits;
	bits |= size > 0x7c00 ? 0x400000 : 0;
	return lh_bits_float(sign | bits);
}

/* To the upper half of binary32. */
static inline uint16_t lh_round_to_bf16(float value)
{
	uint32_t bits = lh_float_bits(value);
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	uint32_t nan = bits >> 16 | 0x40;

	return (uint16_t)((bits & LH_MAGNITUDE) > LH_FLOAT_INFINITY ? nan : rounded);
}

#endif
