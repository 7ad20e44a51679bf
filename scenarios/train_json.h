/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a training, as the engine reads it (trainer/learn/spec.h). */
#ifndef LH_SCENARIOS_TRAIN_JSON_H
#define LH_SCENARIOS_TRAIN_JSON_H

#include <jansson.h>

#include "scenarios/scenario.h"

/* Owned by the caller. */
json_t *lh_train_to_json(const struct lh_train_spec *train);

#endif
