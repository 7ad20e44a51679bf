/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel settings that change a result: set, read back, recorded. Private to the emulator. */
#ifndef LH_EMULATOR_SETTINGS_H
#define LH_EMULATOR_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>

#include "emulator/plan.h"

/* Settings of the whole kernel. own: write them; otherwise only record what holds. */
int lh_settings_kernel(const struct lh_plan *plan, bool own, json_t *pinned, struct lh_error *err);

/* Settings of the current namespace as node i's; recorded under its machine's name. */
int lh_settings_node(const struct lh_plan *plan, size_t i, json_t *pinned, struct lh_error *err);

/* Settings of the current namespace as the router's. */
int lh_settings_router(json_t *pinned, struct lh_error *err);

#endif
