/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of bind.h share. */
#ifndef LH_SCENARIOS_BIND_INTERNAL_H
#define LH_SCENARIOS_BIND_INTERNAL_H

#include <stdbool.h>

#include "scenarios/bind.h"

/* A value being bound. */
struct lh_bind_site {
	const struct lh_field *field;
	struct lh_yaml *value;
	const char *path;
	struct lh_diag *diag;
	void *at; /* where it goes */
};

/* Binds a single value (of the kind that the field takes). */
void lh_bind_scalar(const struct lh_bind_site *site);

/* Binds a list of words or whole numbers; *count, 0 before, becomes how many are right. */
void lh_bind_list(const struct lh_bind_site *site, size_t *count);

#endif
