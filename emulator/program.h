/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in a node, which is a host of its own to it: network, host name, names of the
 * other nodes, processes, shared memory. Whatever it starts ends with it, and all of it with
 * this process. Private to the emulator.
 */
#ifndef LH_EMULATOR_PROGRAM_H
#define LH_EMULATOR_PROGRAM_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "emulator/network.h"

/* What a program is started with. All borrowed. */
struct lh_program_spec {
	char *const *argv;
	char *const *environment; /* NAME=VALUE; ends with NULL */
	const char *cwd;
	const char *host_name;
	const char *hosts_path;	 /* what /etc/hosts is in the node */
	const char *report_fifo; /* stands in the node at report_path; or NULL */
	const char *report_path;
	const char *doors_folder;	 /* ways into the other nodes are made there; NULL: none */
	int input_fd;			 /* its standard input; 0: it is empty */
	bool is_terminal;		 /* input_fd is a terminal, and all its standard streams */
	const struct rlimit *file_limit; /* of open files */
};

struct lh_program {
	pid_t pid;	/* of the node's first process; 0: none, or reaped */
	int *result;	/* shared with it: as from waitpid, of the program itself */
	int out_fds[2]; /* what it says on standard output and error; -1: closed */
};

#define LH_PROGRAM_NONE ((struct lh_program){.out_fds = {-1, -1}})

/* Starts a program of a rank. */
int lh_program_start(const struct lh_net *net, size_t rank, const struct lh_program_spec *spec,
		     struct lh_program *ret_program, struct lh_error *err);

/* Reaps the program where it has ended; true then, or where it had been before. */
bool lh_program_has_ended(struct lh_program *program);

/* Its status as a shell says it: its own, or 128 + the signal that ended it. */
int lh_program_status(const struct lh_program *program);

/* The signal that ended it; 0: none. */
int lh_program_signal(const struct lh_program *program);

/* Asks it, and all that it has started, to end (SIGTERM). */
void lh_program_ask(const struct lh_program *program);

/* Ends it, with all that it has started, and reaps it. */
void lh_program_kill(struct lh_program *program);

/* Releases what belongs to it; kills it first. */
void lh_program_done(struct lh_program *program);

#endif
