/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of dump. */
#ifndef LH_TESTS_DUMP_OPTIONS_H
#define LH_TESTS_DUMP_OPTIONS_H

#include <jansson.h>

#include "trainer/models/model.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"

struct lh_dump_options {
	const struct lh_device_ops *device;
	struct lh_model_config config;
	struct lh_optimizer_options optimizer;
	struct lh_schedule schedule;
	int64_t batch, steps, epochs, accumulate;
	uint64_t seed;
	bool is_initial; /* parameters as training begins with, not such that all matter */
	const char *path;
};

/* LH_EUSAGE, LH_EINPUT. --list prints and exits. */
int lh_dump_read_options(int argc, char **argv, struct lh_dump_options *ret_options,
			 struct lh_error *err);

/* The optimizer as the PyTorch side reads it, owned by the caller. */
json_t *lh_dump_optimizer(const struct lh_dump_options *options);

#endif
