/* SPDX-License-Identifier: Apache-2.0 */
/* How the programs of a command ended, from exec.json. */
#ifndef LH_CLI_ENDING_H
#define LH_CLI_ENDING_H

#include <stddef.h>

struct lh_ending {
	int status;	 /* of the first program that failed, in time; 0: none has */
	char *what;	 /* that, in words; NULL: none has. Owned */
	char *host;	 /* of its node; NULL as above. Owned */
	char *last_line; /* that it said on standard error; NULL: none. Owned */
	size_t n_nodes;
};

/* Reads how the programs of a run ended; leaves ret as it is where they did not. */
void lh_ending_read(const char *run_dir, struct lh_ending *ret);

void lh_ending_done(struct lh_ending *ending);

#endif
