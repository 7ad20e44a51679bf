/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a ring: the cheapest round trip through all members, by the cost of each directed
 * link (asymmetric travelling salesman), or the one with the shortest steps. Pure; the same costs
 * and seed give the same order.
 */
#ifndef LH_TRAINER_COLLECTIVE_ORDER_H
#define LH_TRAINER_COLLECTIVE_ORDER_H

#include <stdint.h>

#include "core/error.h"

enum { LH_COLLECTIVE_EXACT_MAX = 12 };

/*
 * costs: n x n, from member i to member j at i x n + j, finite, at least 0; the diagonal is not
 * read. ret_order: n members, member 0 first; *ret_cost its round trip. Exact for up to
 * LH_COLLECTIVE_EXACT_MAX members (dynamic programming), beyond that the best of many local
 * searches. LH_EINPUT for a cost that is none; LH_ESYS.
 *
 * Source: Held, Karp, "A dynamic programming approach to sequencing problems", 1962; local search
 * by moved and reversed segments, from double-bridge kicks, as in Martin, Otto, Felten, "Large-step
 * Markov chains for the traveling salesman problem", 1991.
 */
int lh_collective_order(const double *costs, uint32_t n, uint64_t seed, uint32_t *ret_order,
			double *ret_cost, struct lh_error *err);

/*
 * The order in which a ring's steps are shortest. step_costs: what a step over a link takes until
 * its end has arrived, busy_costs: how long the link is busy with it, at most as much; n x n each,
 * as above. A step of the ring takes the mean of its links' costs, as every chunk passes all of
 * them, but at least the longest that one is busy. *ret_cost: that. Errors as above.
 */
int lh_collective_ring_order(const double *step_costs, const double *busy_costs, uint32_t n,
			     uint64_t seed, uint32_t *ret_order, double *ret_cost,
			     struct lh_error *err);

#endif
