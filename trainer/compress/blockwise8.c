/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codec `blockwise8`: for each block of 4,096 elements (the last may be shorter) the largest
 * magnitude as a float, then a byte for every element: its ratio to the largest in a map that is
 * finer near zero. Of the map's 256 values seven decades below 1 have 1, 2, 4 ... 64 each side of
 * zero, in the middle of equal steps; the last two are 0 and 1. -1 becomes -0.9930.
 *
 * A byte's upper bit is the sign, the rest the value's place by magnitude, from 1; 0x00 is 0 and
 * 0x80 is 1. A block with a NaN or an infinity is decoded as NaN.
 *
 * Source: Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (ICLR 2022): the dynamic
 * tree map; the order of its codes is our own.
 */
#include <math.h>

#include "trainer/compress/compress.h"
#include "trainer/compress/kernels_internal.h"
#include "trainer/compress/round_internal.h"
#include "trainer/compress/wire_internal.h"

enum { SCALE_BYTES = 4, CODES = 256, NEGATIVE = 0x80 };

static uint64_t blockwise8_wire_bytes(uint64_t n)
{
	return n + SCALE_BYTES * (n / LH_CODEC_BLOCK + (n % LH_CODEC_BLOCK != 0));
}

static void blockwise8_encode(const float *values, size_t n, void *wire)
{
	const struct lh_kernels *k = lh_kernels();
	unsigned char *out = wire;

	for (size_t i = 0; i < n; i += LH_CODEC_BLOCK) {
		size_t m = n - i < LH_CODEC_BLOCK ? n - i : LH_CODEC_BLOCK;
		uint32_t bits = k->largest_bits(values + i, m);

		lh_wire_put32(out, bits);
		k->blockwise8_encode(values + i, m, bits ? lh_bits_float(bits) : 1,
				     out + SCALE_BYTES);
		out += SCALE_BYTES + m;
	}
}

static void fill_map(float ret_map[static CODES])
{
	float top = 1;

	ret_map[0] = 0;
	ret_map[NEGATIVE] = 1;
	for (int first = 1 << (LH_BLOCKWISE8_DECADES - 1); first; first /= 2, top /= 10)
		for (int i = 0; i < first; i++) {
			float step = 0.9f / (float)first;
			float value = top * (0.1f + step * ((float)i + 0.5f));

			ret_map[first + i] = value;
			ret_map[(first + i) | NEGATIVE] = -value;
		}
}

static void blockwise8_decode(const void *wire, size_t n, float *ret_values)
{
	const unsigned char *in = wire;
	float map[CODES];

	fill_map(map);
	for (size_t i = 0; i < n; i += LH_CODEC_BLOCK) {
		size_t m = n - i < LH_CODEC_BLOCK ? n - i : LH_CODEC_BLOCK;
		float largest = lh_wire_get_float(in);

		if (!isfinite(largest))
			largest = NAN;
		for (size_t e = 0; e < m; e++)
			ret_values[i + e] = map[in[SCALE_BYTES + e]] * largest;
		in += SCALE_BYTES + m;
	}
}

const struct lh_codec_ops lh_codec_blockwise8 = {
	.name = "blockwise8",
	.doc = "a byte per parameter on a scale that is finer near zero, and 4 bytes per 4,096",
	.wire_bytes = blockwise8_wire_bytes,
	.encode = blockwise8_encode,
	.decode = blockwise8_decode,
	.error_ratio = 0.00704, /* half a step of the upper decade, 0.45 / 64, and rounding */
};
