/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a model learns on a device: the parts of a step, each waited for, after a warm-up; and
 * the memory of it. One measurement a process, so that its memory is its own.
 * Source of both forms: docs/formats.md, "A measured speed".
 */
#ifndef LH_TRAINER_LEARN_PROFILE_H
#define LH_TRAINER_LEARN_PROFILE_H

#include <jansson.h>
#include <stdio.h>

#include "core/error.h"

/* Measures what the job asks for and writes one line. stop_fd as of lh_alone_run. LH_EINPUT,
 * LH_EENV, LH_ESYS, LH_ERUN, LH_ESIGNAL. */
int lh_profile_run(const json_t *job, FILE *out, int stop_fd, struct lh_error *err);

#endif
