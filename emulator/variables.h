/* SPDX-License-Identifier: Apache-2.0 */
/* What a program in a node finds in its environment: what launchers set, and who the node is.
 * Private to the emulator. */
#ifndef LH_EMULATOR_VARIABLES_H
#define LH_EMULATOR_VARIABLES_H

#include <stddef.h>

#include "emulator/plan.h"

enum { LH_VARIABLES_MAX = 24 };

/* NAME=VALUE texts, owned. */
struct lh_variables {
	char *list[LH_VARIABLES_MAX];
	size_t n;
};

/* Which program. */
struct lh_variables_spec {
	size_t member; /* a rank of the scenario */
	size_t rank;   /* among the n_ranks of them that run it */
	size_t n_ranks;
	size_t master;		  /* the first of these */
	const char *report_path;  /* NULL: it reports into no file */
	const char *doors_folder; /* stands first in PATH; NULL: none */
	unsigned incarnation;	  /* how often it has been started there before */
};

/* Fills *ret_variables, for lh_variables_done; user is the user's environment. */
void lh_variables_make(const struct lh_plan *plan, const struct lh_variables_spec *spec,
		       char *const *user, struct lh_variables *ret_variables);
void lh_variables_done(struct lh_variables *variables);

/* The user's environment with ours in it; the array is the caller's, its strings are not. NULL
 * where memory is out. */
char **lh_variables_merge(char *const *user, const struct lh_variables *ours);

#endif
