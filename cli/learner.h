/* SPDX-License-Identifier: Apache-2.0 */
/* Running longhaul-learner for a person: its job, its events, its end. */
#ifndef LH_CLI_LEARNER_H
#define LH_CLI_LEARNER_H

#include <jansson.h>

#include "core/error.h"

/* Who listens to it. */
struct lh_learner_listener {
	void *context;
	/* An event; borrowed. 0, or an LH_E code that ends the learner. May be NULL. */
	int (*event)(void *context, const json_t *event, struct lh_error *err);
	/* Before something that the learner says is written to standard error. May be NULL. */
	void (*before_message)(void *context);
};

/*
 * Runs `longhaul-learner --TASK` (of a device: NULL: any but cuda) with a job (NULL: none) on its
 * standard input until it ends. Signals that end us are passed on; a second one kills it.
 * *ret_status is its exit status, which is not 0 where it failed, after it has said why; 128 +
 * signal where it was stopped. LH_EENV where there is no such program, LH_ERUN where it crashed or
 * spoke nonsense, LH_ESYS, and what the listener returned.
 */
int lh_cli_learner_run(const char *task, const char *device, const json_t *job,
		       const struct lh_learner_listener *listener, int *ret_status,
		       struct lh_error *err);

#endif
