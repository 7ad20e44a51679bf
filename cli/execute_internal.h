/* SPDX-License-Identifier: Apache-2.0 */
/* A run under way: what the files that make one share. */
#ifndef LH_CLI_EXECUTE_INTERNAL_H
#define LH_CLI_EXECUTE_INTERNAL_H

#include <time.h>

#include "cli/execute.h"
#include "cli/progress.h"

struct lh_run {
	const struct lh_execution *ex;
	const struct lh_command *command; /* NULL: trainers, or a proof */
	char *dir;			  /* where it is made, renamed to out at the end */
	int lock_fd;			  /* on it, for as long as this process lives; -1: none */
	char *trainer;
	char *kernel;
	enum lh_backend backend;
	int stop_fd;
	int stop_signal;
	struct timespec begin;
	struct lh_progress progress;
	void (*tick)(void *context);
	void *context;
};

/* Opens a descriptor for the signals that end a run. */
int lh_run_open_signals(bool has_command, int *ret_fd, struct lh_error *err);

/* Runs the engine, in a process here or in a guest, and reads its verdict: 0, LH_EMEASURE,
 * LH_EUNFIT, LH_EENV, LH_ERUN, LH_ESIGNAL. */
int lh_run_backend(struct lh_run *run, struct lh_error *err);

#endif
