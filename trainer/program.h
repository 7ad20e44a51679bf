/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells the two programs of main.c apart: longhaul-trainer only replays and is small, for many
 * ranks on one machine; longhaul-learner holds the engine of training, too.
 */
#ifndef LH_TRAINER_PROGRAM_H
#define LH_TRAINER_PROGRAM_H

#include "trainer/compute/compute.h"

extern const char lh_program_name[];

/* The modes that it has, NULL at the end. */
extern const struct lh_compute_ops *const lh_program_modes[];

#endif
