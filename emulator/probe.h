/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of a running network: round trips of every pair of nodes, and TCP streams on every
 * directed pair of sites. What was asked for stands beside what was measured.
 */
#ifndef LH_EMULATOR_PROBE_H
#define LH_EMULATOR_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "emulator/network.h"

enum { LH_PROBE_FILES_MAX = 1100 }; /* descriptors that are open at once */

enum lh_link_kind {
	LH_LINK_RTT,
	LH_LINK_THROUGHPUT,
	LH_LINK_INNER_RTT, /* between the first two ranks of from_node, which is to_node */
	LH_LINK_INNER_THROUGHPUT,
};

/* One measurement. Units: RTT in ms, throughput in Mbit/s. Strings are borrowed. */
struct lh_link_row {
	enum lh_link_kind kind;
	size_t from_node;
	size_t to_node;
	int streams;
	double duration_s;
	double target;	 /* -1: none; nothing is judged */
	double achieved; /* -1: no answer */
	double tolerance_ratio;
	double tolerance_abs; /* in the row's unit, beside the ratio */
	bool ok;
	double published; /* -1: unknown */
	const char *published_source;
};

struct lh_links {
	struct lh_link_row *rows;
	size_t n_rows;
	bool ok; /* every judged row is within its tolerance */
};

/* Measures; *ret_links is released with lh_links_done. Main thread only. */
int lh_probe_run(struct lh_net *net, const struct lh_plan *plan, struct lh_links *ret_links,
		 struct lh_error *err);
void lh_links_done(struct lh_links *links);

/* Writes links.csv (docs/formats.md). */
int lh_links_write(const struct lh_links *links, const struct lh_plan *plan, const char *path,
		   struct lh_error *err);

#endif
