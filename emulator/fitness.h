/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a machine is fit for real time: how late its timers are, and how much more it carries
 * than was asked of it. Private to the emulator.
 */
#ifndef LH_EMULATOR_FITNESS_H
#define LH_EMULATOR_FITNESS_H

#include <jansson.h>
#include <stdbool.h>

#include "emulator/network.h"

struct lh_wan;

enum { LH_FITNESS_SLEEPS = 500 };

struct lh_fitness {
	bool is_measured;
	int64_t timer_p99_ns;	    /* of the kernel that runs the nodes */
	int64_t guest_timer_p99_ns; /* of the guest, where that is another one; -1: it is not */
	double carried_bps;	    /* by one TCP stream between two nodes, unshaped; -1: no two */
	double asked_bps;	    /* the largest rate that was */
	double load_average;	    /* of the last minute; -1: not known here */
	double stolen_ratio; /* of the processors' time, by other machines on the same host */
	bool ok;
	char message[LH_ERROR_MESSAGE_MAX]; /* which measure failed, and what to do */
};

/* The lateness, at the 99th percentile, of sleeps until a given instant. Takes half a second. */
int64_t lh_fitness_timer(void);

/* Measures on a network that has not been shaped yet (lh_net_open). wan may be NULL. */
int lh_fitness_measure(struct lh_net *net, const struct lh_plan *plan, struct lh_wan *wan,
		       struct lh_fitness *ret_fitness, struct lh_error *err);

/* Takes another measurement of the timers into account, in ms. */
void lh_fitness_note_timer(struct lh_fitness *fitness, double p99_ms);

/* The largest rate that a plan has between two nodes, bit/s. */
double lh_fitness_plan_bps(const struct lh_plan *plan);

/* Fills in asked_bps, ok and message; what was not measured is ok. */
void lh_fitness_judge(struct lh_fitness *fitness, const struct lh_fitness_spec *spec,
		      double asked_bps);

/* For engine.json; NULL where nothing was measured. Owned by the caller. */
json_t *lh_fitness_to_json(const struct lh_fitness *fitness, const struct lh_fitness_spec *spec);

#endif
