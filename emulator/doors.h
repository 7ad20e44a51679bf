/* SPDX-License-Identifier: Apache-2.0 */
/* Ways from one node into the others, for a person: the command longhaul-node. Private to the
 * emulator. */
#ifndef LH_EMULATOR_DOORS_H
#define LH_EMULATOR_DOORS_H

#include "emulator/network.h"

/* Puts longhaul-node and what it needs into folder, which exists, for the mount namespace of the
 * caller alone. LH_ESYS. */
int lh_doors_make(const struct lh_net *net, const char *folder, struct lh_error *err);

#endif
