/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process in a network of its own, where it may make links although it may not on the host.
 * Private to the emulator.
 */
#ifndef LH_EMULATOR_DETACH_H
#define LH_EMULATOR_DETACH_H

#include "core/error.h"

/*
 * Moves the calling process, which has one thread, into a new network namespace: with the rights
 * that it has or, without any, in a user namespace of its own, where it is root and its files
 * stay those of the user. LH_EENV says what the host has to allow.
 */
int lh_detach(struct lh_error *err);

/* Whether a process that has detached could make TAP devices here; run it in a child, which it
 * detaches. LH_EENV says what is missing and the command that mends it. */
int lh_detach_try(struct lh_error *err);

#endif
