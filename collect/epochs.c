/* SPDX-License-Identifier: Apache-2.0 */
/* Times of each epoch, and what must be conserved. See collect_internal.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "collect/collect_internal.h"

#define S_PER_NS 1e-9

static const struct lh_column columns_of_epochs[] = {
	{"epoch", "epoch", LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"begin_s", "begin s", LH_CELL_REAL, 9, 1, 12},
	{"end_s", "end s", LH_CELL_REAL, 9, 1, LH_COLUMN_HIDE},
	{"samples", "samples", LH_CELL_INT, 0, 0, 10},
	{"wall_s", "wall s", LH_CELL_REAL, 9, 2, LH_COLUMN_KEEP},
	{"calculation_s", "calc s", LH_CELL_REAL, 6, 2, 2},
	{"communication_s", "comm s", LH_CELL_REAL, 6, 2, 1},
	{"matchmaking_s", "match s", LH_CELL_REAL, 6, 2, 9},
	{"wait_s", "wait s", LH_CELL_REAL, 6, 2, 5},
	{"host_s", "host s", LH_CELL_REAL, 6, 2, 6},
	{"transfer_s", "transfer s", LH_CELL_REAL, 6, 2, 4},
	{"apply_s", "apply s", LH_CELL_REAL, 6, 2, 7},
	{"throughput_sps", "SPS", LH_CELL_REAL, 3, 1, LH_COLUMN_KEEP},
	{"local_sps", "local SPS", LH_CELL_REAL, 3, 1, 8},
	{"granularity", "granularity", LH_CELL_REAL, 4, 2, 3},
	{"loss", "loss", LH_CELL_REAL, 6, 4, 11},
	{"accuracy", "accuracy", LH_CELL_REAL, 6, 4, 13},
	{"test_loss", "test loss", LH_CELL_REAL, 6, 4, 14},
	{"test_accuracy", "test acc", LH_CELL_REAL, 6, 4, 1},
};

void lh_epochs_table_init(struct lh_table *table)
{
	lh_table_init(table, columns_of_epochs,
		      sizeof(columns_of_epochs) / sizeof(columns_of_epochs[0]));
}

/* Whether what is sent in one epoch may come in another. */
static bool has_late_messages(const struct lh_scenario *sc)
{
	const char *kind = sc->workload.strategy.kind;

	return strcmp(kind, "parameter-server") == 0 || strcmp(kind, "ad-psgd") == 0;
}

/* Of a run that came to its end: by then all has come. */
static int check_all_payload(const struct lh_scenario *sc, const struct lh_run_events *events,
			     struct lh_error *err)
{
	int64_t sent = 0, received = 0;

	if (events->n_finished < (size_t)sc->workload.epochs)
		return 0;
	for (size_t r = 0; r < events->n_ranks; r++)
		for (size_t i = 0; i < events->n_finished; i++) {
			const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, i);

			sent += e->payload_sent_bytes;
			received += e->payload_received_bytes;
		}
	return sent == received ? 0
				: lh_fail(err, LH_ERUN, 0,
					  "the ranks sent %" PRId64
					  " bytes of payload and received %" PRId64,
					  sent, received);
}

/* How many ranks had a part in an epoch. */
static size_t count_ranks(const struct lh_run_events *events, size_t index)
{
	size_t n = 0;

	for (size_t r = 0; r < events->n_ranks; r++)
		n += lh_run_events_epoch(events, r, index)->is_finished;
	return n;
}

/* An epoch that some did not finish, their nodes being away: what they had done and sent before is
 * not in its sums, but it may have counted for the group. */
static int check_part(const struct lh_run_events *events, size_t index, struct lh_error *err)
{
	int64_t samples = 0;

	for (size_t r = 0; r < events->n_ranks; r++)
		samples += lh_run_events_epoch(events, r, index)->samples;
	for (size_t r = 0; r < events->n_ranks; r++) {
		const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, index);

		if (e->is_finished && e->group_samples < samples)
			return lh_fail(err, LH_ERUN, 0,
				       "epoch %zu: those that finished it computed %" PRId64
				       " samples together, but rank %zu ended it with %" PRId64,
				       events->first_epoch + index, samples, r, e->group_samples);
	}
	return 0;
}

/* Samples behind the averaging of an epoch, of which rank 0 says something. *since: of all epochs
 * after the last averaging, with this one. -1: not alike at all ranks. */
static int64_t averaged_samples(const struct lh_scenario *sc, int64_t samples, int64_t *since,
				const struct lh_rank_epoch *first)
{
	int64_t all = *since;

	switch (lh_scenario_averaged_samples(sc)) {
	case LH_AVERAGED_EPOCH:
		return samples;
	case LH_AVERAGED_PERIOD:
		*since = first->has_average ? 0 : all;
		return all;
	case LH_AVERAGED_SPAN:
		return first->average_samples;
	case LH_AVERAGED_OWN:
		break;
	}
	return -1;
}

