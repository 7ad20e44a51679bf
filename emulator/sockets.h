/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets that a kernel holds for programs that are gone. Private to the emulator. */
#ifndef LH_EMULATOR_SOCKETS_H
#define LH_EMULATOR_SOCKETS_H

#include "core/error.h"
#include "emulator/nl.h"

/* Whether the kernel can do what follows: LH_EENV where not. */
int lh_sockets_check(struct lh_error *err);

/* Ends every TCP socket of a network namespace, at once: what it had to send is forgotten, and its
 * peers are told by a reset alone. nl: NETLINK_SOCK_DIAG, opened there. LH_ESYS. */
int lh_sockets_end(struct lh_nl *nl, struct lh_error *err);

#endif
