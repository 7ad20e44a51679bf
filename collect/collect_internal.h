/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind collect.h share. */
#ifndef LH_COLLECT_COLLECT_INTERNAL_H
#define LH_COLLECT_COLLECT_INTERNAL_H

#include "collect/collect.h"
#include "collect/events.h"
#include "collect/traffic.h"

/*
 * Checks that what must be equal is, in every finished epoch: the samples of the ranks and of the
 * epoch (or of what was averaged in it), payload sent and received, and the payload of all ranks
 * and the strategy's formula. LH_ERUN names the epoch and both numbers.
 */
int lh_conservation_check(const struct lh_scenario *sc, const struct lh_run_events *events,
			  struct lh_error *err);

/* Whether ranks come and go as the strategy likes: each epoch is of those that were there. */
bool lh_is_elastic(const struct lh_scenario *sc);

/*
 * Of such a run: checks that every micro-batch counts in one epoch or was lost, and makes the table
 * of them; a note where any was lost. *ret_table is the caller's. LH_ERUN names the rank and what
 * does not add up; LH_ESYS.
 */
int lh_samples_compute(const struct lh_scenario *sc, const struct lh_run_events *events,
		       struct lh_table *ret_table, struct lh_notes *notes, struct lh_error *err);

/* The columns of epochs.csv for matchmaking and for the parts of communication. */
enum { LH_EPOCH_PARTS = 5 };

/* Those of what a model that trains here has shown, beside its loss. */
enum { LH_EPOCH_SCORES = 3 };

/* Begins an empty epochs table. */
void lh_epochs_table_init(struct lh_table *ret_table);

/*
 * Fills epochs table, summary, notes and reasons of invalidity of a run of a command, by what its
 * programs reported; leaves of the events' epochs only those that were reported.
 * *ret_node_samples is owned by the caller, or NULL where it is not known which node had how many.
 * LH_ERUN where nothing was reported that counts; LH_EINPUT, LH_ESYS.
 */
int lh_reports_compute(const struct lh_scenario *sc, const char *run_dir,
		       struct lh_run_events *events, struct lh_results *results,
		       int64_t **ret_node_samples, struct lh_error *err);

/* Fills the epochs table and the summary's means. */
void lh_epochs_compute(const struct lh_scenario *sc, const struct lh_run_events *events,
		       struct lh_table *ret_table, struct lh_summary *summary);

/*
 * Adds to invalid why a run is not valid, by its engine.json and links.csv (a run of one
 * node needs no links.csv) and by what the summary and the events say. LH_EINPUT, LH_ESYS.
 */
int lh_validity_read(const char *run_dir, const struct lh_run_events *events,
		     const struct lh_summary *summary, struct lh_notes *invalid,
		     struct lh_error *err);

#endif
