/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program reports of its progress, in what it says or in a file, as events of its rank
 * (events/rank-N.jsonl): stamped when it arrives. Private to the emulator.
 */
#ifndef LH_EMULATOR_REPORTS_H
#define LH_EMULATOR_REPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "scenarios/scenario.h"

/* Where reports come from. */
enum lh_report_stream { LH_REPORT_STDOUT, LH_REPORT_STDERR, LH_REPORT_FILE, LH_N_REPORT_STREAMS };

struct lh_reports;

/* Who reports, and how. */
struct lh_reports_spec {
	const struct lh_progress_spec *progress; /* borrowed, as node */
	const char *node;
	size_t rank;
	size_t n_ranks;
	bool is_synced; /* what is written is to be on disk at once */
};

/* Begins the events in path with `start`, at t_ns. *ret_reports is the caller's. LH_ESYS. */
int lh_reports_open(const char *path, const struct lh_reports_spec *spec, int64_t t_ns,
		    struct lh_reports **ret_reports, struct lh_error *err);

/* Takes n bytes that came from stream at t_ns; writes an event for each report in them. A report
 * that cannot be read gives an `error` event, once. LH_ESYS. */
int lh_reports_take(struct lh_reports *reports, enum lh_report_stream stream, const char *text,
		    size_t n, int64_t t_ns, struct lh_error *err);

/* Ends the events, at t_ns: takes a last line that has no end. */
int lh_reports_end(struct lh_reports *reports, int64_t t_ns, struct lh_error *err);

/* The same of a program that was killed: a last line that has no end is forgotten. */
int lh_reports_break_off(struct lh_reports *reports, int64_t t_ns, struct lh_error *err);

void lh_reports_free(struct lh_reports *reports);

#endif
