/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that run a command share. */
#ifndef LH_EMULATOR_COMMANDS_INTERNAL_H
#define LH_EMULATOR_COMMANDS_INTERNAL_H

#include <poll.h>

#include "emulator/command.h"
#include "emulator/engine_internal.h"
#include "emulator/program.h"
#include "emulator/reports.h"

/* LH_COMMAND_AWAY: its node is, or goes and it has left before. */
enum lh_command_ending {
	LH_COMMAND_RUNNING,
	LH_COMMAND_ENDED,
	LH_COMMAND_STOPPED,
	LH_COMMAND_OUT_OF_TIME,
	LH_COMMAND_STOPPED_AS_ASKED,
	LH_COMMAND_AWAY
};

/* One node's program. */
struct lh_command_job {
	size_t rank; /* of the scenario; among those that run it is its place in the list */
	char *host_name;
	struct lh_program program;
	int file_fds[LH_N_REPORT_STREAMS]; /* where what it says is kept */
	char *fifo;			   /* that its reports come through; NULL: none */
	int fifo_fd;			   /* -1: none */
	struct lh_reports *reports;
	enum lh_command_ending ending;
	bool is_told; /* that its node goes away: if it ends, that is why */
	unsigned n_starts;
	int64_t begin_ns; /* of its last start */
	int64_t end_ns;
};

struct lh_command_jobs {
	struct lh_engine *e;
	const struct lh_command *command;
	struct lh_command_job *list;
	size_t n;
	char *hosts_path;
	char *report_path; /* in the nodes; NULL: none */
	bool has_made_report_file;
	char *doors_folder;	      /* NULL: none */
	struct lh_terminal *terminal; /* of the first job; NULL: none */
	struct pollfd *polled;	      /* one of each job's streams, the signals, the terminal's */
	int signal_fd;
	int heartbeat_fd; /* -1: nobody listens */
	int64_t beats;
	bool some_ended;   /* since one last looked */
	long first_failed; /* -1: none */
	int64_t deadline_ns;
	enum lh_command_ending deadline_is;
};

/* Makes folders, hosts file, jobs and what is waited for. LH_ERUN, LH_ESYS; release with
 * lh_command_jobs_done in any case. */
int lh_command_prepare(struct lh_command_jobs *jobs, struct lh_error *err);
void lh_command_jobs_done(struct lh_command_jobs *jobs);

/* Starts a node's program, for the first time or again: then without the terminal, whose other end
 * belongs to the one that was killed. */
int lh_command_start(struct lh_command_jobs *jobs, size_t rank, struct lh_error *err);

#endif
