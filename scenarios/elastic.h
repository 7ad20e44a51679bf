/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic scheduling: which nodes training needs where the data already lie. Every site computes on
 * its own data; the one that takes longest sets the time of all, and others need only as many
 * nodes as finish with it. Pure.
 *
 * Source: the idea, not the formula, of Cloudless-Training, arXiv 2303.05330.
 */
#ifndef LH_SCENARIOS_ELASTIC_H
#define LH_SCENARIOS_ELASTIC_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

enum { LH_ELASTIC_KINDS_MAX = 4 }; /* of nodes at a site: all sets of them are tried */

/* Nodes of one kind at one site. */
struct lh_elastic_kind {
	size_t n_nodes;
	double samples_per_s; /* of one, above 0 */
	int64_t price;	      /* of one, in any unit; all 0: the fewest nodes are the best */
};

struct lh_elastic_site {
	double samples; /* that lie here; 0: none */
	size_t n_kinds;
	struct lh_elastic_kind kinds[LH_ELASTIC_KINDS_MAX];
	size_t needed[LH_ELASTIC_KINDS_MAX]; /* outcome: nodes of each kind */
};

/*
 * Plans: sets needed of all sites, and *ret_time_s, the time in which all data are computed once:
 * the largest samples / speed of all nodes of a site. Of the sets of a site's nodes that are no
 * slower, the cheapest is taken; of equally cheap ones the smallest; of these the slowest.
 * LH_EINPUT: no samples at all, or a site with samples and no nodes.
 */
int lh_elastic_plan(struct lh_elastic_site *sites, size_t n_sites, double *ret_time_s,
		    struct lh_error *err);

#endif
