/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a finished run's raw files (events, counters, engine.json, links.csv) to its tables:
 * epochs.csv, throughput.csv, traffic.csv and cost.csv of docs/formats.md, and the same in
 * memory for the command's output and the report. Never prints.
 */
#ifndef LH_COLLECT_COLLECT_H
#define LH_COLLECT_COLLECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/cost.h"
#include "collect/notes.h"
#include "collect/table.h"
#include "core/error.h"
#include "scenarios/scenario.h"

/* One number per run. NaN where it is not known. Times are means over epochs and ranks. */
struct lh_summary {
	size_t n_nodes;
	int64_t n_gpus;
	size_t n_epochs;       /* finished by all ranks */
	size_t n_epochs_asked; /* of the scenario */
	int64_t samples;       /* of all ranks and epochs; -1: not known */
	int64_t begin_ns;      /* of the first epoch */
	int64_t wall_ns;       /* of all epochs together */
	double throughput_sps; /* target batch x epochs / wall; of a command samples / wall */
	double local_sps;
	double calculation_s;
	double communication_s;
	double matchmaking_s;
	double wait_s;
	double host_s;
	double transfer_s;
	double apply_s;
	double granularity;   /* (wall - communication) / communication, of the means */
	double test_accuracy; /* the last; NaN: nothing was tested */
	double baseline_sps;  /* one node of the first machine */
	double speedup;
	double contribution_per_gpu;
	int64_t wire_bytes; /* all nodes; -1: not counted */
	int64_t sent_bytes; /* payload and control; -1: not known, as the next two */
	int64_t retransmits;
	int64_t timeouts;
	int64_t dropped_packets;
};

/* A run's results. Plain data to read; freed by lh_results_done. */
struct lh_results {
	char *scenario; /* name */
	int64_t seed;
	struct lh_summary summary;
	struct lh_published published; /* source is owned here */
	struct lh_table epochs;
	struct lh_table throughput;
	struct lh_table traffic;
	struct lh_table samples; /* of strategies whose ranks come and go; else all zeros */
	struct lh_cost cost;
	struct lh_table released; /* nodes that an elastic strategy did without; see released.h */
	bool is_valid;
	struct lh_notes invalid; /* why the run is not valid; empty where it is */
	struct lh_notes notes;	 /* what else the reader should know */
};

/*
 * Reads what the folder run_dir holds of a run of sc and writes its tables into it.
 * *ret_results is the caller's. A run that was cut or whose network missed its target gives
 * results that are not valid; LH_ERUN only where no epoch was finished or where sums that must
 * be equal are not (samples, payload); LH_EINPUT for a malformed file (file:line); LH_ESYS.
 */
int lh_collect_run(const char *run_dir, const struct lh_scenario *sc,
		   struct lh_results *ret_results, struct lh_error *err);

void lh_results_done(struct lh_results *results);

/* The summary, validity and tables but traffic, for --json; NULL where memory is out. */
json_t *lh_results_json(const struct lh_results *results);

/* The run as lines for a terminal of width columns (0: any), owned by the caller. LH_ESYS. */
int lh_results_format(const struct lh_results *results, size_t width, char **ret_text,
		      struct lh_error *err);

/*
 * Reads throughput.csv and cost.csv of n run folders that differ in their seed, and writes
 * path (repeat.csv: metric, n, mean, sd, ci95_low, ci95_high: Student's t). *ret_table
 * is the caller's, for lh_table_done. LH_EINPUT where the folders hold different scenarios or a
 * file is malformed; LH_ESYS.
 */
int lh_collect_repeat(const char *const *run_dirs, size_t n_run_dirs, const char *path,
		      struct lh_table *ret_table, struct lh_error *err);

#endif
