/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From captured packets (pcap and pcapng, microseconds and nanoseconds, either byte order) to
 * tables of their TCP flows. Never prints.
 */
#ifndef LH_COLLECT_CAPTURE_H
#define LH_COLLECT_CAPTURE_H

#include <stdint.h>
#include <stdio.h>

#include "collect/notes.h"
#include "collect/packet.h"
#include "collect/table.h"
#include "core/error.h"

enum { LH_CONNECTIONS_MAX = 100000 }; /* of one file */

/* Nodes by their address. All zero: none are known. */
struct lh_node_names {
	struct lh_node_name {
		char *address; /* as it stands in tables */
		char *node;
	} * items;
	size_t n;
};

/* Reads them from a run's network.json. LH_ESYS, LH_EINPUT. */
int lh_node_names_read(const char *run_dir, struct lh_node_names *ret_names, struct lh_error *err);
void lh_node_names_done(struct lh_node_names *names);

/* What a capture consists of. */
struct lh_capture_tally {
	uint64_t packets;
	uint64_t kinds[LH_N_PACKET_KINDS];
	uint64_t connections;
	uint64_t left_out_packets; /* of connections beyond LH_CONNECTIONS_MAX */
};

/* The tables that captures are turned into. */
struct lh_capture_tables {
	const struct lh_node_names *names; /* borrowed */
	int64_t interval_ns;
	struct lh_table flows;
	FILE *intervals; /* CSV; borrowed */
};

/* Begins empty tables; the head of the intervals is written. */
void lh_capture_tables_init(struct lh_capture_tables *tables, const struct lh_node_names *names,
			    int64_t interval_ns, FILE *intervals);
void lh_capture_tables_done(struct lh_capture_tables *tables);

/* Where a capture comes from. */
struct lh_capture_source {
	const char *name; /* in tables and messages */
	const char *node; /* at whose link it was made; NULL: not known */
};

/*
 * Adds what is in a capture to the tables; takes `in` over. LH_EINPUT where it is none, or is
 * cut or damaged: what stands before that is in the tables all the same. LH_ESYS.
 */
int lh_capture_read(FILE *in, const struct lh_capture_source *source,
		    struct lh_capture_tables *tables, struct lh_capture_tally *ret_tally,
		    struct lh_error *err);

/* Adds sentences about what a run captured: how much, and what is missing in it. Nothing
 * where it captured nothing. LH_ESYS, LH_EINPUT. */
int lh_capture_notes_read(const char *run_dir, struct lh_notes *notes, struct lh_error *err);

#endif
