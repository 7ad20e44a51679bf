/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank sent to whom in which second, counted without a sampler: whoever sends a
 * block adds it with the time that the send took, and the bytes are spread evenly over that
 * time. A byte counts when the kernel has taken it, which may be a socket buffer's size
 * before it leaves.
 *
 * Any thread may add; one writes events.
 */
#ifndef LH_TRAINER_TRAFFIC_H
#define LH_TRAINER_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/events.h"

enum lh_traffic_kind {
	LH_TRAFFIC_PAYLOAD, /* parameters, written by the peer's sender */
	LH_TRAFFIC_HEADER,  /* frames before payloads, written by the peer's sender */
	LH_TRAFFIC_CONTROL, /* control messages, written by the main thread */
	LH_TRAFFIC_N_KINDS,
};

enum { LH_TRAFFIC_UNNAMED_PEERS_MAX = 64 }; /* with more, events name the peers sent to */

struct lh_traffic;

/* Seconds count from begin_ns. *ret_traffic is given to lh_traffic_free. LH_ESYS. */
int lh_traffic_new(uint32_t n_peers, int64_t begin_ns, struct lh_traffic **ret_traffic,
		   struct lh_error *err);

/* Counts bytes that were sent from begin_ns to end_ns. Bytes that find no memory are counted
 * in the last second that there is. */
void lh_traffic_add(struct lh_traffic *traffic, uint32_t peer, enum lh_traffic_kind kind,
		    int64_t begin_ns, int64_t end_ns, uint64_t bytes);

/* Writes a `traffic` event for every second that has ended by now_ns and had traffic. */
int lh_traffic_write(struct lh_traffic *traffic, int64_t now_ns, struct lh_events *events,
		     struct lh_error *err);

/* The same for the second under way, too. */
int lh_traffic_write_rest(struct lh_traffic *traffic, int64_t now_ns, struct lh_events *events,
			  struct lh_error *err);

void lh_traffic_free(struct lh_traffic *traffic);

#endif
