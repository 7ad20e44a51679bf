/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind collect.h share. */
#ifndef LH_COLLECT_COLLECT_INTERNAL_H
#define LH_COLLECT_COLLECT_INTERNAL_H

#include "collect/collect.h"
#include "collect/events.h"
#include "collect/traffic.h"

/*
 * Checks that what must be equal is, in every finished epoch: the samples of the ranks and of the
 * epoch, payload sent and received, and for strategy butterfly the payload of all ranks and
 * 2 (N - 1) P elements. LH_ERUN names the epoch and both numbers.
 */
int lh_conservation_check(const struct lh_scenario *sc, const struct lh_run_events *events,
			  struct lh_error *err);

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
