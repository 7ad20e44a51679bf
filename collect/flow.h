/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TCP did on one connection, from the packets that were seen at one place. A flow is one
 * direction of it: the data that one end sends, and the other end's acknowledgements of them.
 * Sequence numbers are held in 64 bits, so that they do not wrap. docs/formats.md (flows.csv)
 * defines each number.
 */
#ifndef LH_COLLECT_FLOW_H
#define LH_COLLECT_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/packet.h"

struct lh_flow_counts {
	uint64_t packets;
	uint64_t segments;   /* those with payload as the packets that a super-packet stands for */
	uint64_t wire_bytes; /* with headers, of as many packets as segments */
	uint64_t payload_bytes;
	uint64_t new_bytes; /* payload that was not seen before */
	uint64_t retransmitted_packets;
	uint64_t retransmitted_segments;
	uint64_t retransmitted_bytes;
	uint64_t out_of_order_packets;
	uint64_t duplicate_acks; /* of this flow's data */
	uint64_t keep_alives;
	uint64_t odd_packets; /* far outside any window: damaged on the way */
};

/* Values of which quantiles are asked for. Beyond a bound every second, fourth ... is kept. */
struct lh_samples {
	double *values;
	size_t n;
	size_t room;
	uint64_t n_seen;
	uint64_t stride; /* 0: as 1 */
	double least;
};

void lh_samples_add(struct lh_samples *samples, double value);

/* The smallest value that a share of all does not exceed; NaN where there is none. Sorts. */
double lh_samples_quantile(struct lh_samples *samples, double share);

struct lh_flow_hole;
struct lh_flow_sent;

struct lh_flow {
	struct lh_flow_counts total;
	struct lh_flow_counts interval; /* since the caller has set it to zero */
	struct lh_samples rtts_ns;
	struct lh_samples interval_rtts_ns;
	int64_t begin_ns;
	int64_t end_ns;
	uint64_t in_flight_max_bytes;
	bool has_syn;
	bool has_fin;
	bool has_rst;

	/* how far it is */
	bool has_seq;
	bool has_acked;
	uint64_t end_seq; /* behind the last byte seen */
	uint64_t acked;	  /* by the other end */
	uint64_t tainted_until;
	struct lh_flow_hole *holes; /* bytes before end_seq that were not seen, in order */
	size_t n_holes;
	size_t holes_room;
	struct lh_flow_sent *sent; /* a ring: packets that are not acknowledged yet */
	size_t first_sent;
	size_t n_sent;
	size_t sent_room;
	bool has_odd;
	uint32_t odd_seq;
	uint32_t syn_seq;
	int64_t syn_ns;
	unsigned n_syns;
	uint16_t mss_option; /* 0: not seen */
	bool has_timestamps;
	bool has_last_ack; /* of what it acknowledged last */
	uint32_t last_ack;
	uint16_t last_window;
};

struct lh_connection {
	struct lh_flow flows[2];  /* 0: of the end whose packet came first */
	int64_t handshake_rtt_ns; /* -1: not seen, or with repetitions */
};

/* All zero but handshake_rtt_ns, which is -1, is a new connection. Takes one packet of it,
 * sent by end `from` (0 or 1), in the order in which they were captured. False where memory
 * is out. */
bool lh_connection_take(struct lh_connection *connection, int from, const struct lh_packet *packet);

/* Payload of a full packet that end `from` can send; 0 where the handshake was not seen. */
uint32_t lh_connection_segment_bytes(const struct lh_connection *connection, int from);

/* Whether a packet opens another connection between the same ports. */
bool lh_connection_is_reopened(const struct lh_connection *connection, int from,
			       const struct lh_packet *packet);

/* Bytes that must have passed but were not seen. */
uint64_t lh_flow_missing_bytes(const struct lh_flow *flow);

void lh_connection_done(struct lh_connection *connection);

#endif
