/* SPDX-License-Identifier: Apache-2.0 */
/* From a run's raw files to its tables. See collect.h. */
#include "collect/collect.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collect/capture.h"
#include "collect/collect_internal.h"
#include "collect/released.h"
#include "core/cleanup.h"
#include "core/file.h"

static const struct lh_column columns_of_throughput[] = {
	{"scenario", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_KEEP},
	{"seed", NULL, LH_CELL_INT, 0, 0, 9},
	{"nodes", NULL, LH_CELL_INT, 0, 0, 8},
	{"gpus", NULL, LH_CELL_INT, 0, 0, 8},
	{"epochs", NULL, LH_CELL_INT, 0, 0, 8},
	{"samples", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_HIDE},
	{"wall_s", "wall s", LH_CELL_REAL, 9, 1, 7},
	{"throughput_sps", "SPS", LH_CELL_REAL, 3, 1, LH_COLUMN_KEEP},
	{"local_sps", "local SPS", LH_CELL_REAL, 3, 1, 6},
	{"calculation_s", "calc s", LH_CELL_REAL, 6, 2, 3},
	{"communication_s", "comm s", LH_CELL_REAL, 6, 2, 1},
	{"matchmaking_s", "match s", LH_CELL_REAL, 6, 2, LH_COLUMN_HIDE},
	{"granularity", NULL, LH_CELL_REAL, 4, 2, 1},
	{"baseline_sps", "baseline SPS", LH_CELL_REAL, 3, 1, 7},
	{"speedup", "speed-up", LH_CELL_REAL, 4, 2, 2},
	{"contribution_per_gpu", "per GPU", LH_CELL_REAL, 4, 2, 5},
	{"valid", NULL, LH_CELL_INT, 0, 0, LH_COLUMN_KEEP},
	{"published_throughput_sps", "published SPS", LH_CELL_REAL, 3, 1, 4},
	{"published_granularity", "published granularity", LH_CELL_REAL, 4, 2, LH_COLUMN_HIDE},
	{"published_comm_s", "published comm s", LH_CELL_REAL, 3, 2, LH_COLUMN_HIDE},
	{"published_source", NULL, LH_CELL_TEXT, 0, 0, LH_COLUMN_HIDE},
};

/* NaN for the -1 of "unknown". */
static double known_or_nan(double value)
{
	return value >= 0 ? value : NAN;
}

static void put_throughput(struct lh_results *results)
{
	const struct lh_summary *s = &results->summary;
	const struct lh_published *p = &results->published;
	struct lh_table *table = &results->throughput;

	lh_table_init(table, columns_of_throughput,
		      sizeof(columns_of_throughput) / sizeof(columns_of_throughput[0]));
	lh_table_row(table);
	lh_table_put_text(table, results->scenario);
	lh_table_put_int(table, results->seed);
	lh_table_put_int(table, (int64_t)s->n_nodes);
	lh_table_put_int(table, s->n_gpus);
	lh_table_put_int(table, (int64_t)s->n_epochs);
	if (s->samples >= 0)
		lh_table_put_int(table, s->samples);
	else
		lh_table_skip(table);
	lh_table_put_real(table, (double)s->wall_ns * 1e-9);
	lh_table_put_real(table, s->throughput_sps);
	lh_table_put_real(table, s->local_sps);
	lh_table_put_real(table, s->calculation_s);
	lh_table_put_real(table, s->communication_s);
	lh_table_put_real(table, s->matchmaking_s);
	lh_table_put_real(table, s->granularity);
	lh_table_put_real(table, s->baseline_sps);
	lh_table_put_real(table, s->speedup);
	lh_table_put_real(table, s->contribution_per_gpu);
	lh_table_put_int(table, results->is_valid);
	lh_table_put_real(table, known_or_nan(p->throughput_sps));
	lh_table_put_real(table, known_or_nan(p->granularity));
	lh_table_put_real(table, known_or_nan(p->comm_s));
	lh_table_put_text(table, p->source);
}

