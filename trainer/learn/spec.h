/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is learnt, from what, and how: read from JSON, the same for a rank of a job and for a
 * training alone. Everything is checked here that can be without opening data or a device.
 * Source of the form: docs/formats.md, "The trainer's job", `train`.
 */
#ifndef LH_TRAINER_LEARN_SPEC_H
#define LH_TRAINER_LEARN_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/data/dataset.h"
#include "trainer/device/device.h"
#include "trainer/learn/check.h"
#include "trainer/models/model.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"

enum { LH_LEARN_PATH_MAX = 4096 };

struct lh_learn_spec {
	struct lh_model_config model;
	struct lh_data_request data; /* of the training part; its strings are the two below */
	char data_path[LH_LEARN_PATH_MAX];
	char vocabulary_path[LH_LEARN_PATH_MAX];
	uint64_t n_test_samples; /* no more than these of the test part; 0: all */
	double skew;		 /* Dirichlet's alpha; 0: all ranks share one order */
	bool augment;
	struct lh_optimizer_options optimizer;
	struct lh_schedule schedule; /* in optimizer steps; total_steps is the caller's to set */
	uint32_t evaluate_every;     /* epochs */
	const struct lh_device_ops *device;
	struct lh_device_options device_options;
};

/*
 * Reads a specification for `model`. Faults go to diag, all of them, as "prefix.key.path: what", at
 * the positions that reading->pos_of gives. Valid only when diag stays empty; nothing to free.
 */
void lh_learn_spec_read(const char *model, const json_t *json,
			const struct lh_learn_reading *reading, struct lh_learn_spec *ret_spec,
			struct lh_diag *diag);

/* The parameters of the model, counted without memory for them. LH_EINPUT where its settings do not
 * fit each other. */
int lh_learn_count_parameters(const struct lh_model_config *model, int64_t *ret_n,
			      struct lh_error *err);

/* Whether a task can be learnt from a kind of data. */
bool lh_learn_takes(enum lh_task task, const char *kind);

/* What the model asks of data: fills the sizes of spec->data. */
void lh_learn_request(const struct lh_model_config *model, struct lh_data_request *data);

#endif
