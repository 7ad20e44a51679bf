/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches from outside whether the guest's virtual clock passes: the guest's engine lets a
 * file grow every virtual second. Time stands still while anything in the guest can run, so a
 * program that spins stops it for good. Private to the guest.
 */
#ifndef LH_EMULATOR_GUEST_WATCH_H
#define LH_EMULATOR_GUEST_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct lh_watch {
	const char *heartbeat_path; /* absent: nothing runs yet, nothing is judged */
	pid_t kernel;		    /* the guest's kernel, whose children are its processes */
	int64_t limit_ns;	    /* of processor time; 0: never stuck */
	int64_t beats;
	int64_t cpu_ns; /* of the guest when the last beat was seen */
	unsigned looks;
};

/* Looks; call it a few times a second. True once the guest has computed for the limit without
 * a virtual second having passed. */
bool lh_watch_is_stuck(struct lh_watch *watch);

#endif