/* The GPUs of a node that are in use: of one with an inner network one for each rank. */
static int64_t n_gpus_of(const struct lh_node *node)
{
	return node->machine->inner.bandwidth_bps > 0 ? (int64_t)node->n_ranks
						      : node->machine->gpus;
}

static void summarize_nodes(const struct lh_scenario *sc, const struct lh_run_events *events,
			    struct lh_summary *s)
{
	const struct lh_profile_entry *profile = sc->nodes[0].profile;

	s->n_nodes = sc->n_nodes;
	s->n_epochs_asked = (size_t)sc->workload.epochs;
	for (size_t n = 0; n < sc->n_nodes; n++) {
		const struct lh_machine *machine = sc->nodes[n].machine;

		if (sc->model || machine->gpu)
			s->n_gpus += n_gpus_of(&sc->nodes[n]);
	}
	for (size_t r = 0; r < sc->n_ranks; r++) {
		s->retransmits += events->ranks[r].retransmits;
		s->timeouts += events->ranks[r].timeouts;
	}
	if (!sc->model)
		s->retransmits = s->timeouts = -1;
	s->baseline_sps = profile && profile->samples_per_s > 0 ? profile->samples_per_s : NAN;
	s->speedup = s->throughput_sps / s->baseline_sps;
	s->contribution_per_gpu = s->n_gpus > 0 ? s->speedup / (double)s->n_gpus : NAN;
}

/* Samples by node; owned by the caller. */
static int64_t *count_node_samples(const struct lh_scenario *sc, const struct lh_run_events *events)
{
	int64_t *samples = calloc(sc->n_nodes, sizeof(*samples));

	for (size_t r = 0; samples && r < sc->n_ranks; r++)
		for (size_t i = 0; i < events->n_finished; i++)
			samples[sc->ranks[r].node] += lh_run_events_epoch(events, r, i)->samples;
	return samples;
}

/* When what ran began, by engine.json or, of a run that was cut, by the first rank that started. */
static int read_begin(const char *run_dir, const struct lh_run_events *events, int64_t *ret_ns,
		      struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(run_dir, "engine.json");
	lh_cleanup_json json_t *engine = NULL;
	int r = path && lh_path_exists(path) ? lh_json_read(path, &engine, err) : 0;

	*ret_ns = json_integer_value(json_object_get(engine, "begin_ns"));
	for (size_t i = 0; !*ret_ns && i < events->n_ranks; i++)
		*ret_ns = events->ranks[i].start_ns;
	return r;
}

/* Says so where a run took longer than interruptions were drawn for. */
static void note_end_of_spot(const struct lh_scenario *sc, int64_t end_ns, struct lh_notes *notes)
{
	int64_t for_ns = sc->spot.for_ns < 0 ? LH_SPOT_FOR_NS : sc->spot.for_ns;
	char length[64];

	if (sc->spot.mean_time_to_preemption_ns > 0 && end_ns > for_ns)
		lh_notes_add(notes, "spot interruptions were drawn for %s alone (spot.for)",
			     lh_unit_format(LH_UNIT_DURATION, for_ns, length, sizeof(length)));
}

/* For how long of the training each node was away; owned by the caller. */
static int count_away(const struct lh_scenario *sc, const struct lh_run_events *events,
		      const struct lh_run_faults *faults, const char *run_dir,
		      struct lh_results *results, int64_t **ret_away_ns, struct lh_error *err)
{
	const struct lh_summary *s = &results->summary;
	lh_cleanup_free int64_t *away_ns = calloc(sc->n_nodes, sizeof(*away_ns));
	int64_t begin_ns = 0;
	int r = away_ns ? read_begin(run_dir, events, &begin_ns, err)
			: lh_fail(err, LH_ESYS, ENOMEM, "read faults.csv");

