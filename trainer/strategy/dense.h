/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense averaging: the weighted mean of all ranks' vectors by an all-reduce of trainer/collective,
 * made as the job's settings say. Each rank scales its numbers by samples x n / total, the
 * collective sums and divides by n.
 *
 * Where gradients are replayed, only slices (sample.h) are real numbers, and every rank checks all
 * of them against the interpreter, bit by bit. Else all numbers are real, and what has been
 * averaged replaces them.
 */
#ifndef LH_TRAINER_DENSE_H
#define LH_TRAINER_DENSE_H

#include "trainer/collective/plan.h"
#include "trainer/job.h"

/* A collective's form with what it points to. */
struct lh_dense_form {
	struct lh_collective_form form;
	struct lh_collective_level levels[LH_COLLECTIVE_LEVELS_MAX];
	uint32_t dimensions[LH_COLLECTIVE_LEVELS_MAX];
	uint32_t *group_of; /* owned: of the levels */
	double *bandwidths; /* owned */
};

/* The form of a collective between all ranks of the job for n_values numbers. LH_EINPUT where the
 * settings ask for what is not known; LH_ESYS. ret_form must not move; given to
 * lh_dense_form_done. */
int lh_dense_form_init(struct lh_dense_form *ret_form, const struct lh_job *job,
		       const struct lh_collective_ops *ops, uint64_t n_values,
		       struct lh_error *err);

void lh_dense_form_done(struct lh_dense_form *form);

#endif
