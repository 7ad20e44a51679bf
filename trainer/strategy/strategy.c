/* SPDX-License-Identifier: Apache-2.0 */
/* The table of strategies. See strategy.h. */
#include "trainer/strategy/strategy.h"

#include <string.h>

const struct lh_strategy_ops *const lh_strategies[] = {
	&lh_strategy_butterfly,
	NULL,
};

const struct lh_strategy_ops *lh_strategy_find(const char *name)
{
	for (size_t i = 0; lh_strategies[i]; i++)
		if (strcmp(lh_strategies[i]->name, name) == 0)
			return lh_strategies[i];
	return NULL;
}