	if (r < 0)
		return r;
	for (size_t i = 0; i < sc->n_nodes; i++)
		away_ns[i] = lh_run_faults_away_ns(faults, i, s->begin_ns - begin_ns,
						   s->begin_ns + s->wall_ns - begin_ns);
	if (faults->n_spans)
		lh_notes_add(&results->notes,
			     "nodes were preempted %zu times, came back %zu times and joined late "
			     "%zu times: faults.csv",
			     faults->n_preemptions, faults->n_returns, faults->n_joins);
	note_end_of_spot(sc, s->begin_ns + s->wall_ns - begin_ns, &results->notes);
	*ret_away_ns = lh_steal(&away_ns);
	return 0;
}

static int add_traffic_and_cost(const struct lh_scenario *sc, const struct lh_run_events *events,
				const char *run_dir, const int64_t *node_samples,
				const int64_t *away_ns, struct lh_results *results,
				struct lh_error *err)
{
	lh_cleanup_run_traffic struct lh_run_traffic traffic = {0};
	lh_cleanup_free char *counters = lh_path_join(run_dir, "counters.csv");
	struct lh_summary *s = &results->summary;
	struct lh_cost_usage usage = {.wall_ns = s->wall_ns,
				      .samples = s->samples,
				      .node_samples = node_samples,
				      .away_ns = away_ns};
	int r;

	if (!counters)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", run_dir);
	r = lh_run_traffic_read(sc, events, counters, s->begin_ns, s->begin_ns + s->wall_ns,
				&traffic, err);
	if (r < 0)
		return r;
	lh_run_traffic_format(sc, &traffic, &results->traffic);
	s->sent_bytes = traffic.has_events ? traffic.sent_bytes : -1;
	s->dropped_packets = traffic.dropped_packets;
	s->wire_bytes = traffic.has_counters ? 0 : -1;
	for (size_t i = 0; traffic.has_counters && i < sc->n_nodes * sc->n_nodes; i++)
		s->wire_bytes += traffic.wire_bytes[i];
	usage.wire_bytes = traffic.has_counters ? traffic.wire_bytes : NULL;
	return lh_cost_compute(sc, &usage, &results->cost, err);
}

static int write_tables(const char *run_dir, const struct lh_results *results, struct lh_error *err)
{
	const struct lh_table_file files[] = {
		{"epochs.csv", &results->epochs},
		{"throughput.csv", &results->throughput},
		{"traffic.csv", &results->traffic},
		{"cost.csv", &results->cost.table},
		{"released.csv", results->released.n_rows ? &results->released : NULL},
		{"samples.csv", results->samples.columns ? &results->samples : NULL},
	};

	return lh_table_write_all(files, sizeof(files) / sizeof(files[0]), run_dir, err);
}

/* Takes over what the results need of the scenario. */
static int copy_names(const struct lh_scenario *sc, struct lh_results *results,
		      struct lh_error *err)
{
	results->seed = sc->run.seed;
	results->published = sc->published;
	results->published.source = NULL;
	results->scenario = strdup(sc->name);
	if (sc->published.source)
		results->published.source = strdup(sc->published.source);
	if (!results->scenario || (sc->published.source && !results->published.source))
		return lh_fail(err, LH_ESYS, ENOMEM, "collect %s", sc->name);
	return 0;
}

/* Of gossip: how far apart ranks were before the last averaging. */
static void note_consensus(const struct lh_run_events *events, struct lh_notes *notes)
{
	double least = INFINITY, most = 0;

	for (size_t i = 0; i < events->n_ranks; i++) {
		double ratio = events->ranks[i].consensus_ratio;

		least = ratio < least ? ratio : least;
		most = ratio > most ? ratio : most;
	}
	if (most > 0)
		lh_notes_add(notes,
			     "before the last averaging the ranks' weights were %.3g %% to %.3g %% "
			     "away from their mean",
			     100 * least, 100 * most);
}

