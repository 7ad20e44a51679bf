/* SPDX-License-Identifier: Apache-2.0 */
/* What only the engine of training knows about a scenario. */
#ifndef LH_CLI_TRAINING_H
#define LH_CLI_TRAINING_H

#include "core/error.h"
#include "scenarios/scenario.h"

/* Checks what a scenario of mode train wants to learn, and sets the parameters that its model has
 * with its settings. Faults go to diag, with their positions. LH_EINPUT, LH_ESYS. */
int lh_cli_check_training(struct lh_scenario *scenario, struct lh_diag *diag, struct lh_error *err);

#endif
