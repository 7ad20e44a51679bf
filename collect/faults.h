/* SPDX-License-Identifier: Apache-2.0 */
/* When nodes were away while a run went on: faults.csv (docs/formats.md), which only runs have in
 * which nodes may go or come. */
#ifndef LH_COLLECT_FAULTS_H
#define LH_COLLECT_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "scenarios/scenario.h"

/* From when to when a node was away, in ns from the begin of what ran. */
struct lh_away_span {
	size_t node;
	int64_t from_ns; /* 0: it was not there at the begin */
	int64_t to_ns;	 /* INT64_MAX: until the end */
};

/* All zero: no node was ever away. */
struct lh_run_faults {
	const struct lh_scenario *scenario; /* borrowed; NULL where there are none */
	struct lh_away_span *spans;	    /* owned, in order of their begins */
	size_t n_spans;
	size_t n_spans_room;
	size_t n_preemptions;
	size_t n_returns;
	size_t n_joins;
};

/* Reads faults.csv of the folder run_dir; none: nothing was away. *ret_faults is the caller's.
 * LH_EINPUT (file:line), LH_ESYS. */
int lh_run_faults_read(const char *run_dir, const struct lh_scenario *sc,
		       struct lh_run_faults *ret_faults, struct lh_error *err);
void lh_run_faults_done(struct lh_run_faults *faults);

/* Whether a node was away at some time, and whether it was at the end. */
bool lh_run_faults_has(const struct lh_run_faults *faults, size_t node);
bool lh_run_faults_is_away_at_end(const struct lh_run_faults *faults, size_t node);

/* For how long a node was away between two times, in ns from the begin of what ran. */
int64_t lh_run_faults_away_ns(const struct lh_run_faults *faults, size_t node, int64_t from_ns,
			      int64_t to_ns);

static inline void lh_cleanup_run_faults_p(struct lh_run_faults *faults)
{
	lh_run_faults_done(faults);
}

#define lh_cleanup_run_faults __attribute__((cleanup(lh_cleanup_run_faults_p)))

#endif
