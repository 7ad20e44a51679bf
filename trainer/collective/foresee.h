/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long collectives take on given links, event by event: a phase leaves when the last of what
 * it carries has come, and a message takes what TCP takes for it. No clock, no sockets; pure.
 *
 * A connection's bytes leave in segments. Each waits for the link, and for an acknowledgement where
 * its window is full. The window begins at the initial one, doubles every round trip (slow start)
 * until it is as large as it may be, or until HyStart ends that because acknowledgements have come
 * for half a round trip, after which it grows by CUBIC's rule; what is left unused does not grow it,
 * and it falls back over idle time. So a cold collective has slow start in it, a warm one what is
 * left of the windows. Acknowledgements wait behind the data of the other direction. HyStart's other
 * rule, by delay, is left out, and so is what links have in common, cards and sites' links, and loss.
 *
 * Source: RFC 5681 (slow start, restart after idle), RFC 9438 (CUBIC), Ha, Rhee, "Taming the
 * elephants: new TCP slow start", 2011 (HyStart), net/ipv4/tcp_cubic.c of Linux for their
 * constants; a ring's chain of delays: Patarasuk, Yuan, 2009.
 */
#ifndef LH_TRAINER_COLLECTIVE_FORESEE_H
#define LH_TRAINER_COLLECTIVE_FORESEE_H

#include "trainer/collective/plan.h"
#include "trainer/compress/compress.h"

/* From one member to another. */
struct lh_collective_link {
	int64_t delay_ns;	  /* one way */
	uint64_t bandwidth_bps;	  /* on the wire */
	uint32_t window_segments; /* the most that is on its way in one stream */
	uint32_t ack_bytes;	  /* on the wire, for a segment that came the other way */
};

struct lh_collective_network {
	const struct lh_collective_link *links; /* from member x n + to member */
	uint32_t segment_bytes;			/* payload of a full packet */
	uint32_t frame_bytes;			/* of a full packet on the wire */
	uint32_t initial_window_segments;
	uint32_t message_bytes; /* that stand before every payload */
	uint32_t n_streams;	/* per pair */
};

/*
 * Runs n_rounds one after the other, the first over fresh connections and at begin_ns of each
 * member (NULL: all at 0); each member begins a round gap_ns after it has ended the one before.
 * ret_end_ns: by round, when its last member has ended. Plans as of lh_collective_program_build.
 * LH_EINPUT, LH_ESYS.
 */
int lh_collective_foresee(const struct lh_collective_plan *plans, uint32_t n,
			  const struct lh_codec_ops *codec,
			  const struct lh_collective_network *network, const int64_t *begin_ns,
			  int64_t gap_ns, uint32_t n_rounds, int64_t *ret_end_ns,
			  struct lh_error *err);

#endif
