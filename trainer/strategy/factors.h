/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averaging of gradients as products of two thin matrices (PowerSGD): the job's collective averages
 * P, which each rank then makes orthonormal alike, and Q. What both leave out each rank adds to its
 * next gradient. Matrices that a rank of r would not make at least twice as small, and vectors,
 * travel whole beside P. Single precision.
 *
 * Replayed gradients have no matrices: vectors as long as P and Q are averaged as in dense.h.
 *
 * Source: see trainer/compress/low_rank.h.
 */
#ifndef LH_TRAINER_FACTORS_H
#define LH_TRAINER_FACTORS_H

#include "trainer/strategy/averaging.h"

extern const struct lh_averaging_ops lh_averaging_factors;

#endif
