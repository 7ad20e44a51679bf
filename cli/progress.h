/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of a run for the person who waits: one line that changes on a terminal, a line
 * every ten seconds elsewhere. Reads what the run has written so far. */
#ifndef LH_CLI_PROGRESS_H
#define LH_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lh_progress {
	const char *run_dir; /* borrowed */
	const char *name;    /* of the scenario, borrowed */
	int64_t n_epochs;    /* 0: a command runs, and reports as it likes */
	bool quiet;
	bool on_terminal;
	int64_t begin_ns;    /* wall clock of this process */
	int64_t next_ns;     /* when the next line is due */
	int64_t training_ns; /* when the first event was seen; 0: not yet */
	size_t read_bytes;   /* of rank 0's events */
	int64_t epochs_done; /* or reports */
	int64_t epoch_ns;    /* when the last of them was seen */
};

void lh_progress_start(struct lh_progress *progress, const char *run_dir, const char *name,
		       int64_t n_epochs, bool quiet);

/* Looks and, when it is time, prints. context is a struct lh_progress. */
void lh_progress_tick(void *context);

/* Ends the changing line. */
void lh_progress_stop(struct lh_progress *progress);

#endif
