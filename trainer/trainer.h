/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a training: connects, computes, averages, writes its events. */
#ifndef LH_TRAINER_TRAINER_H
#define LH_TRAINER_TRAINER_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/job.h"

struct lh_compute_ops;

/*
 * Runs rank of the job to its end, computing by compute, and writes its events to events_path;
 * returns when all is done or failed. A failure is also the file's last event. Ignores SIGPIPE from
 * then on. LH_ESYS, LH_ERUN.
 */
int lh_trainer_run(const struct lh_job *job, const struct lh_compute_ops *compute, uint32_t rank,
		   const char *events_path, struct lh_error *err);

#endif
