/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of the guest agree on. */
#ifndef LH_EMULATOR_GUEST_INTERNAL_H
#define LH_EMULATOR_GUEST_INTERNAL_H

/* In the run's folder: what is there only while the guest runs. */
#define LH_GUEST_FOLDER ".guest"
/* ... what a program is started with; see command.h. */
#define LH_GUEST_COMMAND LH_GUEST_FOLDER "/command.json"
/* ... grows every virtual second. */
#define LH_GUEST_HEARTBEAT LH_GUEST_FOLDER "/heartbeat"

/* What its kernel says. */
#define LH_GUEST_LOG "guest.log"

/* The word for a trainer where there is none: a command runs. */
#define LH_GUEST_NO_TRAINER "-"

/* The guest's console that a terminal's link is. */
#define LH_GUEST_LINK_CONSOLE "con1"
#define LH_GUEST_LINK_DEVICE "/dev/tty1"

/* The last word that the guest's init is given: which clock it runs by, or that it is the network
 * alone (by the real clock). */
#define LH_GUEST_VIRTUAL "virtual"
#define LH_GUEST_REAL "real"
#define LH_GUEST_WAN "wan"

/*
 * A path as one word of a kernel command line: bytes other than letters, digits and / . _ -
 * become %XX. Owned by the caller; NULL when memory is out.
 */
char *lh_guest_encode(const char *path);

/* The reverse, in place. */
void lh_guest_decode(char *word);

#endif
