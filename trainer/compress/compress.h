/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs: forms of single numbers on the wire, applied at every hop of a dense collective. One
 * file each; the table below is the only list, and feeds the job reader, the help and the scenario
 * schema's enum. Sparse messages are in sparse.h, low rank in low_rank.h.
 *
 * What is encoded depends on the values alone, not on the machine's vector instructions.
 */
#ifndef LH_TRAINER_COMPRESS_H
#define LH_TRAINER_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LH_CODEC_BLOCK = 4096, /* elements that share a scale (blockwise8) or means (onebit) */
	LH_UNIFORM8_BOOK_BYTES = 1024, /* the code book of uniform8: 256 floats */
};

struct lh_codec_ops {
	const char *name;
	const char *doc; /* one line */
	/* On the wire, whatever the number of elements; 0: see wire_bytes. */
	uint32_t bytes_per_element;
	/* Exact bytes of n elements that are encoded together. */
	uint64_t (*wire_bytes)(uint64_t n);
	/* Writes n elements to wire (wire_bytes(n) bytes, any alignment), little endian. Where a
	 * value is no number or infinite, those that share a scale with it may be decoded as NaN;
	 * it never disappears. */
	void (*encode)(const float *values, size_t n, void *wire);
	/* The opposite of encode, of wire_bytes(n) bytes, any of which are accepted. */
	void (*decode)(const void *wire, size_t n, float *ret_values);
	/* Whether training needs the sender to keep value - decoded and to add it to its next
	 * value: the error is not zero on average or larger than the values. */
	bool needs_feedback;
	/* |decoded - value| is at most this many times the largest magnitude among the n values,
	 * where that is from 2^-14 (the least normal fp16) to 65,504 (the largest). */
	double error_ratio;
};

extern const struct lh_codec_ops lh_codec_bf16;
extern const struct lh_codec_ops lh_codec_blockwise8;
extern const struct lh_codec_ops lh_codec_fp16;
extern const struct lh_codec_ops lh_codec_none;
extern const struct lh_codec_ops lh_codec_onebit;
extern const struct lh_codec_ops lh_codec_uniform8;

/* All codecs, the default first, NULL at the end. */
extern const struct lh_codec_ops *const lh_codecs[];

/* The codec of that name, or NULL. */
const struct lh_codec_ops *lh_codec_find(const char *name);

/* IEEE 754 binary16 from binary32: round to nearest even, overflow to infinity, NaN stays
 * NaN (quiet, payload's upper bits kept). */
uint16_t lh_fp16_from_float(float value);

/* The value of a binary16, exact; NaN becomes quiet. */
float lh_fp16_to_float(uint16_t half);

/* The upper half of binary32, rounded to nearest even; NaN stays NaN, and becomes quiet. */
uint16_t lh_bf16_from_float(float value);

/* The value of a bfloat16, exact. */
float lh_bf16_to_float(uint16_t upper);

#endif
