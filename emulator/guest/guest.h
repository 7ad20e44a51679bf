/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The User-Mode-Linux guest: a Linux kernel that runs as an ordinary process, with netem,
 * and with a clock of its own that skips the time when nothing runs.
 */
#ifndef LH_EMULATOR_GUEST_H
#define LH_EMULATOR_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "emulator/command.h"

/* A guest that is the network alone (wan.h). */
struct lh_guest_wan {
	int line_fd;	 /* what its serial line is, inherited */
	size_t n_cables; /* TAP devices that it makes */
};

struct lh_guest_request {
	const char *kernel_path;  /* the guest's kernel */
	const char *program_path; /* absolute: this program, the guest's init */
	const char *trainer_path; /* absolute; not needed with a command */
	const char *run_dir;	  /* absolute; run.json in it holds the scenario */
	int64_t memory_bytes;
	int64_t seed;
	bool virtual_clock;
	bool charge_cpu;		  /* with it: CPU time passes */
	bool has_fine_clock;		  /* readings hardly move the virtual clock */
	const struct lh_command *command; /* runs the scenario's command; NULL: trainers */
	const struct lh_guest_wan *wan;	  /* runs no programs at all; NULL: it does */
	int64_t stuck_after_ns;		  /* of processor time without a virtual second; 0: never */
	int link_fd;			  /* of the command's terminal, where it has one */
	int stop_fd;			  /* readable: end the guest at once */
	void (*tick)(void *context);	  /* called about every 200 ms; may be NULL */
	void *context;
};

/*
 * Boots the guest, which runs the scenario of run_dir, and waits until it has halted. What
 * came of the run is in run_dir/engine.json. LH_EENV: no kernel, or it cannot run here;
 * LH_ERUN: it ended without a verdict (guest.log says more), or its clock stood still;
 * LH_ESIGNAL: stop_fd was
 * readable. No process of the guest outlives the call, nor this process.
 */
int lh_guest_run(const struct lh_guest_request *request, struct lh_error *err);

/* Starts the guest, which ends with this process; the caller waits for *ret_pid. */
int lh_guest_start(const struct lh_guest_request *request, pid_t *ret_pid, struct lh_error *err);

/* Removes what only a guest that runs needs. */
void lh_guest_clear(const char *run_dir);

/* Why a guest has ended without being asked to; returns an error always. */
int lh_guest_explain(const char *run_dir, struct lh_error *err);

/* The argument that makes the program act as the guest's init, followed by what
 * lh_guest_run adds. */
#define LH_GUEST_INIT_VERB "guest-init"

/* The guest's init: mounts, runs the engine, halts the guest. Does not return. */
_Noreturn void lh_guest_init(int argc, char **argv);

#endif
