/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An all-reduce in its two halves, all to all and directly: after the first each member has the
 * mean of its share, does with it what its strategy does, and the second brings all shares
 * together.
 */
#ifndef LH_TRAINER_HALVES_H
#define LH_TRAINER_HALVES_H

#include "trainer/collective/run.h"
#include "trainer/rank.h"

struct lh_halves_config {
	const struct lh_rank *rank; /* borrowed; its communicator has all members */
	const uint32_t *members;    /* borrowed; NULL: all ranks */
	uint32_t n_members;
	uint64_t elements;	 /* of the vector */
	uint64_t slice_elements; /* see run.h */
	const struct lh_codec_ops *codec;
};

/* All zeros is closed. It must not move. */
struct lh_halves {
	struct lh_collective_plan plans[2];
	struct lh_collective_run *runs[2];
	const struct lh_collective_slices *slices; /* of both, a chunk for each member's share */
};

/* On failure what there is, is given to lh_halves_close, too. LH_EINPUT, LH_ESYS. */
int lh_halves_open(const struct lh_halves_config *config, struct lh_halves *halves,
		   struct lh_error *err);

void lh_halves_close(struct lh_halves *halves);

/* The first half: values in the slices' order; of them the own share becomes the mean, not encoded.
 * The bytes and times are added to done, whose group_samples all members must have alike. LH_ERUN.
 */
int lh_halves_scatter(struct lh_halves *halves, uint32_t epoch, float *values,
		      struct lh_average *done, struct lh_error *err);

/* After the first half: a member's share as it was sent to it. */
const void *lh_halves_sent(const struct lh_halves *halves, uint32_t member);

/* The second: all shares become what their members have, encoded and decoded, the same everywhere.
 */
int lh_halves_gather(struct lh_halves *halves, uint32_t epoch, float *values,
		     struct lh_average *done, struct lh_error *err);

#endif
