/* SPDX-License-Identifier: Apache-2.0 */
/* The events of all ranks of a run, and the epochs of the group. See events.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect_internal.h"
#include "collect/events_internal.h"
#include "core/cleanup.h"
#include "core/file.h"

/* The file of an incarnation of a rank; owned by the caller. */
static char *path_of(const char *events_dir, size_t rank, unsigned incarnation)
{
	return incarnation ? lh_strf("%s/rank-%zu.%u.jsonl", events_dir, rank, incarnation)
			   : lh_strf("%s/rank-%zu.jsonl", events_dir, rank);
}

/* Reads what all incarnations of a rank have written. One that never started has written nothing;
 * what a lost one complained of is no failure of the run. */
static int read_rank(const char *events_dir, size_t rank_number, size_t n_ranks,
		     const struct lh_run_faults *faults, struct lh_rank_events *rank,
		     struct lh_error *err)
{
	size_t node = faults && faults->scenario ? faults->scenario->ranks[rank_number].node : 0;
	bool may_be_lost = faults && lh_run_faults_has(faults, node);
	bool is_lost = may_be_lost && lh_run_faults_is_away_at_end(faults, node);
	int r = 0;

	rank->was_away =
		may_be_lost || (faults && faults->scenario && lh_is_elastic(faults->scenario));
	for (unsigned k = 0; r == 0; k++) {
		lh_cleanup_free char *path = path_of(events_dir, rank_number, k);

		if (!path)
			return lh_fail(err, LH_ESYS, ENOMEM, "read %s", events_dir);
		if (may_be_lost && !lh_path_exists(path))
			break;
		free(rank->error);
		rank->error = NULL;
		r = lh_rank_events_read(path, rank_number, n_ranks, k > 0, rank, err);
		if (!may_be_lost)
			break;
	}
	if (is_lost) {
		free(rank->error);
		rank->error = NULL;
		rank->is_cut = false;
	}
	lh_rank_events_book(rank);
	return r;
}

static bool has_finished(const struct lh_rank_events *rank, size_t epoch)
{
	return epoch < rank->n_epochs && rank->epochs[epoch].is_finished;
}

/* Whether all that were there throughout have finished an epoch, and at least one has. */
static bool is_finished(const struct lh_run_events *events, size_t epoch)
{
	size_t n = 0;

	for (size_t r = 0; r < events->n_ranks; r++) {
		bool has = has_finished(&events->ranks[r], epoch);

		if (!has && !events->ranks[r].was_away)
			return false;
		n += has;
	}
	return n > 0;
}

static void count_finished(struct lh_run_events *events)
{
	size_t first = SIZE_MAX;

	for (size_t r = 0; r < events->n_ranks; r++) {
		size_t own = 0;

		while (own < events->ranks[r].n_epochs && !has_finished(&events->ranks[r], own))
			own++;
		if (own < events->ranks[r].n_epochs && own < first)
			first = own;
	}
	if (first == SIZE_MAX)
		return;
	events->first_epoch = first;
	while (is_finished(events, first + events->n_finished))
		events->n_finished++;
}

int lh_run_events_read(const char *events_dir, size_t n_ranks, const struct lh_run_faults *faults,
		       struct lh_run_events *ret_events, struct lh_error *err)
{
	struct lh_run_events events = {0};

	if (n_ranks < 1 || n_ranks > LH_EVENTS_RANKS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%zu ranks; expected 1 to %d", n_ranks,
			       LH_EVENTS_RANKS_MAX);
	events.ranks = calloc(n_ranks, sizeof(*events.ranks));
	if (!events.ranks)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", events_dir);
	events.n_ranks = n_ranks;
	for (size_t i = 0; i < n_ranks; i++) {
		int r = read_rank(events_dir, i, n_ranks, faults, &events.ranks[i], err);

		if (r < 0) {
			lh_run_events_done(&events);
			return r;
		}
	}
	count_finished(&events);
	*ret_events = events;
	return 0;
}

void lh_run_events_done(struct lh_run_events *events)
{
	for (size_t i = 0; events->ranks && i < events->n_ranks; i++) {
		struct lh_rank_events *rank = &events->ranks[i];

		for (size_t t = 0; t < rank->n_traffic; t++)
			free(rank->traffic[t].sent);
		free(rank->traffic);
		free(rank->epochs);
		lh_rank_samples_done(&rank->samples);
		free(rank->applies);
		free(rank->error);
	}
	free(events->ranks);
	memset(events, 0, sizeof(*events));
}

const struct lh_rank_epoch *lh_run_events_epoch(const struct lh_run_events *events, size_t rank,
						size_t index)
{
	static const struct lh_rank_epoch none = {0};
	size_t epoch = events->first_epoch + index;

	return has_finished(&events->ranks[rank], epoch) ? &events->ranks[rank].epochs[epoch]
							 : &none;
}

int64_t lh_run_events_epoch_begin_ns(const struct lh_run_events *events, size_t index)
{
	int64_t begin = INT64_MAX;

	if (index > 0)
		return lh_run_events_epoch_end_ns(events, index - 1);
	for (size_t r = 0; r < events->n_ranks; r++) {
		const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, 0);

		if (e->is_finished && e->begin_ns < begin)
			begin = e->begin_ns;
	}
	return begin;
}

int64_t lh_run_events_epoch_end_ns(const struct lh_run_events *events, size_t index)
{
	int64_t end = 0;

	for (size_t r = 0; r < events->n_ranks; r++) {
		int64_t e = lh_run_events_epoch(events, r, index)->end_ns;

		end = e > end ? e : end;
	}
	return end;
}
