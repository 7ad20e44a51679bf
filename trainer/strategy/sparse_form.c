/* SPDX-License-Identifier: Apache-2.0 */
/* Sparsifiers by the job's settings. See sparse_form.h. */
#include "trainer/strategy/sparse_form.h"

#include <inttypes.h>
#include <string.h>

#include "trainer/strategy/strategy.h"

bool lh_sparse_form_is(const struct lh_compress_settings *compressing)
{
	return lh_sparse_find(compressing->kind) != NULL;
}

static bool is_dgc(const struct lh_job *job)
{
	return lh_sparse_find(job->compressing.kind) == &lh_sparse_dgc;
}

/* Momentum is DGC's own: where it is masked the optimizer must not remember. */
static int check_optimizer(const struct lh_job *job, struct lh_error *err)
{
	const json_t *optimizer = json_object_get(job->train, "optimizer");
	const char *kind = json_string_value(json_object_get(optimizer, "kind"));
	const json_t *momentum = json_object_get(optimizer, "momentum");
	bool is_lars = kind && strcmp(kind, "lars") == 0;

	if (!kind)
		return 0; /* replayed, or refused by whoever reads it */
	if (strcmp(kind, "sgd") != 0 && !is_lars)
		return lh_fail(err, LH_EINPUT, 0,
			       "train.optimizer.kind: %.40s has a momentum beside that of dgc; "
			       "expected sgd, or lars with momentum 0",
			       kind);
	if (json_number_value(momentum) > 0 || (is_lars && !momentum))
		return lh_fail(err, LH_EINPUT, 0,
			       "train.optimizer.momentum: momentum is dgc's own; expected 0");
	return 0;
}

int lh_sparse_form_check(const struct lh_job *job, struct lh_error *err)
{
	if (!lh_sparse_form_is(&job->compressing))
		return lh_fail(err, LH_EINPUT, 0,
			       "compress.kind: strategy %s has no use for \"%s\"; expected one of "
			       "topk, mstopk, random-k, dgc",
			       job->strategy->name, job->compressing.kind);
	if (job->parameters > LH_SPARSE_ELEMENTS_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "parameters: %" PRIu64 "; sparse messages tell places up to %d",
			       job->parameters, LH_SPARSE_ELEMENTS_MAX);
	if (is_dgc(job) && !job->compressing.feedback)
		return lh_fail(err, LH_EINPUT, 0,
			       "compress.feedback: false, but dgc is what it remembers; expected "
			       "true, or kind topk");
	return is_dgc(job) ? check_optimizer(job, err) : 0;
}

struct lh_sparsifier_settings lh_sparse_form_of(const struct lh_job *job, uint32_t rank, uint32_t n)
{
	const struct lh_compress_settings *c = &job->compressing;
	struct lh_sparsifier_settings settings = {
		.choice = lh_sparse_find(c->kind),
		.n = n,
		.density = c->density_ratio,
		.memory = c->feedback ? LH_MEMORY_RESIDUAL : LH_MEMORY_NONE,
		.n_ranks = job->n_ranks,
		.warm_up_rounds = 1,
		.seed = job->seed,
		.rank = rank,
	};

	if (!is_dgc(job))
		return settings;
	settings.memory = LH_MEMORY_DGC;
	settings.momentum = c->momentum;
	settings.is_nesterov = c->nesterov;
	settings.clip_norm = c->clip_norm;
	if (c->warm_up_epochs) {
		settings.warm_up_steps = LH_SPARSE_WARM_UP_MAX; /* each at least the density */
		settings.warm_up_rounds = c->warm_up_epochs;
	}
	return settings;
}
