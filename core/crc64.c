/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-64/XZ. See crc64.h. Source: ECMA-182, annex B; eight tables as in Kounavis, Berry 2008. */
#include "core/crc64.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read from bytes");

static const uint64_t POLYNOMIAL = 0xc96c5795d7870f42; /* reflected */

void lh_crc64_init(struct lh_crc64 *crc)
{
	crc->state = ~UINT64_C(0);
	for (uint64_t i = 0; i < 256; i++) {
		uint64_t value = i;

		for (int bit = 0; bit < 8; bit++)
			value = value & 1 ? value >> 1 ^ POLYNOMIAL : value >> 1;
		crc->table[0][i] = value;
	}
	for (int k = 1; k < 8; k++)
		for (int i = 0; i < 256; i++) {
			uint64_t before = crc->table[k - 1][i];

			crc->table[k][i] = before >> 8 ^ crc->table[0][before & 0xff];
		}
}

void lh_crc64_add(struct lh_crc64 *crc, const void *data, size_t size)
{
	const uint8_t *at = data;
	uint64_t state = crc->state;

	for (; size >= 8; size -= 8, at += 8) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		word ^= state;
		state = 0;
		for (int k = 0; k < 8; k++)
			state ^= crc->table[7 - k][word >> 8 * k & 0xff];
	}
	while (size--)
		state = state >> 8 ^ crc->table[0][(state ^ *at++) & 0xff];
	crc->state = state;
}

uint64_t lh_crc64_value(const struct lh_crc64 *crc)
{
	return ~crc->state;
}
