/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of a rank that steps by itself: of every target batch it computes a share that follows
 * from the job alone, and takes a step of its optimizer with its own gradient. How weights come
 * together again is the strategy's (local.c, diloco.c, d_psgd.c, ad_psgd.c). One thread.
 */
#ifndef LH_TRAINER_STEPS_H
#define LH_TRAINER_STEPS_H

#include "core/error.h"
#include "trainer/progress.h"
#include "trainer/rank.h"
#include "trainer/strategy/averaging.h"

struct lh_steps {
	struct lh_rank *rank;	     /* borrowed */
	struct lh_progress progress; /* where the shares come from */
	uint64_t *samples;	     /* by rank, of the epoch */
	uint64_t total;		     /* of all ranks in it */
	int64_t compute_end_ns;
	/* What runs beside computing has failed, or 0; asked after every micro-batch. NULL: nothing
	 * does. */
	int (*check)(void *checked, struct lh_error *err);
	void *checked;
	/* In place of the optimizer's step alone; NULL: that. */
	int (*apply)(void *applied, struct lh_error *err);
	void *applied;
};

/* Given to lh_steps_done also where it fails. LH_ESYS. */
int lh_steps_init(struct lh_steps *ret_steps, struct lh_rank *rank, struct lh_error *err);

void lh_steps_done(struct lh_steps *steps);

/* Works out the samples of an epoch, which begins where the last one ended. */
void lh_steps_begin(struct lh_steps *steps, uint32_t epoch);

/* Computes this rank's share, takes its mean gradient, and writes `compute`. Errors as computing,
 * or check's. */
int lh_steps_compute(struct lh_steps *steps, struct lh_error *err);

/* The optimizer's step with that gradient, in the time that it takes; writes `apply`. Nothing where
 * the rank's share is empty. */
int lh_steps_apply(struct lh_steps *steps, struct lh_error *err);

/* Writes the end of the epoch. */
int lh_steps_end(struct lh_steps *steps, struct lh_error *err);

/* Marks in wanted, by rank, the peers that averaging n_values numbers takes. */
int lh_steps_want(const struct lh_rank *rank, const struct lh_averaging_ops *averaging,
		  uint64_t n_values, uint8_t *wanted, struct lh_error *err);

#endif
