/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical top-k: in groups of m ranks that are near each other (of one node, or of one site)
 * gradients are averaged whole; across, each rank's share of them in part. An averaging is
 *
 *   1. within the group: reduce-scatter, single precision; each rank has its share's mean
 *   2. its sparsifier adds what it kept of that share, and takes what it sends
 *   3. between the ranks at the same place of all groups: all-gather of the messages, added up in
 *      the order of groups and divided by their number
 *   4. within the group: all-gather of the shares
 *
 * all to all, directly, in each. Where one group has all ranks, nothing is left out. Replayed
 * gradients and times: as in sparse.h.
 *
 * Source: HiTopKComm of Shi et al., arXiv 2010.10458; there 1 and 4 go around rings.
 */
#ifndef LH_TRAINER_HIERARCHICAL_TOPK_H
#define LH_TRAINER_HIERARCHICAL_TOPK_H

#include "trainer/strategy/averaging.h"

extern const struct lh_averaging_ops lh_averaging_hierarchical_topk;

/* What a job cannot do with it. LH_EINPUT with the key. */
int lh_hierarchical_topk_check(const struct lh_job *job, struct lh_error *err);

#endif
