/* SPDX-License-Identifier: Apache-2.0 */
/* Which compressors go with which strategies. See compressing.h. */
#include "trainer/strategy/compressing.h"

#include <string.h>

#include "trainer/collective/plan.h"
#include "trainer/strategy/factors.h"
#include "trainer/strategy/feedback.h"
#include "trainer/strategy/sparse_form.h"
#include "trainer/strategy/strategy.h"

static bool is_powersgd(const char *kind)
{
	return strcmp(kind, "powersgd") == 0;
}

const struct lh_codec_ops *lh_compressing_codec(const char *kind)
{
	if (is_powersgd(kind) || lh_sparse_find(kind))
		return &lh_codec_none;
	return lh_codec_find(kind);
}

static int refuse(const struct lh_job *job, const char *expected, struct lh_error *err)
{
	return lh_fail(err, LH_EINPUT, 0, "compress.kind: %s does not go with strategy %s; %s",
		       job->compressing.kind, job->strategy->name, expected);
}

int lh_compressing_check(const struct lh_job *job, struct lh_error *err)
{
	bool is_sparse = lh_sparse_form_is(&job->compressing);
	bool is_factored = is_powersgd(job->compressing.kind);

	if (is_sparse && !job->strategy->takes_sparse)
		return refuse(job, "expected such as sparse-allgather", err);
	if (job->uses_nccl && (is_factored || job->compress->needs_feedback))
		return refuse(job, "NCCL's numbers are not compressed", err);
	if (is_factored && !lh_collective_find(job->strategy->name))
		return refuse(job, "expected one that averages gradients by an all-reduce", err);
	if (is_factored && job->settings.balance != LH_BALANCE_FIXED)
		return refuse(job, "expected balance fixed", err);
	if (job->compress->needs_feedback && strcmp(job->strategy->name, "butterfly") != 0)
		return refuse(job, "expected butterfly", err);
	if (job->compress->needs_feedback && job->settings.shards == LH_SHARDS_BANDWIDTH)
		return refuse(job, "expected shards equal", err);
	return 0;
}

const struct lh_averaging_ops *lh_compressing_averaging(const struct lh_job *job)
{
	if (job->compress->needs_feedback)
		return &lh_averaging_feedback;
	if (is_powersgd(job->compressing.kind))
		return &lh_averaging_factors;
	if (job->strategy->averaging == &lh_averaging_dense && job->settings.bucket_bytes)
		return &lh_averaging_bucketed;
	return job->strategy->averaging;
}
