/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small graphs of every layer in every form, which tests of gradients and of devices run, and
 * the running of them. Numbers are read as double, whatever the device computes in.
 */
#ifndef LH_TESTS_LAYER_CASES_H
#define LH_TESTS_LAYER_CASES_H

#include "trainer/layers/layers.h"

struct lh_layer_case {
	const char *name;
	/* Adds inputs and layers; what it returns becomes the logits of a loss. */
	struct lh_tensor *(*build)(struct lh_graph *graph);
	bool is_evaluating; /* not in training */
};

extern const struct lh_layer_case lh_layer_cases[]; /* the last one has no name */

/* A case on a device: a graph whose inputs and parameters have been filled from the names alone,
 * so that every device gets the same. */
struct lh_case_run {
	struct lh_device *device;
	struct lh_graph *graph;
	struct lh_tensor *logits;
	struct lh_tensor *loss;
	struct lh_pass pass;
	enum lh_dtype rounds_to; /* numbers are rounded to this type before they are filled in */
};

/* Fails the test where anything fails. */
void lh_case_open(const struct lh_layer_case *c, const struct lh_device_ops *ops,
		  enum lh_dtype compute, struct lh_case_run *ret_run);
void lh_case_open_with(const struct lh_layer_case *c, const struct lh_device_ops *ops,
		       const struct lh_device_options *options, struct lh_case_run *ret_run);
void lh_case_close(struct lh_case_run *run);

/* Fills all inputs, parameters and state again, then runs forward; returns the loss. */
double lh_case_forward(struct lh_case_run *run);

/* Zeroes the gradients and runs backward. */
void lh_case_backward(struct lh_case_run *run);

/* The numbers of a tensor: malloc'ed. */
double *lh_case_read(struct lh_case_run *run, const struct lh_tensor *tensor, enum lh_part part);
void lh_case_write(struct lh_case_run *run, struct lh_tensor *tensor, const double *values);

/* ||a - b|| / ||b||, or ||a|| where b is zero. */
double lh_case_distance(const double *a, const double *b, int64_t n);

#endif
