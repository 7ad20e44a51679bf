/* SPDX-License-Identifier: Apache-2.0 */
/* Hierarchical top-k. See hierarchical_topk.h. */
#include "trainer/strategy/hierarchical_topk.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/collective/interpret.h"
#include "trainer/strategy/halves.h"
#include "trainer/strategy/sample.h"
#include "trainer/strategy/shard.h"
#include "trainer/strategy/sparse_form.h"
#include "trainer/strategy/sparse_gather.h"
#include "trainer/strategy/topk_groups.h"

struct topk {
	struct lh_rank *rank;
	struct lh_averaged averaged;
	struct lh_topk_groups groups;
	struct lh_halves inner;
	const struct lh_collective_slices *slices; /* of these */
	float *values;				   /* the slices: averaged.values, or own */
	/* Of the own share; NULL where nothing goes across. */
	struct lh_sparse_gather *across;
	struct lh_sparsifier *sparsifier;
	struct lh_sparsifier_settings settings; /* of the whole share */
	/* Where replayed: */
	struct lh_collective_program *program; /* of the scatter in any group */
	struct lh_sparsifier **reckoned;       /* by rank */
	float *own;			       /* slices */
	float *drawn;			       /* one share's slice of all ranks */
	float *members;			       /* of those of one group */
	float *mean;			       /* of these */
	float *scratch;
	float *expected; /* slices, by own reckoning */
};

static bool is_replayed(const struct topk *t)
{
	return !t->averaged.values;
}

static void topk_close(void *state)
{
	struct topk *t = state;

	if (!t)
		return;
	lh_sparse_gather_close(t->across);
	lh_halves_close(&t->inner);
	lh_sparsifier_free(t->sparsifier);
	lh_collective_program_free(t->program);
	for (uint32_t rank = 0; t->reckoned && rank < t->rank->n; rank++)
		lh_sparsifier_free(t->reckoned[rank]);
	free(t->reckoned);
	free(t->own);
	free(t->drawn);
	free(t->members);
	free(t->mean);
	free(t->scratch);
	free(t->expected);
	lh_topk_groups_done(&t->groups);
	free(t);
}

static int topk_peers(const struct lh_rank *rank, uint64_t n_values, bool *ret_wanted,
		      struct lh_error *err)
{
	struct lh_topk_groups groups;
	int rc = lh_topk_groups_init(rank->job, rank->self, &groups, err);

	(void)n_values;
	if (rc)
		return rc;
	for (uint32_t i = 0; i < groups.n_members; i++)
		ret_wanted[groups.inner[i]] = true;
	for (uint32_t i = 0; i < groups.n_groups; i++)
		ret_wanted[groups.across[i]] = true;
	ret_wanted[rank->self] = false;
	lh_topk_groups_done(&groups);
	return 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int open_inner(struct topk *t, struct lh_error *err)
{
	struct lh_halves_config config = {
		.rank = t->rank,
		.members = t->groups.inner,
		.n_members = t->groups.n_members,
		.elements = t->averaged.n,
		.slice_elements = UINT64_MAX,
		.codec = &lh_codec_none,
	};
	int rc;

	if (is_replayed(t))
		config.slice_elements = lh_sample_slice_elements(config.n_members, t->rank->n);
	rc = lh_halves_open(&config, &t->inner, err);
	t->slices = t->inner.slices;
	return rc;
}

static int open_across(struct topk *t, struct lh_error *err)
{
	uint32_t place = t->groups.place, real = lh_collective_slice_elements(t->slices, place);
	uint64_t share = lh_shard_elements(t->averaged.n, t->groups.n_members, place);
	struct lh_sparse_gather_config config = {
		.comm = t->rank->comm,
		.members = t->groups.across,
		.n_members = t->groups.n_groups,
		.self = t->rank->self,
		.elements = real,
		.host_bps = t->rank->me->averaging_bps,
	};
	struct lh_sparsifier_settings settings =
		lh_sparse_form_of(t->rank->job, t->rank->self, real);
	int rc;

	if (t->groups.n_groups == 1 || !share)
		return 0;
	t->settings = lh_sparse_form_of(t->rank->job, t->rank->self, (uint32_t)share);
	rc = lh_sparsifier_new(&settings, &t->sparsifier, err);
	return rc ? rc : lh_sparse_gather_open(&config, &t->across, err);
}

static int build_program(struct topk *t, struct lh_error *err)
{
	struct lh_collective_form form = {.elements = t->averaged.n, .n = t->groups.n_members};
	struct lh_collective_plan *plans = NULL;
	int rc = lh_collective_plans_make(&lh_collective_scatter_direct, &form, &plans, err);

	if (rc)
		return rc;
	rc = lh_collective_program_build(plans, form.n, &t->program, err);
	lh_collective_plans_free(plans, form.n);
	return rc;
}

/* Everybody's sparsifier. */
static int open_reckoned(struct topk *t, struct lh_error *err)
{
	uint32_t m = t->groups.n_members;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < t->rank->n; i++) {
		uint32_t rank = t->groups.ranks[i];
		uint32_t real = lh_collective_slice_elements(t->slices, i % m);
		struct lh_sparsifier_settings settings =
			lh_sparse_form_of(t->rank->job, rank, real);

		if (real)
			rc = lh_sparsifier_new(&settings, &t->reckoned[rank], err);
	}
	return rc;
}

