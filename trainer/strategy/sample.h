/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real numbers of a replayed averaging: a slice at the begin of every shard carries
 * seeded gradients, so that every rank can work out what everyone's average must be.
 */
#ifndef LH_TRAINER_SAMPLE_H
#define LH_TRAINER_SAMPLE_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/compress/compress.h"
#include "trainer/job.h"

/* The slices of all shards, one after another in a "sample" vector. */
struct lh_sample_layout {
	uint32_t n;			     /* shards */
	uint32_t at[LH_JOB_RANKS_MAX];	     /* where a shard's slice begins, in elements */
	uint32_t elements[LH_JOB_RANKS_MAX]; /* of the slice */
	uint32_t total;
	uint32_t longest;
};

/* Slices of at most 4096 elements, shorter with many ranks: all together at most 32,768 (but
 * at least 64 a slice), and never longer than the shard. */
void lh_sample_layout_init(struct lh_sample_layout *layout, uint64_t parameters, uint32_t n);

/* Every shard as a whole, where all numbers are real ones; parameters < 2^32. */
void lh_sample_layout_init_whole(struct lh_sample_layout *layout, uint64_t parameters, uint32_t n);

/* Draws rank's gradients of an epoch: uniform in [-1/64, 1/64), stream
 * "gradient/<rank>/<epoch>". ret_values has layout->total elements. */
void lh_sample_draw(const struct lh_sample_layout *layout, uint64_t seed, uint32_t rank,
		    uint32_t epoch, float *ret_values);

/* sum[i] += weight x values[i], in single precision; the one place that reduces, so that
 * order and rounding are the same everywhere. */
void lh_sample_add(float *sum, const float *values, uint32_t n, uint64_t weight);

/* sum[i] /= weights' sum. */
void lh_sample_divide(float *sum, uint32_t n, uint64_t weight);

/* Compares a shard's averages with what they must be, bit by bit; both as on the wire. LH_ERUN with
 * the first that differs. */
int lh_sample_check(const struct lh_sample_layout *layout, const struct lh_codec_ops *compress,
		    uint32_t epoch, uint32_t shard, const uint8_t *got, const uint8_t *expected,
		    struct lh_error *err);

#endif