/* Samples: of an epoch, and of what was averaged in it. */
static int check_samples(const struct lh_scenario *sc, const struct lh_run_events *events,
			 size_t index, int64_t *since, struct lh_error *err)
{
	const struct lh_rank_epoch *first = lh_run_events_epoch(events, 0, index);
	size_t number = events->first_epoch + index;
	int64_t samples = 0, averaged;

	for (size_t r = 0; r < events->n_ranks; r++)
		samples += lh_run_events_epoch(events, r, index)->samples;
	*since += samples;
	averaged = averaged_samples(sc, samples, since, first);
	for (size_t r = 0; r < events->n_ranks; r++) {
		const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, index);

		if (e->group_samples != samples)
			return lh_fail(err, LH_ERUN, 0,
				       "epoch %zu: the ranks computed %" PRId64
				       " samples together, but rank %zu ended it with %" PRId64,
				       number, samples, r, e->group_samples);
		if (e->has_average && averaged >= 0 && e->average_samples != averaged)
			return lh_fail(err, LH_ERUN, 0,
				       "epoch %zu: the ranks computed %" PRId64
				       " samples together, but rank %zu averaged %" PRId64,
				       number, averaged, r, e->average_samples);
	}
	return 0;
}

static int check_payload(const struct lh_scenario *sc, const struct lh_run_events *events,
			 size_t index, struct lh_error *err)
{
	size_t number = events->first_epoch + index;
	int64_t sent = 0, received = 0, expected = lh_scenario_payload_bytes(sc, (int64_t)number);

	for (size_t r = 0; r < events->n_ranks; r++) {
		const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, index);

		sent += e->payload_sent_bytes;
		received += e->payload_received_bytes;
	}
	if (sent != received && !has_late_messages(sc))
		return lh_fail(err, LH_ERUN, 0,
			       "epoch %zu: the ranks sent %" PRId64
			       " bytes of payload and received %" PRId64,
			       number, sent, received);
	if (expected >= 0 && sent != expected)
		return lh_fail(err, LH_ERUN, 0,
			       "epoch %zu: the ranks sent %" PRId64
			       " bytes of payload; strategy %s sends %" PRId64,
			       number, sent, sc->workload.strategy.kind, expected);
	return 0;
}

/* All ranks have stepped with the same averages, so those that came to the end hold the same
 * weights. */
static int check_weights(const struct lh_run_events *events, struct lh_error *err)
{
	const char *first = events->ranks[0].weights;

	for (size_t r = 1; r < events->n_ranks; r++) {
		const char *own = events->ranks[r].weights;

		if (*own && *first && strcmp(own, first) != 0)
			return lh_fail(err, LH_ERUN, 0,
				       "rank %zu ended with other weights than rank 0 (%s, %s)", r,
				       own, first);
	}
	return 0;
}

int lh_conservation_check(const struct lh_scenario *sc, const struct lh_run_events *events,
			  struct lh_error *err)
{
	int64_t since = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < events->n_finished; i++) {
		if (lh_is_elastic(sc) && strcmp(sc->workload.strategy.kind, "moshpit") == 0)
			continue;
		if (count_ranks(events, i) < events->n_ranks) {
			r = check_part(events, i, err);
			continue;
		}
		r = check_samples(sc, events, i, &since, err);
		if (r == 0)
			r = check_payload(sc, events, i, err);
	}
	if (r == 0 && has_late_messages(sc))
		r = check_all_payload(sc, events, err);
	return r ? r : check_weights(events, err);
}

/* Means over the ranks that had a part in one epoch, in seconds. */
struct means {
	double calculation_s;
	double matchmaking_s;
	double wait_s;
	double host_s;
	double transfer_s;
	double apply_s;
	double local_sps; /* a sum */
	int64_t samples;
};

static struct means means_of(const struct lh_run_events *events, size_t index)
{
	int64_t compute = 0, matchmaking = 0, wait = 0, average = 0, host = 0, apply = 0;
	double scale = S_PER_NS / (double)count_ranks(events, index);
	struct means m = {0};

	for (size_t r = 0; r < events->n_ranks; r++) {
		const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, index);

		compute += e->compute_ns;
		matchmaking += e->matchmaking_ns;
		wait += e->wait_ns;
		average += e->average_ns;
		host += e->host_ns;
		apply += e->apply_ns;
		m.samples += e->samples;
		if (e->compute_ns > 0)
			m.local_sps += (double)e->samples / ((double)e->compute_ns * S_PER_NS);
	}
	m.calculation_s = (double)compute * scale;
	m.matchmaking_s = (double)matchmaking * scale;
	m.wait_s = (double)wait * scale;
	m.host_s = (double)host * scale;
	m.transfer_s = (double)(average - host) * scale;
	m.apply_s = (double)apply * scale;
	return m;
}

