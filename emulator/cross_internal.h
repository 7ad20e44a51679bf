/* SPDX-License-Identifier: Apache-2.0 */
/* Cross traffic by itself: flows in time. See cross.h. */
#ifndef LH_EMULATOR_CROSS_INTERNAL_H
#define LH_EMULATOR_CROSS_INTERNAL_H

#include "core/rng.h"
#include "scenarios/scenario.h"

/* One stream of flows. */
struct lh_cross_source {
	struct lh_rng rng;
	double flow_bytes;   /* mean, on the wire */
	double flows_per_ns; /* mean */
	double chunk_ns;     /* between the chunks of a flow */
	double chunk_bytes;  /* on the wire */
};

/* Something that happens: a flow begins, or goes on. */
struct lh_cross_event {
	int64_t t_ns;
	uint64_t number; /* decides between events of one time */
	size_t source;
	double left_bytes; /* of a flow; below 0: a flow begins */
};

/* Events by their time. */
struct lh_cross_queue {
	struct lh_cross_event *events; /* a binary heap */
	size_t n;
	size_t n_room;
	uint64_t n_ever;
};

/* A source of the spec's mean and flow size whose flows have peak_bps, in chunks of whole frames:
 * about a millisecond's worth, at most most_frames. */
void lh_cross_source_init(struct lh_cross_source *source, const struct lh_cross_spec *spec,
			  int64_t peak_bps, uint32_t frame_bytes, uint32_t most_frames,
			  uint64_t seed, const char *name);

/* Queues the first flow of a source that begins at now_ns. LH_ESYS: no memory. */
int lh_cross_begin(struct lh_cross_queue *queue, struct lh_cross_source *source, size_t index,
		   int64_t now_ns, struct lh_error *err);

/*
 * Takes the next event and queues what follows from it. *ret_bytes: what its source sends at
 * *ret_t_ns. The queue must not be empty.
 */
int lh_cross_next(struct lh_cross_queue *queue, struct lh_cross_source *sources, int64_t *ret_t_ns,
		  size_t *ret_source, double *ret_bytes, struct lh_error *err);

#endif
