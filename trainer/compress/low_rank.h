/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PowerSGD: gradients of matrices as products of two thin ones, with error feedback. One step of
 * all ranks is
 *
 *   project       M = gradient + error, P = M Q
 *   (all ranks average P)
 *   back_project  P's columns are made orthonormal, Q = M^T P
 *   (all ranks average Q)
 *   reconstruct   gradient' = P Q^T, error = M - gradient'
 *
 * and Q begins the next step. All ranks get the same gradient' if they got the same averages;
 * their Q before a step may differ, as after a late join, at the cost of precision alone.
 * Tensors that gain too little travel as they are, beside P. A step that ends before reconstruct
 * leaves its gradient in the error, but for those tensors: theirs is lost.
 * Not thread-safe; ranks have one each.
 *
 * Source: Vogels, Karimireddy, Jaggi, arXiv 1905.13727, algorithms 1 and 2; which error is kept and
 * which tensors are left alone: the authors' implementation, epfml/powersgd.
 */
#ifndef LH_TRAINER_LOW_RANK_H
#define LH_TRAINER_LOW_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum {
	LH_LOW_RANK_MAX = 64,
	LH_LOW_RANK_TENSORS_MAX = 65536,
	LH_LOW_RANK_ELEMENTS_MAX = 0x7fffffff, /* of all tensors */
};

/* A tensor as a matrix, row by row: its first dimension, and the product of the others. */
struct lh_matrix_shape {
	uint32_t rows, columns; /* from 1; a vector has one column */
};

struct lh_low_rank_settings {
	const struct lh_matrix_shape *tensors; /* in the gradient's order */
	size_t n_tensors;		       /* 1 to LH_LOW_RANK_TENSORS_MAX */
	uint32_t rank; /* 1 to LH_LOW_RANK_MAX; of a matrix never more than its sides */
	/* Matrices with rows x columns / (rank x (rows + columns)) above it are compressed; from 0;
	 * 2 in the authors' implementation. */
	double min_compression_ratio;
	uint64_t seed; /* of the first Q; the same on all ranks */
	bool forgets;  /* the error is lost, not added to the next gradient */
};

struct lh_low_rank;

/* A vector that all ranks average; belongs to the lh_low_rank. */
struct lh_low_rank_part {
	float *values;
	uint64_t n;
};

/* LH_EINPUT where settings are out of their ranges, LH_ESYS without memory. ret is the caller's to
 * free. */
int lh_low_rank_new(const struct lh_low_rank_settings *settings, struct lh_low_rank **ret,
		    struct lh_error *err);

void lh_low_rank_free(struct lh_low_rank *lr);

/* Elements of a gradient: of all tensors, one after the other. */
uint64_t lh_low_rank_elements(const struct lh_low_rank *lr);

/* P of all compressed matrices, column by column, then the tensors that are not compressed. Set by
 * project, averaged by the caller. */
struct lh_low_rank_part lh_low_rank_p(struct lh_low_rank *lr);

/* Q of all compressed matrices, column by column. Set by back_project, averaged by the caller; a
 * rank that joins late may copy another's. */
struct lh_low_rank_part lh_low_rank_q(struct lh_low_rank *lr);

void lh_low_rank_project(struct lh_low_rank *lr, const float *gradient);
void lh_low_rank_back_project(struct lh_low_rank *lr);
/* ret_gradient may be project's gradient. */
void lh_low_rank_reconstruct(struct lh_low_rank *lr, float *ret_gradient);

/* What the next step adds to its gradient, lh_low_rank_elements numbers; after project M itself.
 * Zero for tensors that are not compressed. Belongs to lr. */
const float *lh_low_rank_error(const struct lh_low_rank *lr);

#endif
