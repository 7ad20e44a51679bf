/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: how delay, rate or loss of a path follow a table in time. Read from CSV, or computed
 * from a packet-delivery trace as the emulator Mahimahi uses them (mm-link(1)). Private to the
 * scenario room, but for looking up rows.
 */
#ifndef LH_SCENARIOS_TRACE_H
#define LH_SCENARIOS_TRACE_H

#include "core/error.h"
#include "core/yaml.h"
#include "scenarios/scenario.h"

struct lh_catalog;

#define LH_TRACE_STEP_NS INT64_C(1000000)		/* least time between two rows */
#define LH_TRACE_LENGTH_MAX_NS INT64_C(864000000000000) /* ten days */

/*
 * Where the trace (a mapping; NULL or another kind: nothing is done) names a file, puts its
 * content under `table`, and with a packet-delivery trace `repeat` and `length`. Faults go to
 * diag, with the file's own lines.
 */
void lh_trace_inline(const struct lh_catalog *catalog, struct lh_yaml *trace, const char *key_path,
		     struct lh_diag *diag);

/* Fills what is resolved from the trace's table; written is the trace's tree. Faults go to
 * diag. Release with lh_trace_done. */
void lh_trace_resolve(struct lh_trace *trace, const struct lh_yaml *written, const char *key_path,
		      struct lh_diag *diag);
void lh_trace_done(struct lh_trace *trace);

/* The row that holds t_ns after the trace's begin, or NULL before its first one. */
const struct lh_trace_row *lh_trace_row_at(const struct lh_trace *trace, int64_t t_ns);

/* When the next row begins after t_ns, or INT64_MAX. */
int64_t lh_trace_next_ns(const struct lh_trace *trace, int64_t t_ns);

#endif
