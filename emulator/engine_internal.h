/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine and what it runs share. */
#ifndef LH_EMULATOR_ENGINE_INTERNAL_H
#define LH_EMULATOR_ENGINE_INTERNAL_H

#include <stdio.h>
#include <sys/resource.h>

#include "emulator/churn.h"
#include "emulator/engine.h"
#include "emulator/fitness.h"
#include "emulator/network.h"
#include "emulator/probe.h"
#include "emulator/probe_internal.h"
#include "emulator/timeline.h"

enum { LH_SAMPLE_NS = LH_NS_PER_S };

struct lh_cross;

/* A network that is up, and what runs in it. */
struct lh_engine {
	const struct lh_engine_request *req;
	struct lh_plan *plan;
	struct lh_wan *wan; /* NULL: the network is in this kernel */
	struct lh_net *net;
	struct lh_cross *cross; /* NULL: none */
	struct lh_fitness fitness;
	double peak_bps;    /* the most that any pair of nodes had in a second */
	int64_t sampled_ns; /* when counters were read last */
	struct lh_links links;
	struct lh_timeline *timeline; /* NULL: nothing changes */
	struct lh_churn *churn;	      /* NULL: no node goes or comes */
	FILE *counters;
	struct lh_net_counter *last; /* what was written last, per pair */
	struct lh_net_counter *now;
	struct rlimit file_limit; /* before the engine raised it for itself */
	int64_t begin_ns;	  /* of what runs */
	int64_t end_ns;
};

/* A path in the run's folder; owned by the caller. */
char *lh_engine_path(const struct lh_engine *e, const char *name);

/* Writes value, which it takes over, into the run's folder. */
int lh_engine_write_json(const struct lh_engine *e, const char *name, json_t *value,
			 struct lh_error *err);

/* Appends the counters that moved since the last time to counters.csv. Returns how many have,
 * or an error. */
int lh_engine_sample(struct lh_engine *e, struct lh_error *err);

/* Begins the timeline, with begin_ns as its time 0; and the same for nodes that go and come, with
 * what runs in them. */
int lh_engine_begin_timeline(struct lh_engine *e, struct lh_error *err);
int lh_engine_begin_churn(struct lh_engine *e, const struct lh_churn_ops *ops, void *context,
			  struct lh_error *err);

/* One trainer in every node, until all have ended. LH_ERUN where one fails. */
int lh_run_trainers(struct lh_engine *e, struct lh_error *err);

/* The scenario's command in the nodes that the request names, until all have ended; writes
 * exec.json. How the programs end is no error. */
int lh_run_commands(struct lh_engine *e, struct lh_error *err);

#endif
