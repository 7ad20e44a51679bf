/* SPDX-License-Identifier: Apache-2.0 */
/* Running the small models (model_cases.h) in tests, on any device. */
#ifndef LH_TESTS_MODEL_RUNS_H
#define LH_TESTS_MODEL_RUNS_H

#include "tests/unit/layer_cases.h"
#include "tests/unit/model_cases.h"

/* A case on a device, to be run and read with the functions of layer_cases.h, but for
 * lh_case_forward. Fails the test where anything fails. */
void lh_model_case_open(const struct lh_model_case *c, const struct lh_device_ops *ops,
			enum lh_dtype compute, struct lh_case_run *ret_run);

/* Writes parameters and a batch, runs forward; returns the loss. */
double lh_model_case_forward(const struct lh_model_case *c, struct lh_case_run *run);

#endif
