/* SPDX-License-Identifier: Apache-2.0 */
/* Whether samples add up, and the table of them. See collect_internal.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect_internal.h"
#include "core/cleanup.h"
#include "scenarios/strategy_kinds.h"

static const struct lh_column columns_of_samples[] = {
	{"rank", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"node", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"incarnation", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"computed_samples", "computed", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"committed_samples", "committed", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"given_up_samples", "given up", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"killed_samples", "killed", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
};

bool lh_is_elastic(const struct lh_scenario *sc)
{
	return sc->model &&
	       lh_section_kind_named(&lh_strategy_section, sc->workload.strategy.kind) &
		       LH_KINDS_ELASTIC;
}

/* By rank, incarnation, and the order in which micro-batches were done. */
static int compare_taken(const void *a, const void *b)
{
	const struct lh_taken *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->incarnation != y->incarnation)
		return x->incarnation < y->incarnation ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return (x->to > y->to) - (x->to < y->to);
}

/* All ranks' together, in that order; owned by the caller. */
static int gather(const struct lh_run_events *events, struct lh_taken **ret_taken, size_t *ret_n,
		  struct lh_error *err)
{
	size_t n = 0;

	for (size_t r = 0; r < events->n_ranks; r++)
		n += events->ranks[r].samples.n_taken;
	*ret_taken = calloc(n + 1, sizeof(**ret_taken));
	if (!*ret_taken)
		return lh_fail(err, LH_ESYS, ENOMEM, "add up samples");
	*ret_n = 0;
	for (size_t r = 0; r < events->n_ranks; r++) {
		const struct lh_rank_samples *s = &events->ranks[r].samples;

		for (size_t i = 0; i < s->n_taken; i++)
			(*ret_taken)[(*ret_n)++] = s->taken[i];
	}
	qsort(*ret_taken, n, sizeof(**ret_taken), compare_taken);
	return 0;
}

/* Micro-batches of an incarnation, by what became of them. */
struct sums {
	int64_t committed;
	int64_t given_up;
	int64_t killed;
};

/* Each micro-batch counts once or was given up once, in order and without a gap; only what was open
 * when the rank was killed is in neither. */
static int add_up(const struct lh_taken *taken, size_t n, const struct lh_incarnation *own,
		  size_t rank, size_t incarnation, struct sums *ret_sums, struct lh_error *err)
{
	int64_t at = 0;

	*ret_sums = (struct sums){0};
	for (size_t i = 0; i < n; i++) {
		const struct lh_taken *t = &taken[i];

		if (t->from == t->to)
			continue;
		if (t->from != at || t->to > own->computed)
			return lh_fail(err, LH_ERUN, 0,
				       "rank %zu.%zu: its micro-batches %" PRId64 " to %" PRId64
				       " %s epoch %" PRId64 "; expected them from %" PRId64
				       " on, of %" PRId64 " that it computed",
				       rank, incarnation, t->from, t->to,
				       t->is_committed ? "count in" : "were given up in", t->epoch,
				       at, own->computed);
		*(t->is_committed ? &ret_sums->committed : &ret_sums->given_up) += t->to - t->from;
		at = t->to;
	}
	ret_sums->killed = own->computed - at;
	if (own->has_ended && ret_sums->killed)
		return lh_fail(err, LH_ERUN, 0,
			       "rank %zu.%zu: %" PRId64 " of its micro-batches neither count nor "
			       "were given up",
			       rank, incarnation, ret_sums->killed);
	return 0;
}

static void put_row(struct lh_table *table, const struct lh_scenario *sc, size_t rank,
		    size_t incarnation, const struct sums *sums)
{
	const struct lh_node *node = lh_node_of(sc, rank);
	int64_t micro_batch = node->micro_batch;
	int64_t computed = sums->committed + sums->given_up + sums->killed;

	lh_table_row(table);
	lh_table_put_int(table, (int64_t)rank);
	lh_table_put_text(table, node->name);
	lh_table_put_int(table, (int64_t)incarnation);
	lh_table_put_int(table, computed * micro_batch);
	lh_table_put_int(table, sums->committed * micro_batch);
	lh_table_put_int(table, sums->given_up * micro_batch);
	lh_table_put_int(table, sums->killed * micro_batch);
}

