/* SPDX-License-Identifier: Apache-2.0 */
/* A device's steps of optimizers against the reference device's, over memory of each device. */
#ifndef LH_TESTS_UPDATE_COMPARE_H
#define LH_TESTS_UPDATE_COMPARE_H

#include "trainer/device/update.h"

/* Runs a few steps of every rule, and all other functions of lh_update_ops, on ops in the type
 * `compute` and on the reference device in double; fails the test where a tensor is further apart
 * than tolerance, of its norm. */
void lh_update_compare(const struct lh_device_ops *ops, enum lh_dtype compute, double tolerance);

#endif
