/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells the two programs of main.c apart: longhaul-trainer only replays and is small, for many
 * ranks on one machine; longhaul-learner holds the engine of training, too.
 */
#ifndef LH_TRAINER_PROGRAM_H
#define LH_TRAINER_PROGRAM_H

#include <stdio.h>

#include "trainer/compute/compute.h"

extern const char lh_program_name[];

/* What a program does instead of a rank, by its one option. */
struct lh_program_task {
	const char *name; /* of the option, without dashes */
	const char *doc;  /* one line */
	/* Reads one JSON object from in (NULL: it needs none), writes JSON Lines to out. */
	int (*run)(FILE *in, FILE *out, struct lh_error *err);
};

/* Those that it has; name NULL at the end. */
extern const struct lh_program_task lh_program_tasks[];

/* The modes that it has, NULL at the end. */
extern const struct lh_compute_ops *const lh_program_modes[];

#endif
