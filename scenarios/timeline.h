/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scenario asks of a path in the course of time: events, traces and cut-offs together.
 * Pure: knows sites, not nodes.
 */
#ifndef LH_SCENARIOS_TIMELINE_H
#define LH_SCENARIOS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "scenarios/scenario.h"

/* Something that changes a directed path: from begin_ns until before end_ns. */
struct lh_track_source {
	int64_t begin_ns;
	int64_t end_ns; /* INT64_MAX: for ever */
	int rank;	/* of two that set the same, the one with the higher rank holds */
	unsigned sets;
	const struct lh_path_change *change; /* NULL: none */
	const struct lh_trace *trace;	     /* NULL: none */
	const struct lh_event *event;	     /* NULL: the network's own trace */
};

/* All that changes the path from one site to another, in order of rank and begin. */
struct lh_track {
	size_t from;
	size_t to;
	struct lh_track_source *sources;
	size_t n_sources;
};

/* The extremes of what a path has at any time, its state without changes included. */
struct lh_path_extremes {
	unsigned sets; /* all that changes at some time */
	int64_t delay_min_ns;
	int64_t delay_max_ns;
	int64_t bandwidth_min_bps; /* 0: nothing passes at times */
	int64_t bandwidth_max_bps;
	int64_t jitter_max_ns;	    /* 0: none at any time */
	double loss_max_ratio;	    /* 1: all is lost at times */
	double loss_burst_max_pkts; /* -1: losses are independent */
	double duplicate_max_ratio;
	double corrupt_max_ratio;
	double reorder_max_ratio;
	int64_t outage_max_ns; /* how long nothing comes through at a stretch; open ends left out */
};

/* Collects what changes the path between two sites (indices). LH_ESYS where memory is out.
 * Released with lh_track_done. */
int lh_track_make(const struct lh_scenario *scenario, size_t from, size_t to,
		  struct lh_track *ret_track, struct lh_error *err);
void lh_track_done(struct lh_track *track);

/* What holds at t_ns in place of the path's own values. */
void lh_track_at(const struct lh_track *track, int64_t t_ns, struct lh_path_change *ret_change);

/* When something may change next after t_ns (-1: from the begin on); INT64_MAX: never. */
int64_t lh_track_next_ns(const struct lh_track *track, int64_t t_ns);

/* Over all of [begin_ns, end_ns) where sources hold; spec: what the path has without them. */
void lh_track_extremes(const struct lh_track *track, const struct lh_path_spec *spec,
		       int64_t begin_ns, int64_t end_ns, struct lh_path_extremes *ret);

/* Whether an event is about the path from one site to another. */
bool lh_event_matches(const struct lh_event *event, const char *from, const char *to);

#endif
