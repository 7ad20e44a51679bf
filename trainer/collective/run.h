/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor of collectives: runs one member's plan over a communicator. All receives are posted
 * at once, a phase's messages as soon as what they carry is there; the host's time for serialising
 * and reducing passes before they leave. One thread.
 */
#ifndef LH_TRAINER_COLLECTIVE_RUN_H
#define LH_TRAINER_COLLECTIVE_RUN_H

#include "trainer/collective/numbers.h"
#include "trainer/transport/comm.h"

struct lh_collective_run;

struct lh_collective_run_config {
	struct lh_comm *comm;		       /* borrowed; all the plan's peers are attached */
	const struct lh_collective_plan *plan; /* borrowed */
	const struct lh_codec_ops *codec;
	uint64_t slice_elements; /* real numbers of every chunk; UINT64_MAX: all */
	/* What the host serialises and reduces: a phase's bytes take as long before they leave. 0:
	 * no time. */
	uint64_t host_bps;
};

/* What one round did at this member. */
struct lh_collective_done {
	int64_t host_ns;
	uint64_t sent_bytes; /* payload */
	uint64_t received_bytes;
};

/* *ret_run is given to lh_collective_run_close. LH_ESYS; LH_EINPUT where a message has more real
 * bytes than a frame can say. */
int lh_collective_run_open(const struct lh_collective_run_config *config,
			   struct lh_collective_run **ret_run, struct lh_error *err);

/* The real numbers of every chunk; valid until close. */
const struct lh_collective_slices *lh_collective_run_slices(const struct lh_collective_run *run);

/*
 * One round, blocking: values (in the slices' order, scaled by the member's weight) are used up.
 * samples: those of the whole group, which every message carries and must be the same at all
 * members. Past deadline_ns (INT64_MAX: none) LH_ERUN with sys ETIMEDOUT; where a peer fails, its
 * error. After a failure only close is allowed.
 */
int lh_collective_run_round(struct lh_collective_run *run, uint32_t epoch, uint64_t samples,
			    float *values, int64_t deadline_ns, struct lh_collective_done *ret_done,
			    struct lh_error *err);

/* After a round that failed: the peer whose message failed, was not what it must be, or was waited
 * for. */
uint32_t lh_collective_run_culprit(const struct lh_collective_run *run);

/* The finished chunk as it was on the wire, after a round. */
const void *lh_collective_run_wire(const struct lh_collective_run *run, uint32_t chunk);

/* The part of a chunk that this member gave away, as it was on the wire, after a round. */
const void *lh_collective_run_part(const struct lh_collective_run *run, uint32_t chunk);

/* Writes what is finished to the values that the round began with. */
void lh_collective_run_decode(struct lh_collective_run *run);

/* After a failed round takes back what has not begun, and detaches peers whose messages are under
 * way. NULL is fine. */
void lh_collective_run_close(struct lh_collective_run *run);

#endif
