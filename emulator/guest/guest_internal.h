/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides of the guest agree on. */
#ifndef LH_EMULATOR_GUEST_INTERNAL_H
#define LH_EMULATOR_GUEST_INTERNAL_H

/* The last word that the guest's init is given: which clock it runs by. */
#define LH_GUEST_VIRTUAL "virtual"
#define LH_GUEST_REAL "real"

/*
 * A path as one word of a kernel command line: bytes other than letters, digits and / . _ -
 * become %XX. Owned by the caller; NULL when memory is out.
 */
char *lh_guest_encode(const char *path);

/* The reverse, in place. */
void lh_guest_decode(char *word);

#endif
