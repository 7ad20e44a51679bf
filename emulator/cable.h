/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cables between nodes on the host and a network in the guest: a TAP device at the node, which is
 * the guest's link vecN at the other end. Private to the emulator.
 *
 *   node (host) eth0 = TAP ~~~ vecN <-> eth0 --veth--> portN of the router (guest)
 */
#ifndef LH_EMULATOR_CABLE_H
#define LH_EMULATOR_CABLE_H

#include "emulator/network_internal.h"

enum { LH_CABLE_NAME_BYTES = 16 };

/* The name of the TAP device of node i in the namespace that the guest was started in. */
void lh_cable_tap_name(size_t i, char ret[LH_CABLE_NAME_BYTES]);

/*
 * In the guest, in the namespace of node i, where nl is: takes the link vecN from the home
 * namespace, brings it up, which makes the TAP device on the host, and hands every frame on from
 * it to link and back.
 */
int lh_cable_join(const struct lh_net *net, struct lh_nl *nl, size_t i, int link,
		  struct lh_error *err);

/* On the host, in the namespace of node i, where nl is: takes the TAP device from the home
 * namespace as eth0 with this address, and brings it up. */
int lh_cable_take(const struct lh_net *net, struct lh_nl *nl, size_t i, const uint8_t mac[6],
		  int *ret_link, struct lh_error *err);

/* Packets that the links of the current namespace dropped, lo apart. */
int lh_cable_read_drops(uint64_t *ret_drops, struct lh_error *err);

#endif
