/* SPDX-License-Identifier: Apache-2.0 */
/* A device against the reference device: outputs, states and gradients of cases. */
#ifndef LH_TESTS_LAYER_COMPARE_H
#define LH_TESTS_LAYER_COMPARE_H

#include "tests/unit/layer_cases.h"

/* Cases of more than one block, warp or tile of a GPU. The last one has no name. */
extern const struct lh_layer_case lh_wide_cases[];

/* Runs a case on ops in the type `compute` and on the reference device with the same numbers, and
 * fails the test where loss, logits, state or a gradient is further apart than tolerance (of the
 * norm). *worst, if larger, becomes the largest distance. */
void lh_case_compare(const struct lh_layer_case *c, const struct lh_device_ops *ops,
		     enum lh_dtype compute, double tolerance, double *worst);

/* The same for ties: the first of equal numbers is the largest, in windows and in logits. */
void lh_ties_compare(const struct lh_device_ops *ops, enum lh_dtype compute);

#endif
