/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator of ranks that are alike, on two sites; what tests of it share. */
#ifndef LH_TESTS_UNIT_ELASTIC_OFFICE_H
#define LH_TESTS_UNIT_ELASTIC_OFFICE_H

#include "trainer/elastic/coordinator.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)

enum { N = 8, MICRO_BATCH = 4 };

static const uint32_t micro_batch[N] = {MICRO_BATCH, MICRO_BATCH, MICRO_BATCH, MICRO_BATCH,
					MICRO_BATCH, MICRO_BATCH, MICRO_BATCH, MICRO_BATCH};
static const int64_t step_ns[N] = {S, S, S, S, S, S, S, S};
static const uint32_t site[N] = {0, 0, 0, 0, 1, 1, 1, 1};

static inline struct lh_coordinator_config config_of(uint32_t n)
{
	return (struct lh_coordinator_config){
		.n_ranks = n,
		.target = 16,
		.epochs = 3,
		.min_group = 2,
		.timeout_ns = 10 * S,
		.heartbeat_ns = S,
		.patience_ns = 100 * S,
		.micro_batch = micro_batch,
		.step_ns = step_ns,
		.site = site,
	};
}

#endif
