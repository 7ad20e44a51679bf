/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of collectives by the job's settings. See dense.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/strategy/dense.h"

enum { N_GROUPINGS = 2 }; /* by machine and by site */

/* Numbers ranks by the first of them that has the same name. */
static void group_by(const struct lh_job *job, size_t name_offset, uint32_t *ret_group_of)
{
	for (uint32_t i = 0; i < job->n_ranks; i++) {
		const char *name = (const char *)&job->ranks[i] + name_offset;
		uint32_t first = 0;

		while (strcmp((const char *)&job->ranks[first] + name_offset, name) != 0)
			first++;
		ret_group_of[i] = first;
	}
}

static int set_levels(struct lh_dense_form *f, const struct lh_job *job, struct lh_error *err)
{
	uint32_t n = job->n_ranks, n_levels = 0;

	f->group_of = calloc((size_t)n * N_GROUPINGS, sizeof(*f->group_of));
	if (!f->group_of)
		return lh_fail(err, LH_ESYS, ENOMEM, "group ranks");
	if (job->settings.has_node_level) {
		group_by(job, offsetof(struct lh_job_rank, vm), f->group_of);
		f->levels[n_levels++] =
			(struct lh_collective_level){f->group_of, LH_COLLECTIVE_AROUND};
	}
	if (job->settings.has_site_level) {
		group_by(job, offsetof(struct lh_job_rank, site), f->group_of + n);
		f->levels[n_levels++] =
			(struct lh_collective_level){f->group_of + n, LH_COLLECTIVE_AROUND};
	}
	/* across sites delays count, and every stream has its window */
	f->levels[n_levels++] = (struct lh_collective_level){NULL, LH_COLLECTIVE_ALL_TO_ALL};
	f->form.levels = f->levels;
	f->form.n_levels = n_levels;
	return 0;
}

/* The last dimension holds the nearest ranks, so it comes first; two as square as can be where none
 * are given. */
static void set_dimensions(struct lh_dense_form *f, const struct lh_job *job)
{
	uint32_t n = job->settings.n_dimensions, near = 1;

	for (uint32_t d = 1; d * d <= job->n_ranks; d++)
		if (job->n_ranks % d == 0)
			near = d;
	f->dimensions[0] = near;
	f->dimensions[1] = job->n_ranks / near;
	for (uint32_t i = 0; i < n; i++)
		f->dimensions[i] = job->settings.dimensions[n - 1 - i];
	f->form.dimensions = f->dimensions;
	f->form.n_dimensions = n ? n : 2;
}

static int set_order(struct lh_dense_form *f, const struct lh_job *job, struct lh_error *err)
{
	if (!job->ring_order)
		return lh_fail(err, LH_EINPUT, 0,
			       "strategy.order: shortest, but the job has no ring_order");
	f->form.members = job->ring_order;
	return 0;
}

static int set_bandwidths(struct lh_dense_form *f, const struct lh_job *job, struct lh_error *err)
{
	f->bandwidths = calloc(job->n_ranks, sizeof(*f->bandwidths));
	if (!f->bandwidths)
		return lh_fail(err, LH_ESYS, ENOMEM, "share a vector");
	for (uint32_t i = 0; i < job->n_ranks; i++) {
		if (job->ranks[i].bandwidth_bps == 0)
			return lh_fail(err, LH_EINPUT, 0,
				       "strategy.shards: bandwidth, but the job has none of rank "
				       "%" PRIu32,
				       i);
		f->bandwidths[i] = (double)job->ranks[i].bandwidth_bps;
	}
	f->form.bandwidths = f->bandwidths;
	return 0;
}

static uint32_t segments_of(const struct lh_job *job, uint64_t n_values)
{
	uint64_t bytes = job->compress->wire_bytes(n_values), size = job->settings.segment_bytes;
	uint64_t n = size ? (bytes + size - 1) / size : 1;

	if (n > LH_COLLECTIVE_SEGMENTS_MAX)
		n = LH_COLLECTIVE_SEGMENTS_MAX;
	return n ? (uint32_t)n : 1;
}

int lh_dense_form_init(struct lh_dense_form *ret_form, const struct lh_job *job,
		       const struct lh_collective_ops *ops, uint64_t n_values, struct lh_error *err)
{
	const struct lh_strategy_settings *settings = &job->settings;

	*ret_form = (struct lh_dense_form){
		.form = {.elements = n_values, .n = job->n_ranks, .n_segments = 1},
	};
	if (ops == &lh_collective_tree)
		ret_form->form.n_segments = segments_of(job, n_values);
	if (ops == &lh_collective_torus)
		set_dimensions(ret_form, job);
	if (ops == &lh_collective_hierarchical)
		return set_levels(ret_form, job, err);
	if (ops == &lh_collective_ring && settings->order == LH_ORDER_SHORTEST)
		return set_order(ret_form, job, err);
	if (ops == &lh_collective_butterfly && settings->shards == LH_SHARDS_BANDWIDTH)
		return set_bandwidths(ret_form, job, err);
	return 0;
}

void lh_dense_form_done(struct lh_dense_form *form)
{
	free(form->group_of);
	free(form->bandwidths);
	*form = (struct lh_dense_form){0};
}
