/* SPDX-License-Identifier: Apache-2.0 */
/* When a TCP connection's bytes arrive, segment by segment. See foresee.h. */
#ifndef LH_TRAINER_COLLECTIVE_STREAM_H
#define LH_TRAINER_COLLECTIVE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

/* A segment on its way, or acknowledged but not yet looked at. */
struct lh_stream_segment {
	double sent_ns;
	double acked_ns;
};

struct lh_stream_model {
	double delay_ns;
	double rtt_ns;
	double segment_ns; /* a full packet's time on the link */
	double initial_window;
	double window_max; /* segments, as all windows */
	double window;
	double slow_start_end;
	double free_ns;			  /* when the link is */
	double last_sent_ns;		  /* infinite past: none yet */
	struct lh_stream_segment *flying; /* a ring of `room`, owned */
	uint32_t room;			  /* a power of two */
	uint64_t n_sent;
	uint64_t n_acked;
	uint64_t most_flying; /* of late, up to usage_end */
	uint64_t usage_end;
	bool is_limited;    /* by the window, of late */
	uint64_t round_end; /* HyStart's round: the last segment of it */
	double round_begin_ns;
	double train_end_ns;
	double round_least_ns; /* round trip, of its first segments */
	double least_ns;       /* round trip so far */
	uint32_t n_round_samples;
	double growth_begin_ns; /* of CUBIC; below 0: not begun */
	double growth_origin;
};

/* LH's link as a model; false where there is no memory. rtt_ns: there and back, without
 * serialisation. */
bool lh_stream_model_init(struct lh_stream_model *model, double delay_ns, double rtt_ns,
			  double segment_ns, double initial_window, double window_max);

void lh_stream_model_done(struct lh_stream_model *model);

/* Sends bytes that are all there at from_ns, behind what was sent before; when the last has
 * arrived. */
double lh_stream_model_send(struct lh_stream_model *model, double from_ns, uint64_t n_bytes,
			    uint32_t segment_bytes);

#endif
