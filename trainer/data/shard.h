/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples each rank has: every sample belongs to exactly one rank, as a function of the
 * seed. Ranks that share one order of all samples need none of this; see loader.h.
 */
#ifndef LH_TRAINER_DATA_SHARD_H
#define LH_TRAINER_DATA_SHARD_H

#include "trainer/data/dataset.h"

enum lh_shard_mode {
	LH_SHARD_IID,	 /* by chance; ranks' numbers differ by one at most */
	LH_SHARD_SKEWED, /* sites have different shares of each label; ranks of a site do not */
	LH_SHARD_PLACED, /* sites have given shares of all samples, by chance */
};

struct lh_shard_spec {
	enum lh_shard_mode mode;
	uint64_t seed;
	/* Skewed: a label's shares of the sites are Dirichlet-distributed, the smaller alpha the
	 * more uneven; a site with more ranks has proportionally more on average. 0.001 to 1e6. */
	double alpha;
	/* Placed: of each site, above 0; compared with each other. */
	const double *shares;
	uint32_t n_sites;
	const uint32_t *n_ranks; /* of each site; ranks are numbered site by site */
};

struct lh_shards;

/*
 * Splits a dataset. Source of the skew: T. Hsu et al., Measuring the Effects of Non-Identical
 * Data Distribution for Federated Visual Classification, 2019, section 3. LH_EINPUT: no labels to
 * skew by, or a rank that would have no sample. *ret is owned by the caller.
 */
int lh_shards_make(const struct lh_dataset *ds, const struct lh_shard_spec *spec,
		   struct lh_shards **ret, struct lh_error *err);

void lh_shards_free(struct lh_shards *shards);

/* A rank's samples, borrowed; at least 1. */
const uint32_t *lh_shards_of(const struct lh_shards *shards, uint32_t rank, uint64_t *ret_n);

#endif