static int open_reckoning(struct topk *t, struct lh_error *err)
{
	size_t longest = t->slices->longest + 1, all = t->slices->at[t->slices->n_chunks] + 1;
	int rc;

	t->own = calloc(all, sizeof(*t->own));
	t->expected = calloc(all, sizeof(*t->expected));
	t->drawn = calloc(longest * t->rank->n, sizeof(*t->drawn));
	t->members = calloc(longest * t->groups.n_members, sizeof(*t->members));
	t->mean = calloc(longest, sizeof(*t->mean));
	t->scratch = calloc(longest, sizeof(*t->scratch));
	t->reckoned = calloc(t->rank->n, sizeof(struct lh_sparsifier *));
	if (!t->own || !t->expected || !t->drawn || !t->members || !t->mean || !t->scratch ||
	    !t->reckoned)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	t->values = t->own;
	rc = build_program(t, err);
	return rc ? rc : open_reckoned(t, err);
}

static int open_all(struct topk *t, struct lh_error *err)
{
	int rc = t->rank->comm ? 0 : lh_rank_open_comm(t->rank, err);

	if (rc || (rc = lh_topk_groups_init(t->rank->job, t->rank->self, &t->groups, err)) ||
	    (rc = open_inner(t, err)) || (rc = open_across(t, err)))
		return rc;
	t->values = t->averaged.values;
	return is_replayed(t) ? open_reckoning(t, err) : 0;
}

static int topk_open(struct lh_rank *rank, struct lh_averaged averaged, void **ret_state,
		     struct lh_error *err)
{
	struct topk *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return lh_fail(err, LH_ESYS, ENOMEM, "open an averaging");
	t->rank = rank;
	t->averaged = averaged;
	rc = open_all(t, err);
	if (rc) {
		topk_close(t);
		return rc;
	}
	*ret_state = t;
	return 0;
}

/* ---- reckoning of what is replayed ---------------------------------------------------------- */

/* What comes of a share: the sum over the groups of what each sends of its mean. */
static void reckon_share(struct topk *t, uint32_t epoch, uint32_t share, uint32_t elements)
{
	const struct lh_topk_groups *g = &t->groups;
	float *expected = t->expected + t->slices->at[share];
	size_t bytes = elements * sizeof(*expected);

	memset(expected, 0, bytes);
	for (uint32_t group = 0; group < g->n_groups; group++) {
		const uint32_t *ranks = g->ranks + (size_t)group * g->n_members;

		for (uint32_t i = 0; i < g->n_members; i++)
			memcpy(t->members + (size_t)i * elements,
			       t->drawn + (size_t)ranks[i] * elements, bytes);
		lh_collective_program_run(t->program, share, &lh_codec_none, (float)g->n_members,
					  elements, t->members, t->scratch, t->mean);
		lh_codec_none.decode(t->mean, elements, t->scratch);
		if (g->n_groups == 1)
			memcpy(expected, t->scratch, bytes);
		else
			lh_sparse_add(lh_sparsifier_take(t->reckoned[ranks[share]], t->scratch,
							 epoch),
				      1, expected);
	}
	if (g->n_groups > 1)
		lh_collective_divide(expected, elements, (float)g->n_groups);
}

