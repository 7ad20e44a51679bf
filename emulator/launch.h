/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trainers as children: one per rank, in its namespace, ended by the kernel when
 * this process dies, reaped here. Private to the emulator.
 */
#ifndef LH_EMULATOR_LAUNCH_H
#define LH_EMULATOR_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "emulator/network.h"

struct lh_child {
	pid_t pid;  /* 0: reaped */
	int status; /* as from waitpid, once reaped */
};

/* Starts argv in the namespace of a rank, its standard output and error in log_path. */
int lh_child_start(const struct lh_net *net, size_t rank, char *const argv[], const char *log_path,
		   struct lh_child *ret_child, struct lh_error *err);

/* Waits for any child to end, for SIGALRM, and at most until CLOCK_MONOTONIC reaches until_ns, also
 * where none runs; reaps what has ended. Returns the number of children that still run. */
size_t lh_children_wait(struct lh_child *children, size_t n, int64_t until_ns);

/* How many have not been reaped. */
size_t lh_children_running(const struct lh_child *children, size_t n);

/* Asks a child to end (SIGTERM); nothing where it has been reaped. */
void lh_child_ask(const struct lh_child *child);

/* Kills and reaps all that still run. */
void lh_children_kill(struct lh_child *children, size_t n);

/* SIGCHLD and SIGALRM must be blocked for lh_children_wait to notice; this does it. Call once,
 * first. */
void lh_children_prepare(void);

#endif
