/* SPDX-License-Identifier: Apache-2.0 */
/* The table of strategies. See strategy.h. */
#include "trainer/strategy/strategy.h"

#include <string.h>

#include "trainer/clock.h"

const struct lh_strategy_ops *const lh_strategies[] = {
	&lh_strategy_butterfly,
	&lh_strategy_ring,
	NULL,
};

const struct lh_strategy_ops *lh_strategy_find(const char *name)
{
	for (size_t i = 0; lh_strategies[i]; i++)
		if (strcmp(lh_strategies[i]->name, name) == 0)
			return lh_strategies[i];
	return NULL;
}

int64_t lh_strategy_host_ns(const struct lh_job *job, uint32_t rank, uint64_t bytes)
{
	uint64_t bps = job->ranks[rank].averaging_bps;

	return bps ? (int64_t)((unsigned __int128)bytes * 8 * (uint64_t)LH_NS_PER_S / bps) : 0;
}