/* What counts in an epoch, also of those that were lost before they could say so. */
static int64_t samples_of_group(const struct lh_run_events *events, size_t index)
{
	for (size_t r = 0; r < events->n_ranks; r++) {
		const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, index);

		if (e->is_finished)
			return e->group_samples;
	}
	return 0;
}

static double communication_of(const struct means *m)
{
	return m->wait_s + m->host_s + m->transfer_s + m->apply_s;
}

/* NaN without communication. */
static double granularity_of(double wall_s, double communication_s)
{
	double rest_s = wall_s - communication_s;

	/* ranks that are not in step may be in it together for longer than the group's epoch is */
	return communication_s > 0 ? (rest_s > 0 ? rest_s / communication_s : 0) : NAN;
}

/* The mean over all ranks of what they have learnt (or tested), weighted by what they counted. */
static struct lh_rank_score score_of(const struct lh_run_events *events, size_t index, bool is_test)
{
	struct lh_rank_score sum = {0};

	for (size_t r = 0; r < events->n_ranks; r++) {
		const struct lh_rank_epoch *e = lh_run_events_epoch(events, r, index);
		const struct lh_rank_score *score = is_test ? &e->tested : &e->learnt;

		sum.counted += score->counted;
		sum.loss += score->loss * (double)score->counted;
		sum.accuracy += score->accuracy * (double)score->counted;
	}
	if (sum.counted) {
		sum.loss /= (double)sum.counted;
		sum.accuracy /= (double)sum.counted;
	}
	return sum;
}

static void put_score(struct lh_table *table, const struct lh_rank_score *score)
{
	lh_table_put_real(table, score->counted ? score->loss : NAN);
	lh_table_put_real(table, score->counted ? score->accuracy : NAN);
}

static void put_epoch(struct lh_table *table, const struct lh_run_events *events, size_t index,
		      const struct means *m, int64_t target_batch)
{
	int64_t origin = lh_run_events_epoch_begin_ns(events, 0);
	int64_t begin = lh_run_events_epoch_begin_ns(events, index);
	int64_t end = lh_run_events_epoch_end_ns(events, index);
	double wall_s = (double)(end - begin) * S_PER_NS;
	struct lh_rank_score learnt = score_of(events, index, false);
	struct lh_rank_score tested = score_of(events, index, true);

	lh_table_row(table);
	lh_table_put_int(table, (int64_t)(events->first_epoch + index));
	lh_table_put_real(table, (double)(begin - origin) * S_PER_NS);
	lh_table_put_real(table, (double)(end - origin) * S_PER_NS);
	lh_table_put_int(table, m->samples);
	lh_table_put_real(table, wall_s);
	lh_table_put_real(table, m->calculation_s);
	lh_table_put_real(table, communication_of(m));
	lh_table_put_real(table, m->matchmaking_s);
	lh_table_put_real(table, m->wait_s);
	lh_table_put_real(table, m->host_s);
	lh_table_put_real(table, m->transfer_s);
	lh_table_put_real(table, m->apply_s);
	lh_table_put_real(table, (double)target_batch / wall_s);
	lh_table_put_real(table, m->local_sps);
	lh_table_put_real(table, granularity_of(wall_s, communication_of(m)));
	put_score(table, &learnt);
	put_score(table, &tested);
}

void lh_epochs_compute(const struct lh_scenario *sc, const struct lh_run_events *events,
		       struct lh_table *ret_table, struct lh_summary *summary)
{
	double n = (double)events->n_finished;

	lh_epochs_table_init(ret_table);
	for (size_t i = 0; i < events->n_finished; i++) {
		struct means m = means_of(events, i);
		struct lh_rank_score tested = score_of(events, i, true);

		if (lh_is_elastic(sc))
			m.samples = samples_of_group(events, i);
		put_epoch(ret_table, events, i, &m, sc->workload.target_batch);
		if (tested.counted)
			summary->test_accuracy = tested.accuracy;
		summary->samples += m.samples;
		summary->local_sps += m.local_sps / n;
		summary->calculation_s += m.calculation_s / n;
		summary->communication_s += communication_of(&m) / n;
		summary->matchmaking_s += m.matchmaking_s / n;
		summary->wait_s += m.wait_s / n;
		summary->host_s += m.host_s / n;
		summary->transfer_s += m.transfer_s / n;
		summary->apply_s += m.apply_s / n;
	}
	summary->n_epochs = events->n_finished;
	summary->begin_ns = lh_run_events_epoch_begin_ns(events, 0);
	summary->wall_ns =
		lh_run_events_epoch_end_ns(events, events->n_finished - 1) - summary->begin_ns;
	summary->throughput_sps =
		(double)sc->workload.target_batch * n / ((double)summary->wall_ns * S_PER_NS);
	summary->granularity =
		granularity_of((double)summary->wall_ns * S_PER_NS / n, summary->communication_s);
}
