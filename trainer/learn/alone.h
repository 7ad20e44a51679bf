/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training alone on one machine, from its job to its last step: epochs, looks at the test data,
 * checkpoints, weights. What happens is told as JSON Lines.
 * Source of both forms: docs/formats.md, "A training alone".
 */
#ifndef LH_TRAINER_LEARN_ALONE_H
#define LH_TRAINER_LEARN_ALONE_H

#include <jansson.h>
#include <stdio.h>

#include "core/error.h"
#include "trainer/learn/alone_job.h"
#include "trainer/learn/learner.h"

/* Reads a specification, with the devices of this build. LH_EINPUT with all faults in one message;
 * LH_EENV for a device that other builds have. */
int lh_alone_spec_read(const struct lh_alone_job *job, struct lh_learn_spec *ret_spec,
		       struct lh_error *err);

/* LH_EENV, with the numbers, where the device is this machine and its memory is too small. */
int lh_alone_check_memory(const struct lh_learn_spec *spec, uint32_t micro_batch,
			  struct lh_error *err);

/* A device as events and records describe it; owned by the caller. NULL: no memory. */
json_t *lh_alone_describe_device(const struct lh_device *device);

/* A learner's memory, in bytes; owned by the caller. NULL: no memory. */
json_t *lh_alone_describe_memory(const struct lh_learner *learner);

/*
 * Runs the job. stop_fd: a signalfd, not blocking, that asks to end after the step at hand, or -1.
 * LH_EINPUT, LH_EENV, LH_ESYS, LH_ERUN (it diverged), LH_ESIGNAL.
 */
int lh_alone_run(const json_t *job, FILE *out, int stop_fd, struct lh_error *err);

#endif
