/* SPDX-License-Identifier: Apache-2.0 */
/* Links, addresses, routes and neighbours through netlink. Private to the emulator. */
#ifndef LH_EMULATOR_LINK_H
#define LH_EMULATOR_LINK_H

#include <stdint.h>

#include "emulator/nl.h"

/* Makes a veth pair: name in the namespace of nl, peer in the one that peer_ns_fd holds. */
int lh_veth_add(struct lh_nl *nl, const char *name, const uint8_t mac[6], const char *peer,
		const uint8_t peer_mac[6], int peer_ns_fd, uint32_t mtu_bytes,
		struct lh_error *err);

/* An IPv4 address on every link, host byte order: never spoken to, but routed through. */
#define LH_GATEWAY (10u << 24 | 127u << 16 | 255u << 8 | 254u)

/* Index of the named link of the current namespace. */
int lh_link_index(const char *name, struct lh_error *err);

/* Brings a link up. */
int lh_link_up(struct lh_nl *nl, int ifindex, struct lh_error *err);

/*
 * Waits until a link of the namespace of nl (the calling thread's, too) really sends. A link whose
 * other end has come up throws packets away, uncounted, until a worker of the kernel has seen to
 * it, and that takes a hundred links a second. To ask about a link makes newer kernels (6.9) see to
 * it at once.
 */
int lh_link_wait(struct lh_nl *nl, int ifindex, const char *name, struct lh_error *err);

/* Gives a link the address with a /32 prefix (IPv4, host byte order). */
int lh_address_add(struct lh_nl *nl, int ifindex, uint32_t address, struct lh_error *err);

struct lh_route {
	uint32_t prefix;
	int prefix_len;
	uint32_t gateway;	 /* on the link, however it is addressed; 0: directly */
	uint32_t source;	 /* 0: none */
	uint32_t initial_window; /* segments; 0: the kernel's */
	uint32_t table;		 /* 0: the main one */
};

/* Routes out of a link. */
int lh_route_add(struct lh_nl *nl, int ifindex, const struct lh_route *route, struct lh_error *err);

/* Routes what comes in on a link by a table of its own first. */
int lh_rule_add(struct lh_nl *nl, const char *link, uint32_t table, struct lh_error *err);

/* Sets a permanent neighbour, so that no ARP is spoken. */
int lh_neighbour_add(struct lh_nl *nl, int ifindex, uint32_t address, const uint8_t mac[6],
		     struct lh_error *err);

#endif
