/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof of a running network: UDP packets with numbers and times between nodes, and for each
 * property of each path what was asked for beside what was measured.
 */
#ifndef LH_EMULATOR_VERIFY_H
#define LH_EMULATOR_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emulator/network.h"

enum lh_property {
	LH_PROPERTY_TIMER,	   /* how late the machine wakes, 99 of 100 times, ms */
	LH_PROPERTY_DELAY,	   /* one way, median, ms */
	LH_PROPERTY_DELAY_MEAN,	   /* the same with jitter: mean, ms */
	LH_PROPERTY_JITTER,	   /* standard deviation, ms */
	LH_PROPERTY_JITTER_SHAPE,  /* Kolmogorov-Smirnov distance */
	LH_PROPERTY_ORDER,	   /* packets overtaken that should not be */
	LH_PROPERTY_LOSS,	   /* share */
	LH_PROPERTY_LOSS_BURST,	   /* mean packets in a row */
	LH_PROPERTY_DUPLICATE,	   /* share */
	LH_PROPERTY_CORRUPT,	   /* share */
	LH_PROPERTY_REORDER,	   /* share */
	LH_PROPERTY_RATE,	   /* of full packets, Mbit/s on the wire */
	LH_PROPERTY_SERIALISATION, /* a full packet's beyond a short one's, ms */
	LH_PROPERTY_QUEUE,	   /* longest wait, ms */
	LH_PROPERTY_UPLINK_RATE,   /* of all nodes of a site together, Mbit/s */
	LH_PROPERTY_UPLINK_QUEUE,  /* longest wait before it, ms */
	LH_PROPERTY_DOWNLINK_RATE,
	LH_PROPERTY_DOWNLINK_QUEUE,
	LH_PROPERTY_INNER_RTT,	/* between the first two ranks of a node, ms */
	LH_PROPERTY_INNER_RATE, /* of one stream between them, Mbit/s of payload */
	LH_PROPERTY_FAULTS,	/* packets lost that nothing explains */
	LH_N_PROPERTIES,
};

/* One row: both nodes are -1 where it is about the whole network, and the same where it is about
 * the node's inner network; a site's link is named by one of its nodes, as the sender (uplink) or
 * receiver (downlink). */
struct lh_verify_row {
	enum lh_property property;
	long from_node;
	long to_node;
	double target;
	double achieved;  /* NAN: nothing came */
	double tolerance; /* beyond what chance allows, in the row's unit */
	double chance;	  /* what chance allows at the corrected level; 0: nothing */
	double p;	  /* of this or more by chance, tolerance taken off; -1: no chance in it */
	int64_t n;	  /* packets that it rests on */
	bool ok;
};

/* A quantile of the delays on a path with jitter, for the figure: nothing is judged by it. */
struct lh_verify_quantile {
	long from_node;
	long to_node;
	double share; /* of packets that are not later */
	double asked_ms;
	double achieved_ms;
	double asked_mean_ms;
	double asked_sd_ms;
	int64_t n; /* packets */
};

struct lh_verdict {
	struct lh_verify_row *rows;
	size_t n_rows;
	struct lh_verify_quantile *quantiles;
	size_t n_quantiles;
	size_t n_tests; /* rows with chance in them: each has its share of alpha */
	size_t n_paths; /* directed pairs of nodes that were measured, of all */
	size_t n_all_paths;
	double alpha;
	bool ok;
};

/*
 * Measures sample directed pairs of nodes, drawn by the scenario's seed (0: all of them). Main
 * thread only. *ret_verdict is released with lh_verdict_done.
 */
int lh_verify_run(struct lh_net *net, const struct lh_plan *plan, size_t sample,
		  struct lh_verdict *ret_verdict, struct lh_error *err);
void lh_verdict_done(struct lh_verdict *verdict);

/* "delay" ... as in verify.csv, and the unit ("ms", "" for a share). */
const char *lh_property_name(enum lh_property property);
const char *lh_property_unit(enum lh_property property);

/* Writes verify.csv, verify.json and, where there is jitter, jitter.csv into a folder
 * (docs/formats.md). */
int lh_verdict_write(const struct lh_verdict *verdict, const struct lh_plan *plan, const char *dir,
		     struct lh_error *err);

#endif
