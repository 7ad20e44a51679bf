/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small variant of every family of models, and batches and parameters for any model, which
 * tests of gradients, of devices and of memory run, and the comparison with PyTorch too. Needs no
 * cmocka; running cases in tests: model_runs.h.
 */
#ifndef LH_TESTS_MODEL_CASES_H
#define LH_TESTS_MODEL_CASES_H

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

/* Writes, into all parameters, random values of a size that lets every one of them matter: weights
 * that keep the size of what flows through, norms near 1, biases that are not 0. */
int lh_model_parameters_write(struct lh_graph *graph, uint64_t seed, struct lh_error *err);

/* LH_EINPUT. */
int lh_model_case_config(const struct lh_model_case *c, struct lh_model_config *ret_config,
			 struct lh_error *err);

#endif
