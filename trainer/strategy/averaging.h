/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averaging: how ranks come to the mean of what each has computed. One file each; a strategy names
 * the one that it uses (strategy.h). When to average is not theirs.
 */
#ifndef LH_TRAINER_AVERAGING_H
#define LH_TRAINER_AVERAGING_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/rank.h"

struct lh_device;

/* What is averaged: a vector of n numbers, which must stay where it is. values NULL: it is
 * replayed, see sample.h. */
struct lh_averaged {
	uint64_t n;
	float *values;		  /* on the host */
	struct lh_device *device; /* that they came from; NULL: replayed */
	int64_t patience_ns;	  /* with one averaging; 0: without end */
};

struct lh_averaging_ops {
	const char *name;
	/* By rank, whether this one exchanges data with it; alike at both ends. NULL: with all. */
	int (*peers)(const struct lh_rank *rank, uint64_t n_values, bool *ret_wanted,
		     struct lh_error *err);
	/* Starts with connected ranks, at least two; rank and the values are borrowed until close.
	 */
	int (*open)(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
		    struct lh_error *err);
	/*
	 * Averages once, blocking; samples by rank are the weights, their sum at least 1. Each
	 * rank's values become the weighted mean of all ranks', the same bits at every rank: what
	 * a rank owns goes through the compressor, too.
	 */
	int (*average)(void *state, uint32_t epoch, const uint64_t *samples,
		       struct lh_average *ret_average, struct lh_error *err);
	/* The same while a backward pass lasts from begin_ns to end_ns, in which the values become
	 * final, the last ones first; not done before its end. NULL: only afterwards. */
	int (*average_beside)(void *state, uint32_t epoch, const uint64_t *samples,
			      int64_t begin_ns, int64_t end_ns, struct lh_average *ret_average,
			      struct lh_error *err);
	/* NULL is fine. Ends what is under way. */
	void (*close)(void *state);
};

extern const struct lh_averaging_ops lh_averaging_dense;    /* see dense.h */
extern const struct lh_averaging_ops lh_averaging_bucketed; /* dense, part by part */
extern const struct lh_averaging_ops lh_averaging_nccl;	    /* ring, by the transport nccl */

#endif
