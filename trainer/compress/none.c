/* SPDX-License-Identifier: Apache-2.0 */
/* Compressor `none`: every number as IEEE 754 binary32, 4 bytes, little endian. */
#include <endian.h>
#include <string.h>

#include "trainer/compress/compress.h"

static void none_encode(const float *values, size_t n, void *wire)
{
	unsigned char *out = wire;

	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &values[i], sizeof(bits));
		bits = htole32(bits);
		memcpy(out + i * sizeof(bits), &bits, sizeof(bits));
	}
}

static void none_decode(const void *wire, size_t n, float *ret_values)
{
	const unsigned char *in = wire;

	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, in + i * sizeof(bits), sizeof(bits));
		bits = le32toh(bits);
		memcpy(&ret_values[i], &bits, sizeof(bits));
	}
}

const struct lh_compress_ops lh_compress_none = {
	.name = "none",
	.doc = "single precision, 4 bytes per parameter",
	.bytes_per_element = 4,
	.encode = none_encode,
	.decode = none_decode,
};
