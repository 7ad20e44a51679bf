/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronisation strategies: how ranks average what they have computed. One file each; the
 * table below is the only list, and feeds the job reader, the help and the scenario schema's
 * enum. When to average (the target batch) is not theirs: see progress.h.
 */
#ifndef LH_TRAINER_STRATEGY_H
#define LH_TRAINER_STRATEGY_H

#include <stdint.h>

#include "core/error.h"
#include "trainer/job.h"
#include "trainer/traffic.h"
#include "trainer/transport/mesh.h"

/* What one averaging did at this rank. */
struct lh_average {
	int64_t host_ns; /* of serialising and reducing */
	uint64_t payload_sent_bytes;
	uint64_t payload_received_bytes;
	uint64_t group_samples;
	uint64_t checked_elements; /* averaged numbers compared with what they must be */
};

struct lh_device;

/* What is averaged: a vector of n numbers, which must stay where it is. values NULL: it is
 * replayed, see sample.h. */
struct lh_averaged {
	uint64_t n;
	float *values;		  /* on the host */
	struct lh_device *device; /* that they came from; NULL: replayed */
};

struct lh_strategy_ops {
	const char *name;
	const char *doc; /* one line */
	/* Starts with an open mesh of at least two ranks; mesh, traffic and the values are
	 * borrowed until close. */
	int (*open)(struct lh_mesh *mesh, struct lh_traffic *traffic, struct lh_averaged averaged,
		    void **ret_state, struct lh_error *err);
	/*
	 * Averages once, blocking; samples by rank are the weights, their sum at least 1. Each
	 * rank's values become the weighted mean of all ranks', the same bits at every rank: what
	 * a rank owns goes through the compressor, too.
	 */
	int (*average)(void *state, uint32_t epoch, const uint64_t *samples,
		       struct lh_average *ret_average, struct lh_error *err);
	/* A failure noticed since, or 0; never blocks. */
	int (*check)(void *state, struct lh_error *err);
	/* Readable once there is a failure. */
	int (*failure_fd)(void *state);
	/* NULL is fine. Ends what is under way. */
	void (*close)(void *state);
};

extern const struct lh_strategy_ops lh_strategy_butterfly;
extern const struct lh_strategy_ops lh_strategy_ring;
extern const struct lh_strategy_ops lh_strategy_nccl; /* `ring` with the transport nccl */

/* All strategies, the default first, NULL at the end. */
extern const struct lh_strategy_ops *const lh_strategies[];

/* The strategy of that name, or NULL. */
const struct lh_strategy_ops *lh_strategy_find(const char *name);

/* The host's time for bytes that rank sends, by its averaging_bps; 0 where it is not charged. */
int64_t lh_strategy_host_ns(const struct lh_job *job, uint32_t rank, uint64_t bytes);

#endif
