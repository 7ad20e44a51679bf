/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training alone on one machine, from its job to its last step: epochs, looks at the test data,
 * checkpoints, weights. What happens is told as JSON Lines.
 * Source of both forms: docs/formats.md, "A training alone".
 */
#ifndef LH_TRAINER_LEARN_ALONE_H
#define LH_TRAINER_LEARN_ALONE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/error.h"
#include "trainer/learn/learner.h"

/* What a job says; strings are the JSON's. */
struct lh_alone_job {
	const char *model;
	const json_t *train; /* the specification (spec.h) */
	uint64_t seed;
	uint32_t batch; /* samples of a step, a multiple of micro_batch */
	uint32_t micro_batch;
	uint64_t steps;		       /* 0: as many as epochs are */
	uint64_t epochs;	       /* 0: as many as steps are */
	uint64_t log_every;	       /* steps; 0: so many that there are about 2000 lines */
	double warm_up_ratio;	       /* of all steps, where the schedule has no warm_up */
	const char *checkpoint_folder; /* NULL: none are written */
	uint64_t checkpoint_every;     /* steps; 0: at the end of every epoch */
	bool resumes;		       /* from the newest checkpoint there */
	const char *weights_path;      /* of the model in the end; NULL: nowhere */
};

/* Reads a job; faults go to diag, all of them, those of the specification apart. */
void lh_alone_job_read(const json_t *json, struct lh_alone_job *ret_job, struct lh_diag *diag);

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
