/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine's side of a capture and its process share. */
#ifndef LH_EMULATOR_CAPTURE_INTERNAL_H
#define LH_EMULATOR_CAPTURE_INTERNAL_H

#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "emulator/capture.h"

/* What one node's link gave, as the capturing process tells it. */
struct lh_tap_tally {
	uint64_t packets;
	uint64_t file_bytes;
	uint64_t past_bound_packets;
	uint64_t other_packets; /* of paths that were not asked for */
	uint64_t kernel_dropped_packets;
	uint64_t lost_packets; /* the kernel has counted, but never handed over */
	int sys;	       /* why it is not complete; 0: it is */
};

/* One node's link. */
struct lh_tap {
	size_t node;
	char *file; /* below the run's folder */
	pcap_t *pcap;
	pcap_dumper_t *dumper;
	bool *peers; /* NULL: everything is kept */
	bool is_full;
	struct lh_tap_tally tally;
	const struct lh_capture *capture;
};

struct lh_capture {
	const struct lh_plan *plan;
	struct lh_tap *taps;
	size_t n_taps;
	int64_t realtime_ahead_ns; /* of CLOCK_MONOTONIC */
	int64_t ring_bytes;
	pid_t pid;
	int control_fd; /* closed: stop */
	int report_fd;	/* whether it could begin, then the tallies */
};

static inline const struct lh_capture_spec *lh_capture_spec_of(const struct lh_capture *c)
{
	return &c->plan->scenario->run.capture;
}

/*
 * What the capturing process does; does not return. Tells report_fd whether it could begin
 * (struct lh_error), captures until the other end of control_fd is closed, and tells the
 * tallies of all taps. It opens the links by itself: rings of packets that were mapped before
 * a fork are not to be unmapped on both sides.
 */
_Noreturn void lh_capture_become(struct lh_capture *capture, struct lh_net *net,
				 const char *run_dir, int control_fd, int report_fd);

#endif
