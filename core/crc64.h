/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-64/XZ (ECMA-182, reflected): finds every single flipped bit and every damaged run of up to 64
 * bits, and all else but for one in 2^64. Not for secrets.
 */
#ifndef LH_CORE_CRC64_H
#define LH_CORE_CRC64_H

#include <stddef.h>
#include <stdint.h>

struct lh_crc64 {
	uint64_t state;
	uint64_t table[8][256]; /* eight bytes at a time */
};

/* Of no bytes. */
void lh_crc64_init(struct lh_crc64 *crc);

void lh_crc64_add(struct lh_crc64 *crc, const void *data, size_t size);

/* Of all bytes so far. */
uint64_t lh_crc64_value(const struct lh_crc64 *crc);

#endif
