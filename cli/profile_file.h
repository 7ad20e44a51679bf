/* SPDX-License-Identifier: Apache-2.0 */
/* Measured speeds of a model as a compute profile, and as a table. */
#ifndef LH_CLI_PROFILE_FILE_H
#define LH_CLI_PROFILE_FILE_H

#include <jansson.h>

#include "core/error.h"

/* The measurement with the most samples per second of an array, which is not empty; borrowed. */
const json_t *lh_profile_fastest(const json_t *measurements);

/* The YAML of a profile called name with the fastest of the measurements, all of which stand in its
 * comments; owned by the caller. LH_ESYS. */
int lh_profile_format(const char *name, const json_t *measurements, char **ret_text,
		      struct lh_error *err);

/* The table for people, with the room of a terminal (0: any); owned by the caller. LH_ESYS. */
int lh_profile_table(const json_t *measurements, size_t width, char **ret_text,
		     struct lh_error *err);

#endif
