/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a scenario, printed. */
#ifndef LH_CLI_DRY_RUN_H
#define LH_CLI_DRY_RUN_H

#include <stdbool.h>

#include "scenarios/scenario.h"

/* Prints all that would be built and run, as text or JSON; the exit status. */
int lh_dry_run(const struct lh_scenario *scenario, bool json);

#endif
