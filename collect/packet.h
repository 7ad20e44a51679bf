/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One captured packet, taken apart: link layer, IPv4 or IPv6, TCP. Reads no more than what
 * was captured; lengths are those of the wire.
 */
#ifndef LH_COLLECT_PACKET_H
#define LH_COLLECT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lh_packet_kind {
	LH_PACKET_TCP,
	LH_PACKET_OTHER,    /* not IP, or not TCP */
	LH_PACKET_FRAGMENT, /* of IP: its TCP is not whole */
	LH_PACKET_CUT,	    /* too little of it was captured */
	LH_PACKET_DAMAGED,  /* its lengths do not fit each other */
	LH_N_PACKET_KINDS,
};

enum lh_tcp_flag { LH_TCP_FIN = 1, LH_TCP_SYN = 2, LH_TCP_RST = 4, LH_TCP_ACK = 16 };

enum { LH_ADDRESS_BYTES = 16 };

struct lh_packet {
	int64_t t_ns;
	uint8_t ip_version;
	uint8_t from[LH_ADDRESS_BYTES]; /* IPv4: the first four, the others 0 */
	uint8_t to[LH_ADDRESS_BYTES];
	uint16_t from_port;
	uint16_t to_port;
	uint32_t seq;
	uint32_t ack;
	uint16_t window; /* as it stands there: not scaled */
	uint8_t flags;	 /* enum lh_tcp_flag, and others */
	uint16_t mss;	 /* 0: the option is not there */
	bool has_timestamps;
	uint32_t wire_bytes;   /* from the link's header on; of a super-packet: as it was seen */
	uint32_t header_bytes; /* of all layers together */
	uint32_t payload_bytes;
};

/* Whether captures of this link type (DLT_ of libpcap) can be read. */
bool lh_packet_knows_link(int link_type);

/* Takes bytes apart, n_captured of n_wire; t_ns is the caller's to fill in. */
enum lh_packet_kind lh_packet_parse(int link_type, const uint8_t *bytes, size_t n_captured,
				    size_t n_wire, struct lh_packet *ret_packet);

#endif
