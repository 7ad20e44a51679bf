/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for CUDA's header of that name: IEEE half precision, rounded to nearest even. */
#ifndef LH_TESTS_CUDA_FP16_H
#define LH_TESTS_CUDA_FP16_H

#include <cmath>
#include <cstdint>

struct __half {
	uint16_t bits;
};

inline float __half2float(__half x)
{
	int exponent = x.bits >> 10 & 31, mantissa = x.bits & 1023;
	float value = exponent == 0
			      ? std::ldexp(static_cast<float>(mantissa), -24)
			      : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);

	if (exponent == 31)
		value = mantissa ? NAN : INFINITY;
	return x.bits >> 15 ? -value : value;
}

inline __half __float2half(float x)
{
	uint16_t sign = std::signbit(x) ? 0x8000 : 0;
	float size = std::fabs(x), steps;
	int exponent;

	if (std::isnan(x))
		return {static_cast<uint16_t>(sign | 0x7e00)};
	if (size >= 65520)
		return {static_cast<uint16_t>(sign | 0x7c00)};
	std::frexp(size, &exponent);
	exponent = exponent < -13 ? -13 : exponent;
	/* In units of the last place; 2,048 of them are the next exponent's 1,024. */
	steps = std::nearbyint(std::ldexp(size, 11 - exponent));
	if (steps < 1024)
		return {static_cast<uint16_t>(sign | static_cast<uint16_t>(steps))};
	return {static_cast<uint16_t>(sign | (static_cast<uint16_t>((exponent + 14) << 10) +
					      static_cast<uint16_t>(steps - 1024)))};
}

#endif
