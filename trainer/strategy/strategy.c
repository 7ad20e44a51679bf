/* SPDX-License-Identifier: Apache-2.0 */
/* The table of strategies. See strategy.h. */
#include "trainer/strategy/strategy.h"

#include <string.h>

#include "trainer/strategy/averaging.h"

static const struct lh_strategy_ops butterfly = {
	.name = "butterfly",
	.doc = "all to all: reduce-scatter, then all-gather (Hivemind)",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_dense,
};

static const struct lh_strategy_ops ring = {
	.name = "ring",
	.doc = "all-reduce around a ring, as data-parallel training does it",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_dense,
};

const struct lh_strategy_ops lh_strategy_nccl = {
	.name = "ring",
	.doc = "all-reduce around a ring, by NCCL between GPUs",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_nccl,
};

const struct lh_strategy_ops *const lh_strategies[] = {
	&butterfly,
	&ring,
	&lh_strategy_local_sgd,
	&lh_strategy_diloco,
	&lh_strategy_d_psgd,
	&lh_strategy_ad_psgd,
	&lh_strategy_parameter_server,
	NULL,
};

const struct lh_strategy_ops *lh_strategy_find(const char *name)
{
	for (size_t i = 0; lh_strategies[i]; i++)
		if (strcmp(lh_strategies[i]->name, name) == 0)
			return lh_strategies[i];
	return NULL;
}
