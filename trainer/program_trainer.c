/* SPDX-License-Identifier: Apache-2.0 */
/* The program longhaul-trainer. See program.h. */
#include "trainer/program.h"

const char lh_program_name[] = "longhaul-trainer";

const struct lh_compute_ops *const lh_program_modes[] = {&lh_compute_replay, NULL};

const struct lh_program_task lh_program_tasks[] = {{NULL, NULL, NULL}};
