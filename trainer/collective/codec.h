/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives need of a compressor: numbers to bytes and back, a chunk at a time. */
#ifndef LH_TRAINER_COLLECTIVE_CODEC_H
#define LH_TRAINER_COLLECTIVE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/compress/compress.h"

/* Bytes of n elements on the wire. */
static inline uint64_t lh_collective_wire_bytes(const struct lh_compress_ops *codec, uint64_t n)
{
	return n * codec->bytes_per_element;
}

#endif
