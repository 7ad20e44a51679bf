/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small network with all that training keeps: matrices and biases, running means, dropout. It
 * runs on the reference device in float or double, or on one whose updates are the CPU's.
 */
#ifndef LH_TESTS_SMALL_NET_H
#define LH_TESTS_SMALL_NET_H

#include "trainer/layers/layers.h"
#include "trainer/optim/optimizer.h"

struct lh_small_net {
	struct lh_device_ops ops;
	struct lh_device device;
	struct lh_graph *graph;
	struct lh_tensor *x, *labels, *loss;
	uint64_t steps; /* trained */
};

enum lh_small_net_device { LH_SMALL_DOUBLE, LH_SMALL_FLOAT, LH_SMALL_CPU, LH_SMALL_N_DEVICES };

/* hidden: the width of its middle. Parameters are drawn from seed 1. Fails the test where anything
 * fails. */
void lh_small_net_open(enum lh_small_net_device device, int64_t hidden,
		       struct lh_small_net *ret_net);
void lh_small_net_close(struct lh_small_net *net);

/* n forward and backward passes and steps on drawn batches, a function of net->steps alone;
 * returns the mean of their losses. */
double lh_small_net_train(struct lh_small_net *net, struct lh_optimizer *optimizer, int n);

#endif
