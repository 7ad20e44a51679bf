/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small variant of every family of models, and batches for any model, which tests of
 * gradients, of devices and of memory run, and the comparison with PyTorch too.
 */
#ifndef LH_TESTS_MODEL_CASES_H
#define LH_TESTS_MODEL_CASES_H

#include "tests/unit/layer_cases.h"
#include "trainer/models/model.h"

enum { LH_MODEL_CASE_SETTINGS_MAX = 12 };

struct lh_model_case {
	const char *name;
	const char *preset;
	const char *settings[LH_MODEL_CASE_SETTINGS_MAX]; /* NULL at the end */
	int64_t batch;
};

extern const struct lh_model_case lh_model_cases[]; /* the last one has no name */

/* Writes random samples into the inputs: a function of the model, seed and index alone. LH_ESYS. */
int lh_model_batch_write(struct lh_graph *graph, const struct lh_model_config *config,
			 uint64_t seed, uint64_t index, struct lh_error *err);

/* A case on a device, to be run and read with the functions of layer_cases.h, except
 * lh_case_forward. Fails the test where anything fails. */
void lh_model_case_open(const struct lh_model_case *c, const struct lh_device_ops *ops,
			enum lh_dtype compute, struct lh_case_run *ret_run);

/* Writes the batch, and into all parameters random values of a size that lets every one of them
 * matter; runs forward; returns the loss. */
double lh_model_case_forward(const struct lh_model_case *c, struct lh_case_run *run);

void lh_model_case_config(const struct lh_model_case *c, struct lh_model_config *ret_config);

#endif
