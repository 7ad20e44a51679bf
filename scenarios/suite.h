/* SPDX-License-Identifier: Apache-2.0 */
/* Suites: experiments by id. Private to the scenario room; users call lh_suite_read. */
#ifndef LH_SCENARIOS_SUITE_H
#define LH_SCENARIOS_SUITE_H

#include "core/yaml.h"
#include "scenarios/scenario.h"

/*
 * Looks for the experiment called id in every suite of the catalog. Returns its scenario
 * as a tree, owned by the caller; NULL where there is none (and then *ret_near, owned, is
 * the nearest id or NULL) or where a suite is faulty (messages in diag).
 */
struct lh_yaml *lh_suite_find(const char *id, const char *catalog_dir, char **ret_near,
			      struct lh_diag *diag);

#endif
