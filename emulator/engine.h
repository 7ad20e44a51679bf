/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: builds a scenario's network in the kernel that it runs on, measures it, runs
 * the trainers or a command in it, and leaves files. The same code runs on a host with netem and as
 * the guest's init.
 */
#ifndef LH_EMULATOR_ENGINE_H
#define LH_EMULATOR_ENGINE_H

#include <stdbool.h>

#include "core/error.h"
#include "emulator/command.h"
#include "scenarios/scenario.h"

struct lh_wan_request;

struct lh_engine_request {
	const struct lh_scenario *scenario;
	const char *run_dir;	  /* absolute; exists */
	const char *trainer_path; /* absolute: longhaul-trainer; not needed with a command */
	bool owns_kernel;	  /* the kernel is ours alone: the guest's */
	const struct lh_command *command; /* runs the scenario's command; NULL: trainers */
	int link_fd; /* of the command's terminal, where it has one; see terminal.h */
	const char *heartbeat_path;	  /* grows by a byte every second of a command; or NULL */
	bool verifies;			  /* proves the network (verify.h), runs nothing in it */
	size_t verify_sample;		  /* how many pairs of nodes; 0: all */
	const struct lh_wan_request *wan; /* the network is in a guest, nodes are here; or NULL */
};

/*
 * Runs. Files in run_dir: network.json, links.csv, trainer.json, events/, counters.csv,
 * faults.csv where nodes go or come, engine.json (written last; with a command exec.json, hosts and
 * nodes/ in place of trainer.json and events/; with verifies only network.json, verify.csv,
 * verify.json, engine.json; see docs/formats.md). Returns 0 where engine.json says what came of it
 * (done, failed, unfit or invalid), or an error where not even that could be written.
 */
int lh_engine_run(const struct lh_engine_request *request, struct lh_error *err);

/* Removes what engines that were killed on this host have left: their cgroups. */
void lh_engine_clear_stale(void);

/* The job of the trainers (trainer.json) of a planned scenario that begin at begin_ns
 * (CLOCK_MONOTONIC); owned by the caller. */
struct lh_plan;
json_t *lh_trainer_job(const struct lh_plan *plan, int64_t begin_ns);

/* How long trainers try to connect, and how long a peer may be silent before it counts as
 * dead (at least a minute): more than any number of round trips that connecting takes. */
int64_t lh_start_timeout_ns(const struct lh_plan *plan);

#endif
