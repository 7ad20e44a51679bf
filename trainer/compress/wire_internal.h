/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian words at any address. */
#ifndef LH_TRAINER_COMPRESS_WIRE_INTERNAL_H
#define LH_TRAINER_COMPRESS_WIRE_INTERNAL_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void lh_wire_put32(void *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static inline uint32_t lh_wire_get32(const void *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static inline void lh_wire_put_float(void *at, float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	lh_wire_put32(at, bits);
}

static inline float lh_wire_get_float(const void *at)
{
	uint32_t bits = lh_wire_get32(at);
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

#endif
