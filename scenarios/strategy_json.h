/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies and compressors for the trainers' job. */
#ifndef LH_SCENARIOS_STRATEGY_JSON_H
#define LH_SCENARIOS_STRATEGY_JSON_H

#include <jansson.h>

#include "scenarios/bind.h"
#include "scenarios/scenario.h"

/* The kind and the parameters that it has, in SI units with the unit in the key; without those that
 * are absent. Owned by the caller. Source: docs/formats.md, "The trainer's job". */
json_t *lh_strategy_to_json(const struct lh_strategy_spec *strategy);

/* The same of a compressor. */
json_t *lh_compress_to_json(const struct lh_compress_spec *compress);

/* Any section with kinds, bound to a struct. */
json_t *lh_kind_to_json(const struct lh_section *section, const void *bound);

#endif
