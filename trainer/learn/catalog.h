/* SPDX-License-Identifier: Apache-2.0 */
/* The models and their settings as plain data, for programs that list them. */
#ifndef LH_TRAINER_LEARN_CATALOG_H
#define LH_TRAINER_LEARN_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct lh_learn_model {
	const char *name;
	const char *family;
	const char *doc;
	const char *task;   /* what it learns from, in a word or two */
	const char *source; /* NULL: none */
	int64_t parameters; /* with its settings as they are */
};

struct lh_learn_setting {
	const char *name;
	const char *doc;
	double value; /* of this model */
	double min, max;
};

/* The model at a place of the list; false behind the last one. */
bool lh_learn_model_at(size_t i, struct lh_learn_model *ret_model);

/* LH_EINPUT, with the nearest name. */
int lh_learn_model_find(const char *name, struct lh_learn_model *ret_model, struct lh_error *err);

/* A setting of a model that exists; false behind the last one. */
bool lh_learn_setting_at(const char *model, size_t i, struct lh_learn_setting *ret_setting);

#endif
