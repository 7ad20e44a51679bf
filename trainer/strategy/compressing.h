/* SPDX-License-Identifier: Apache-2.0 */
/* Which compressors go with which strategies, and who averages for them. */
#ifndef LH_TRAINER_COMPRESSING_H
#define LH_TRAINER_COMPRESSING_H

#include "trainer/job.h"
#include "trainer/strategy/averaging.h"

/* What a compressor sends whole beside what it is for, by a name of any kind: a codec is itself.
 * NULL: there is no such compressor. */
const struct lh_codec_ops *lh_compressing_codec(const char *kind);

/* Whether the job's strategy takes its compressor. LH_EINPUT with the key. */
int lh_compressing_check(const struct lh_job *job, struct lh_error *err);

/* The averaging of the job's strategy, or the one that its compressor needs. */
const struct lh_averaging_ops *lh_compressing_averaging(const struct lh_job *job);

#endif
