/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a specification of a training can be meant, without opening data or a device; all that a
 * program needs that does not train itself.
 * Source of the form: docs/formats.md, "The trainer's job", `train`.
 */
#ifndef LH_TRAINER_LEARN_CHECK_H
#define LH_TRAINER_LEARN_CHECK_H

#include <jansson.h>
#include <stdint.h>

#include "core/error.h"

struct lh_device_ops;

/* Where a key stands in what the user wrote, {NULL, 0, 0} where it does not; key_path is without
 * the prefix, such as "optimizer.lr", or "../model". */
typedef struct lh_pos lh_learn_pos_fn(const void *context, const char *key_path);

/* How a specification is read. */
struct lh_learn_reading {
	const char *prefix;	 /* of key paths in messages: "" or "workload.train" */
	lh_learn_pos_fn *pos_of; /* may be NULL */
	const void *context;	 /* of pos_of */
	/* What the program can compute on, NULL at the end; NULL: devices are not looked up. */
	const struct lh_device_ops *const *devices;
};

/* Reads the specification for a model; faults go to diag, all of them. Where there are none,
 * *ret_parameters is the number that the model has. */
void lh_learn_check(const char *model, const json_t *json, const struct lh_learn_reading *reading,
		    int64_t *ret_parameters, struct lh_diag *diag);

#endif