static void reckon(struct topk *t, uint32_t epoch, const uint64_t *samples, uint64_t total)
{
	uint32_t n = t->rank->n;

	for (uint32_t share = 0; share < t->groups.n_members; share++) {
		uint32_t elements = lh_collective_slice_elements(t->slices, share);

		if (!elements)
			continue;
		lh_sample_draw(t->rank->job->seed, epoch, share, n, elements, t->drawn);
		for (uint32_t rank = 0; rank < n; rank++)
			lh_sample_weigh(t->drawn + (size_t)rank * elements, elements, samples[rank],
					total, n);
		memcpy(t->own + t->slices->at[share], t->drawn + (size_t)t->rank->self * elements,
		       elements * sizeof(*t->own));
		reckon_share(t, epoch, share, elements);
	}
}

static int check_averages(const struct topk *t, uint32_t epoch, struct lh_error *err)
{
	uint64_t n = t->slices->at[t->slices->n_chunks], i = 0;

	if (memcmp(t->own, t->expected, n * sizeof(*t->own)) == 0)
		return 0;
	while (memcmp(&t->own[i], &t->expected[i], sizeof(*t->own)) == 0)
		i++;
	return lh_fail(err, LH_ERUN, 0,
		       "epoch %" PRIu32 ", number %" PRIu64 ": averaged to %.9g; expected %.9g",
		       epoch, i, (double)t->own[i], (double)t->expected[i]);
}

/* ---- averaging ------------------------------------------------------------------------------ */

/* The own share, averaged over all groups. */
static int run_across(struct topk *t, uint32_t epoch, struct lh_average *done, struct lh_error *err)
{
	uint32_t place = t->groups.place;
	float *share = t->values + t->slices->at[place];
	struct lh_collective_done round;
	int rc;

	if (!t->across)
		return 0;
	rc = lh_sparse_gather_round(t->across, epoch, done->group_samples,
				    lh_sparsifier_take(t->sparsifier, share, epoch),
				    lh_sparsifier_count_by(&t->settings, epoch), &round, err);
	if (rc || (rc = lh_sparse_gather_sum(t->across, share, err)))
		return rc;
	lh_collective_divide(share, lh_collective_slice_elements(t->slices, place),
			     (float)t->groups.n_groups);
	done->host_ns += round.host_ns;
	done->payload_sent_bytes += round.sent_bytes;
	done->payload_received_bytes += round.received_bytes;
	return 0;
}

static int topk_average(void *state, uint32_t epoch, const uint64_t *samples,
			struct lh_average *ret_average, struct lh_error *err)
{
	struct topk *t = state;
	struct lh_average done = {0};
	int rc;

	for (uint32_t rank = 0; rank < t->rank->n; rank++)
		done.group_samples += samples[rank];
	assert(done.group_samples);
	if (is_replayed(t))
		reckon(t, epoch, samples, done.group_samples);
	else
		lh_sample_weigh(t->values, t->averaged.n, samples[t->rank->self],
				done.group_samples, t->rank->n);
	if ((rc = lh_halves_scatter(&t->inner, epoch, t->values, &done, err)) ||
	    (rc = run_across(t, epoch, &done, err)) ||
	    (rc = lh_halves_gather(&t->inner, epoch, t->values, &done, err)))
		return rc;
	if (is_replayed(t)) {
		done.checked_elements = t->slices->at[t->slices->n_chunks];
		rc = check_averages(t, epoch, err);
	}
	*ret_average = done;
	return rc;
}

int lh_hierarchical_topk_check(const struct lh_job *job, struct lh_error *err)
{
	struct lh_topk_groups groups;
	int rc = lh_sparse_form_check(job, err);

	if (rc)
		return rc;
	if (job->settings.has_node_level == job->settings.has_site_level)
		return lh_fail(err, LH_EINPUT, 0, "strategy.levels: expected one of node and site");
	if (job->compressing.clip_norm > 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "compress.clip_norm: no rank's own gradient is sparsified; expected "
			       "none");
	rc = lh_topk_groups_init(job, 0, &groups, err);
	lh_topk_groups_done(&groups);
	return rc;
}

const struct lh_averaging_ops lh_averaging_hierarchical_topk = {
	.name = "hierarchical-topk",
	.peers = topk_peers,
	.open = topk_open,
	.average = topk_average,
	.close = topk_close,
};
