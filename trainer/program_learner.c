/* SPDX-License-Identifier: Apache-2.0 */
/* The program longhaul-learner. See program.h. */
#include "trainer/program.h"

const char lh_program_name[] = "longhaul-learner";

const struct lh_compute_ops *const lh_program_modes[] = {&lh_compute_train, NULL};
