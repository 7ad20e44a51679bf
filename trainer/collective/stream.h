/* SPDX-License-Identifier: Apache-2.0 */
/* When a TCP connection's bytes arrive, segment by segment. See foresee.h. */
#ifndef LH_TRAINER_COLLECTIVE_STREAM_H
#define LH_TRAINER_COLLECTIVE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

/* A segment on its way there or acknowledged on its way back. */
struct lh_stream_segment {
	double sent_ns;
	double arrive_ns;
	double acked_ns; /* of those that have arrived */
};

struct lh_stream_model {
	double delay_ns;
	double rtt_ns;
	double segment_ns; /* a full packet's time on the link */
	double ack_ns;	   /* likewise what acknowledges one that came the other way */
	double initial_window;
	double window_max; /* segments, as all windows */
	double window;
	double slow_start_end;
	double free_ns;			  /* when the link is */
	double last_sent_ns;		  /* infinite past: none yet */
	struct lh_stream_segment *flying; /* a ring of `room`, owned */
	uint32_t room;			  /* a power of two */
	uint64_t n_sent;
	uint64_t n_arrived;
	uint64_t n_acked;
	uint64_t most_flying; /* of late, up to usage_end */
	uint64_t usage_end;
	bool is_limited;    /* by the window, of late */
	uint64_t round_end; /* HyStart's round: the last segment of it */
	double round_begin_ns;
	double train_end_ns;
	double least_ns;	/* round trip so far */
	double growth_begin_ns; /* of CUBIC; below 0: not begun */
	double growth_origin;
};

/* False where there is no memory. rtt_ns: there and back, without serialisation. */
bool lh_stream_model_init(struct lh_stream_model *model, double delay_ns, double rtt_ns,
			  double segment_ns, double ack_ns, double initial_window,
			  double window_max);

void lh_stream_model_done(struct lh_stream_model *model);

/* Sends as much of n_bytes as the window allows at now_ns, whole segments and the rest; returns how
 * much. */
uint64_t lh_stream_model_send(struct lh_stream_model *model, double now_ns, uint64_t n_bytes,
			      uint32_t segment_bytes);

/* The oldest segment that is on its way there has arrived at now_ns: its acknowledgement goes back
 * behind what the other direction, back, has sent. */
void lh_stream_model_arrive(struct lh_stream_model *model, struct lh_stream_model *back,
			    double now_ns);

/* The oldest acknowledgement has come. */
void lh_stream_model_ack(struct lh_stream_model *model);

/* The oldest segment on its way there; NULL: none. */
const struct lh_stream_segment *lh_stream_model_coming(const struct lh_stream_model *model);

/* The oldest that has arrived and is not acknowledged; NULL: none. */
const struct lh_stream_segment *lh_stream_model_arrived(const struct lh_stream_model *model);

#endif