/* Samples that count in each finished epoch must be what the ranks ended it with, and each rank's
 * what it says that it computed for it. */
static int check_epochs(const struct lh_scenario *sc, const struct lh_run_events *events,
			const struct lh_taken *taken, size_t n, struct lh_error *err)
{
	lh_cleanup_free int64_t *counted = calloc(events->n_finished + 1, sizeof(*counted));

	if (!counted)
		return lh_fail(err, LH_ESYS, ENOMEM, "add up samples");
	for (size_t i = 0; i < n; i++) {
		size_t index = (size_t)taken[i].epoch - events->first_epoch;
		int64_t samples =
			(taken[i].to - taken[i].from) * lh_node_of(sc, taken[i].rank)->micro_batch;
		const struct lh_rank_epoch *e;

		if (!taken[i].is_committed || index >= events->n_finished)
			continue;
		counted[index] += samples;
		e = lh_run_events_epoch(events, taken[i].rank, index);
		if (e->is_finished && e->samples != samples)
			return lh_fail(err, LH_ERUN, 0,
				       "epoch %" PRId64 ": %" PRId64
				       " samples of rank %zu count; it computed %" PRId64 " for it",
				       taken[i].epoch, samples, taken[i].rank, e->samples);
	}
	for (size_t i = 0; i < events->n_finished; i++)
		for (size_t r = 0; r < events->n_ranks; r++) {
			const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, i);

			if (e->is_finished && e->group_samples != counted[i])
				return lh_fail(err, LH_ERUN, 0,
					       "epoch %zu: %" PRId64
					       " samples count; rank %zu ended it with %" PRId64,
					       events->first_epoch + i, counted[i], r,
					       e->group_samples);
		}
	return 0;
}

int lh_samples_compute(const struct lh_scenario *sc, const struct lh_run_events *events,
		       struct lh_table *ret_table, struct lh_notes *notes, struct lh_error *err)
{
	lh_cleanup_free struct lh_taken *taken = NULL;
	struct sums all = {0}, own;
	size_t n = 0, at = 0;
	int r = gather(events, &taken, &n, err);

	lh_table_init(ret_table, columns_of_samples,
		      sizeof(columns_of_samples) / sizeof(columns_of_samples[0]));
	for (size_t rank = 0; r == 0 && rank < events->n_ranks; rank++) {
		const struct lh_rank_samples *s = &events->ranks[rank].samples;
		int64_t micro_batch = lh_node_of(sc, rank)->micro_batch;

		for (size_t k = 0; r == 0 && k < s->n_incarnations; k++) {
			size_t begin = at;

			while (at < n && taken[at].rank == rank && taken[at].incarnation == k)
				at++;
			r = add_up(taken + begin, at - begin, &s->incarnations[k], rank, k, &own,
				   err);
			if (r)
				break;
			put_row(ret_table, sc, rank, k, &own);
			all.committed += own.committed * micro_batch;
			all.given_up += own.given_up * micro_batch;
			all.killed += own.killed * micro_batch;
		}
	}
	if (r == 0 && at < n)
		r = lh_fail(err, LH_ERUN, 0,
			    "micro-batches of rank %zu.%zu count, which wrote no events",
			    taken[at].rank, taken[at].incarnation);
	if (r == 0)
		r = check_epochs(sc, events, taken, n, err);
	if (r == 0 && all.given_up + all.killed)
		lh_notes_add(notes,
			     "of %" PRId64 " samples that were computed %" PRId64 " count; %" PRId64
			     " were lost with ranks that were killed, %" PRId64
			     " were given up: samples.csv",
			     all.committed + all.given_up + all.killed, all.committed, all.killed,
			     all.given_up);
	return r;
}
