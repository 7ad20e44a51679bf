/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the trainers reported: events/rank-N.jsonl and, of ranks that were lost and came back,
 * events/rank-N.K.jsonl (docs/formats.md), checked and added up per rank and epoch. Tolerates a run
 * that was cut, and ranks that were killed: a half-written last line is left out, and only epochs
 * count that all ranks finished, or all that were never away.
 */
#ifndef LH_COLLECT_EVENTS_H
#define LH_COLLECT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/faults.h"
#include "collect/samples.h"
#include "core/error.h"

enum {
	LH_EVENTS_RANKS_MAX = 4096,
	LH_EVENTS_EPOCHS_MAX = 1000000,
	LH_EVENTS_LINE_MAX_BYTES = 1 << 20,
};

/* What a model has shown on some samples. */
struct lh_rank_score {
	int64_t counted; /* targets */
	double loss;	 /* mean */
	double accuracy; /* share that was foretold */
};

/* One rank's part of one epoch. Durations are sums over the rank's spans of that kind. */
struct lh_rank_epoch {
	bool is_finished; /* its `epoch` event was read */
	bool has_average;
	int64_t begin_ns;
	int64_t end_ns;
	int64_t group_samples; /* of the `epoch` event: all ranks */
	int64_t samples;       /* own, of `compute` */
	int64_t compute_ns;
	int64_t matchmaking_ns;
	int64_t wait_ns;
	int64_t average_ns; /* not beside computing; host_ns is a part of it */
	int64_t host_ns;
	int64_t apply_ns; /* blocking ones that began within this epoch */
	int64_t payload_sent_bytes;
	int64_t payload_received_bytes;
	int64_t average_samples; /* group_samples of `average` */
	int64_t number;
	/* what a program reported of it; see lh_run_reports_take */
	size_t n_reports;
	size_t n_samples; /* reports that told samples; as the next two */
	size_t n_calc;
	size_t n_comm;
	double calc_s;
	double comm_s;
	double loss; /* the last; NaN: not told */
	/* what a model that learns has shown; counted 0: nothing */
	struct lh_rank_score learnt; /* of training samples */
	struct lh_rank_score tested; /* of the test data */
};

/* Bytes that a rank sent to one peer within a span of time. */
struct lh_rank_sent {
	size_t peer;
	int64_t payload_bytes;
	int64_t control_bytes;
};

/* The same to all peers that it sent to: few, where there are many. */
struct lh_rank_traffic {
	int64_t from_ns;
	int64_t to_ns;
	struct lh_rank_sent *sent; /* owned */
	size_t n_sent;
};

/* A blocking step of the optimizer. */
struct lh_rank_apply {
	int64_t begin_ns;
	int64_t end_ns;
};

struct lh_rank_events {
	struct lh_rank_epoch *epochs; /* by epoch number */
	size_t n_epochs;
	size_t n_epochs_room;
	size_t n_settled; /* epochs below it hold nothing that was not finished */
	struct lh_rank_traffic *traffic;
	size_t n_traffic;
	struct lh_rank_apply *applies;
	size_t n_applies;
	int64_t start_ns;    /* of its first `start` event; 0: it never started */
	int64_t restart_ns;  /* of its last */
	int64_t end_ns;	     /* of its `end` event; 0: not read */
	int64_t reported_ns; /* of its last `progress` event */
	int64_t retransmits; /* over all its connections */
	int64_t timeouts;
	bool has_ended; /* its `end` event was read */
	bool is_cut;	/* the last line was half written, and not because its node was taken */
	bool was_away;	/* its node, at some time; or its strategy goes on without it */
	struct lh_rank_samples samples;
	char *error;		/* message of its `error` event, or NULL; owned */
	double consensus_ratio; /* of its `consensus` event; 0: none */
	char weights[17];	/* hash of its `weights` event; empty: none */
};

struct lh_run_events {
	struct lh_rank_events *ranks;
	size_t n_ranks;
	size_t first_epoch; /* number of the first epoch */
	size_t n_finished;  /* epochs finished by all ranks (of those that were away at some time:
			     * or by others), from the first one on, without a gap */
};

/*
 * Reads rank-0.jsonl to rank-(n_ranks - 1).jsonl of the folder events_dir, and what came after them
 * of ranks that were away (faults; NULL: none). *ret_events is the caller's, to be given to
 * lh_run_events_done. LH_ESYS (a file is missing), LH_EINPUT (file:line).
 */
int lh_run_events_read(const char *events_dir, size_t n_ranks, const struct lh_run_faults *faults,
		       struct lh_run_events *ret_events, struct lh_error *err);

void lh_run_events_done(struct lh_run_events *events);

/* Rank rank's part of the index-th finished epoch, index < n_finished; all zero, and not finished,
 * where it had none. */
const struct lh_rank_epoch *lh_run_events_epoch(const struct lh_run_events *events, size_t rank,
						size_t index);

/*
 * When the index-th finished epoch of the group began and ended: the end is that of the last
 * rank; the begin is the end of the epoch before, for the first one the begin of the first
 * rank. So epochs are contiguous, and their lengths add up to the training's.
 */
int64_t lh_run_events_epoch_begin_ns(const struct lh_run_events *events, size_t index);
int64_t lh_run_events_epoch_end_ns(const struct lh_run_events *events, size_t index);

static inline void lh_cleanup_run_events_p(struct lh_run_events *events)
{
	lh_run_events_done(events);
}

#define lh_cleanup_run_events __attribute__((cleanup(lh_cleanup_run_events_p)))

#endif
