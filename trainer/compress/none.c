/* SPDX-License-Identifier: Apache-2.0 */
/* Codec `none`: every number as IEEE 754 binary32, 4 bytes, little endian. */
#include "trainer/compress/compress.h"
#include "trainer/compress/wire_internal.h"

enum { BYTES = 4 };

static uint64_t none_wire_bytes(uint64_t n)
{
	return n * BYTES;
}

static void none_encode(const float *values, size_t n, void *wire)
{
	unsigned char *out = wire;

	for (size_t i = 0; i < n; i++)
		lh_wire_put_float(out + i * BYTES, values[i]);
}

static void none_decode(const void *wire, size_t n, float *ret_values)
{
	const unsigned char *in = wire;

	for (size_t i = 0; i < n; i++)
		ret_values[i] = lh_wire_get_float(in + i * BYTES);
}

const struct lh_codec_ops lh_codec_none = {
	.name = "none",
	.doc = "single precision, 4 bytes per parameter",
	.bytes_per_element = BYTES,
	.wire_bytes = none_wire_bytes,
	.encode = none_encode,
	.decode = none_decode,
};
