/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse averaging: each rank's sparsifier takes from its gradient, scaled by samples x n / total,
 * what it sends; every rank gets all messages and adds them up in the order of ranks, divided by n.
 * What was not sent stays with its rank and counts as of the epoch in which it is.
 *
 * Where gradients are replayed, a slice (sample.h) is real: of a small gradient every rank works
 * out what all sparsifiers send, and checks the sum bit by bit; messages are as long as those of
 * the whole. Choosing takes no time of the run's clock.
 *
 * Source: Lin et al., arXiv 1712.01887 (all-gather of values and indices).
 */
#ifndef LH_TRAINER_SPARSE_STRATEGY_H
#define LH_TRAINER_SPARSE_STRATEGY_H

#include "trainer/strategy/averaging.h"

extern const struct lh_averaging_ops lh_averaging_sparse_allgather;

#endif
