/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Averaging all to all with error feedback, for codecs that need it: what a rank's numbers lost
 * when they were encoded is added to its next ones, and what a share's mean lost, by its owner, to
 * the next mean.
 *
 *   v = gradient x samples x n / total + e; every share of v but the own is encoded and sent to
 *   its owner; e = v - decoded (own share: 0)
 *   owner: m = mean of v over all ranks + s; m is encoded and sent to all; s = m - decoded
 *
 * Replayed gradients: as in dense.h, with everybody's errors.
 *
 * Source: the compressed all-reduce of Tang et al., "1-bit Adam", arXiv 2102.02888, without its
 * optimizer.
 */
#ifndef LH_TRAINER_FEEDBACK_H
#define LH_TRAINER_FEEDBACK_H

#include "trainer/strategy/averaging.h"

extern const struct lh_averaging_ops lh_averaging_feedback;

#endif
