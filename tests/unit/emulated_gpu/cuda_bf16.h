/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for CUDA's header of that name: the upper half of a float, rounded to nearest even. */
#ifndef LH_TESTS_CUDA_BF16_H
#define LH_TESTS_CUDA_BF16_H

#include <cmath>
#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
	uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x)
{
	uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

inline __nv_bfloat16 __float2bfloat16(float x)
{
	uint32_t bits;

	if (std::isnan(x))
		return {0x7fff};
	memcpy(&bits, &x, sizeof(bits));
	return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

#endif
