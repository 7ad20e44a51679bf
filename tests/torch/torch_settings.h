/* SPDX-License-Identifier: Apache-2.0 */
/* The names that the PyTorch side (experiment.py) has for models, settings and inputs. */
#ifndef LH_TESTS_TORCH_SETTINGS_H
#define LH_TESTS_TORCH_SETTINGS_H

#include <jansson.h>

#include "trainer/models/model.h"

/* The arguments of the model's class, owned by the caller; NULL: no memory. */
json_t *lh_torch_settings(const struct lh_model_config *config);

/* The field of a batch that an input is. */
const char *lh_torch_field(const char *input);

#endif
