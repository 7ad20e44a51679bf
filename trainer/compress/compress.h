/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressors: how numbers look on the wire. One file each; the table below is the only
 * list, and feeds the job reader, the help and the scenario schema's enum.
 */
#ifndef LH_TRAINER_COMPRESS_H
#define LH_TRAINER_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

struct lh_compress_ops {
	const char *name;
	const char *doc;	    /* one line */
	uint32_t bytes_per_element; /* on the wire */
	/* Writes n elements to wire (n x bytes_per_element bytes, any alignment), little endian. */
	void (*encode)(const float *values, size_t n, void *wire);
	void (*decode)(const void *wire, size_t n, float *ret_values);
};

extern const struct lh_compress_ops lh_compress_fp16;
extern const struct lh_compress_ops lh_compress_none;

/* All compressors, the default first, NULL at the end. */
extern const struct lh_compress_ops *const lh_compressors[];

/* The compressor of that name, or NULL. */
const struct lh_compress_ops *lh_compress_find(const char *name);

/* IEEE 754 binary16 from binary32: round to nearest even, overflow to infinity, NaN stays
 * NaN (quiet, payload's upper bits kept). */
uint16_t lh_fp16_from_float(float value);

/* The exact value of a binary16. */
float lh_fp16_to_float(uint16_t half);

#endif
