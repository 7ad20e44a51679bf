/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sent how much to whom, second by second of the training: what the trainers say that they
 * sent (payload, control) beside what the emulated links counted (wire).
 *
 * An amount that is known for a span of time (a second of the trainer's or the engine's clock) is
 * spread evenly over the seconds since the begin of the training that it overlaps, in whole
 * units, so that sums are exact. A span that reaches over the begin or the end of the training
 * counts as a whole; one outside does not count. A counter's span is the second before its sample,
 * or less where samples stand closer: what did not change since the last sample is not written.
 */
#ifndef LH_COLLECT_TRAFFIC_H
#define LH_COLLECT_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/events.h"
#include "collect/table.h"
#include "core/error.h"
#include "scenarios/scenario.h"

enum { LH_TRAFFIC_SECONDS_MAX = 10000000 };

/* To whom a site's nodes send over their inner networks, as in traffic.csv; no name of a site. */
#define LH_TRAFFIC_INSIDE_NODE "(inside node)"

/* The quantities of one directed pair in one second. */
enum lh_traffic_quantity {
	LH_TRAFFIC_PAYLOAD_BYTES,
	LH_TRAFFIC_CONTROL_BYTES,
	LH_TRAFFIC_WIRE_BYTES, /* with all headers; the next three are netem's counts */
	LH_TRAFFIC_ACK_BYTES,  /* pure acknowledgements, part of the wire bytes */
	LH_TRAFFIC_WIRE_PACKETS,
	LH_TRAFFIC_ACK_PACKETS,
	LH_N_TRAFFIC_QUANTITIES,
};

struct lh_traffic_second {
	int64_t amounts[LH_N_TRAFFIC_QUANTITIES];
};

struct lh_run_traffic {
	int64_t begin_ns;
	int64_t end_ns;
	size_t n_nodes;
	size_t n_sites;
	size_t n_seconds;
	bool has_counters;
	bool has_events;		  /* what was sent is known, not only what passed */
	struct lh_traffic_second **pairs; /* [from site x n_sites + to site], then, by site, inside
					     its nodes: n_seconds, or NULL */
	int64_t *wire_bytes;		  /* [from node x n_nodes + to node]: within the training;
					     of one node its inner network's */
	int64_t sent_bytes;		  /* payload and control, all nodes, within the training */
	int64_t dropped_packets;	  /* all nodes, within the training */
};

/*
 * Adds up the events' traffic and, where counters_path exists, the engine's counters, between
 * begin_ns and end_ns. *ret_traffic is the caller's, for lh_run_traffic_done. LH_EINPUT with
 * file:line for a counter that runs backwards, an unknown node or a malformed row; LH_ESYS.
 */
int lh_run_traffic_read(const struct lh_scenario *sc, const struct lh_run_events *events,
			const char *counters_path, int64_t begin_ns, int64_t end_ns,
			struct lh_run_traffic *ret_traffic, struct lh_error *err);

void lh_run_traffic_done(struct lh_run_traffic *traffic);

/* Fills *ret_table with the rows of traffic.csv; it is the caller's, for lh_table_done. */
void lh_run_traffic_format(const struct lh_scenario *sc, const struct lh_run_traffic *traffic,
			   struct lh_table *ret_table);

static inline void lh_cleanup_run_traffic_p(struct lh_run_traffic *traffic)
{
	lh_run_traffic_done(traffic);
}

#define lh_cleanup_run_traffic __attribute__((cleanup(lh_cleanup_run_traffic_p)))

#endif
