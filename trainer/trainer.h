/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a training: connects, computes, averages, writes its events. */
#ifndef LH_TRAINER_TRAINER_H
#define LH_TRAINER_TRAINER_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/job.h"

struct lh_compute_ops;

/* Which of the job's ranks this is, and what else is its own. */
struct lh_trainer_options {
	uint32_t rank;
	uint32_t incarnation; /* how often the rank has been started before, and lost */
	const char *events_path;
};

/*
 * Runs a rank of the job to its end, computing by compute, and writes its events; returns when all
 * is done or failed. A failure is also the file's last event. Ignores SIGPIPE from then on.
 * LH_EINPUT where the strategy takes no rank back that was lost; LH_ESYS, LH_ERUN.
 */
int lh_trainer_run(const struct lh_job *job, const struct lh_compute_ops *compute,
		   const struct lh_trainer_options *options, struct lh_error *err);

#endif
