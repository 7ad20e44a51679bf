/* SPDX-License-Identifier: Apache-2.0 */
/* Sparsifiers by the job's settings. */
#ifndef LH_TRAINER_SPARSE_FORM_H
#define LH_TRAINER_SPARSE_FORM_H

#include "trainer/compress/sparsifier.h"
#include "trainer/job.h"

/* Whether a compressor is one that sends some of the numbers with their places. */
bool lh_sparse_form_is(const struct lh_compress_settings *compressing);

/* What a job with a sparse strategy cannot do. LH_EINPUT with the key. */
int lh_sparse_form_check(const struct lh_job *job, struct lh_error *err);

/* The settings of rank's sparsifier of n numbers, by a job that has been checked. */
struct lh_sparsifier_settings lh_sparse_form_of(const struct lh_job *job, uint32_t rank,
						uint32_t n);

#endif
