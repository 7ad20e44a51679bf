/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of hierarchical top-k. See topk_groups.h. */
#include "trainer/strategy/topk_groups.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const struct lh_job *job, uint32_t rank)
{
	return job->settings.has_node_level ? job->ranks[rank].vm : job->ranks[rank].site;
}

/* Numbers groups in the order of their first ranks; how many there are. */
static uint32_t number_groups(const struct lh_job *job, uint32_t *ret_group_of)
{
	uint32_t n_groups = 0;

	for (uint32_t rank = 0; rank < job->n_ranks; rank++) {
		uint32_t first = 0;

		while (strcmp(name_of(job, first), name_of(job, rank)) != 0)
			first++;
		ret_group_of[rank] = first < rank ? ret_group_of[first] : n_groups++;
	}
	return n_groups;
}

/* Puts every rank at its place of its group, which must have one. */
static int place_ranks(const struct lh_job *job, const uint32_t *group_of, uint32_t self,
		       struct lh_topk_groups *g, struct lh_error *err)
{
	for (uint32_t group = 0; group < g->n_groups; group++) {
		uint32_t n = 0;

		for (uint32_t rank = 0; rank < job->n_ranks; rank++) {
			if (group_of[rank] != group)
				continue;
			if (n < g->n_members)
				g->ranks[group * g->n_members + n] = rank;
			if (rank == self) {
				g->group = group;
				g->place = n;
			}
			n++;
		}
		if (n != g->n_members)
			return lh_fail(err, LH_EINPUT, 0,
				       "strategy.levels: %s has %" PRIu32 " ranks, %s %" PRIu32
				       "; expected as many everywhere",
				       name_of(job, g->ranks[group * g->n_members]), n,
				       name_of(job, g->ranks[0]), g->n_members);
	}
	return 0;
}

static int fill(const struct lh_job *job, uint32_t self, uint32_t *group_of,
		struct lh_topk_groups *g, struct lh_error *err)
{
	int rc;

	g->n_groups = number_groups(job, group_of);
	for (uint32_t rank = 0; rank < job->n_ranks; rank++)
		g->n_members += group_of[rank] == 0;
	g->ranks = calloc((size_t)g->n_groups * g->n_members, sizeof(*g->ranks));
	g->across = calloc(g->n_groups, sizeof(*g->across));
	if (!g->ranks || !g->across)
		return lh_fail(err, LH_ESYS, ENOMEM, "group ranks");
	rc = place_ranks(job, group_of, self, g, err);
	if (rc)
		return rc;
	g->inner = g->ranks + (size_t)g->group * g->n_members;
	for (uint32_t group = 0; group < g->n_groups; group++)
		g->across[group] = g->ranks[group * g->n_members + g->place];
	return 0;
}

int lh_topk_groups_init(const struct lh_job *job, uint32_t self, struct lh_topk_groups *ret_groups,
			struct lh_error *err)
{
	uint32_t *group_of = calloc(job->n_ranks, sizeof(*group_of));
	int rc;

	*ret_groups = (struct lh_topk_groups){0};
	if (!group_of)
		return lh_fail(err, LH_ESYS, ENOMEM, "group ranks");
	rc = fill(job, self, group_of, ret_groups, err);
	free(group_of);
	if (rc)
		lh_topk_groups_done(ret_groups);
	return rc;
}

void lh_topk_groups_done(struct lh_topk_groups *groups)
{
	free(groups->ranks);
	free(groups->across);
	*groups = (struct lh_topk_groups){0};
}