/* Epochs and summary of a run of trainers. */
static int compute_training(const struct lh_scenario *sc, const char *run_dir,
			    const struct lh_run_events *events, struct lh_results *results,
			    int64_t **ret_node_samples, struct lh_error *err)
{
	int r;

	if (events->n_finished == 0)
		return lh_fail(err, LH_ERUN, 0, "%s: no epoch was finished by all %zu ranks%s%s",
			       run_dir, sc->n_ranks, events->ranks[0].error ? ": " : "",
			       events->ranks[0].error ? events->ranks[0].error : "");
	r = lh_conservation_check(sc, events, err);
	if (r < 0)
		return r;
	note_consensus(events, &results->notes);
	if (lh_is_elastic(sc))
		r = lh_samples_compute(sc, events, &results->samples, &results->notes, err);
	if (r < 0)
		return r;
	lh_epochs_compute(sc, events, &results->epochs, &results->summary);
	*ret_node_samples = count_node_samples(sc, events);
	return *ret_node_samples ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "count samples");
}

static int fill(const char *run_dir, const struct lh_scenario *sc, struct lh_results *results,
		struct lh_error *err)
{
	lh_cleanup_run_events struct lh_run_events events = {0};
	lh_cleanup_run_faults struct lh_run_faults faults = {0};
	lh_cleanup_free char *events_dir = lh_path_join(run_dir, "events");
	lh_cleanup_free int64_t *node_samples = NULL;
	lh_cleanup_free int64_t *away_ns = NULL;
	int r;

	if (!events_dir)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", run_dir);
	results->summary.test_accuracy = NAN;
	r = copy_names(sc, results, err);
	if (r == 0)
		r = lh_run_faults_read(run_dir, sc, &faults, err);
	if (r == 0)
		r = lh_run_events_read(events_dir, sc->n_ranks, &faults, &events, err);
	if (r == 0)
		r = sc->model
			    ? compute_training(sc, run_dir, &events, results, &node_samples, err)
			    : lh_reports_compute(sc, run_dir, &events, results, &node_samples, err);
	if (r < 0)
		return r;
	summarize_nodes(sc, &events, &results->summary);
	r = count_away(sc, &events, &faults, run_dir, results, &away_ns, err);
	if (r == 0)
		r = add_traffic_and_cost(sc, &events, run_dir, node_samples, away_ns, results, err);
	if (r == 0)
		r = lh_validity_read(run_dir, &events, &results->summary, &results->invalid, err);
	if (r == 0)
		r = lh_capture_notes_read(run_dir, &results->notes, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < results->cost.notes.n_items; i++)
		lh_notes_add(&results->notes, "%s", results->cost.notes.items[i]);
	lh_released_compute(sc, results->summary.wall_ns, &results->cost, &results->released,
			    &results->notes);
	if (sc->run.charge_cpu)
		lh_notes_add(&results->notes,
			     "CPU time was charged: it passed in virtual time, that of emulating "
			     "included, and another run differs");
	results->is_valid = !results->invalid.n_items && !results->invalid.is_short;
	put_throughput(results);
	return write_tables(run_dir, results, err);
}

int lh_collect_run(const char *run_dir, const struct lh_scenario *sc,
		   struct lh_results *ret_results, struct lh_error *err)
{
	struct lh_results results = {0};
	int r = fill(run_dir, sc, &results, err);

	if (r < 0) {
		lh_results_done(&results);
		return r;
	}
	*ret_results = results;
	return 0;
}

void lh_results_done(struct lh_results *results)
{
	free(results->scenario);
	free(results->published.source);
	lh_table_done(&results->epochs);
	lh_table_done(&results->throughput);
	lh_table_done(&results->traffic);
	lh_table_done(&results->samples);
	lh_cost_done(&results->cost);
	lh_table_done(&results->released);
	lh_notes_done(&results->invalid);
	lh_notes_done(&results->notes);
	memset(results, 0, sizeof(*results));
}
