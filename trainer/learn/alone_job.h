/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of a training alone, without what it is done with.
 * Source of the form: docs/formats.md, "A training alone".
 */
#ifndef LH_TRAINER_LEARN_ALONE_JOB_H
#define LH_TRAINER_LEARN_ALONE_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

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

#endif
