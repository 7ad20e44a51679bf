/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress towards the target batch: what this rank knows of all ranks' samples, and what
 * follows from it. Pure: times come in, nothing is sent or slept.
 *
 * The rule for stopping. News of peers are as old as the path is long, so each peer's are
 * extrapolated: having reported S samples at time t0 and a mean step d, it has by time t
 * done S + floor((t - t0) / d) micro-batches and is at work on one more. A rank begins a
 * micro-batch only while the samples that are done or under way, at all ranks, are below the
 * target. Peers whose begin falls within 1/32 of their step around this rank's own count as
 * begun when their rank is lower. A rank that would be done with less than half of a
 * micro-batch when the target is reached leaves it to ranks at least twice as fast, if the job
 * has any, and they expect it to. With good news the group ends less than one micro-batch
 * above the target. Where jitter let everyone stop short of the target, all know so from the
 * same final counts, and the fast ranks from epoch % n on, in turn, compute one more each.
 *
 * Source: Hivemind, hivemind/optim/progress_tracker.py (extrapolated samples and time to the
 * next epoch, mean of performance with weight 0.1).
 */
#ifndef LH_TRAINER_PROGRESS_H
#define LH_TRAINER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "trainer/job.h"

/* What is known of one rank in one epoch. */
struct lh_progress_news {
	bool has_any;
	uint64_t samples;
	uint64_t samples_at_stop; /* of the first stop */
	int64_t at_ns;		  /* when it was so, in this rank's clock */
	bool is_stopped;
	bool is_joined;
	int64_t joined_ns; /* when the news of it came, in this rank's clock */
};

struct lh_progress {
	uint32_t n;
	uint32_t self;
	uint32_t epoch;
	uint64_t target;
	uint32_t micro_batch[LH_JOB_RANKS_MAX];
	int64_t step_ns[LH_JOB_RANKS_MAX]; /* mean time of a micro-batch */
	/* Whether no rank is twice as fast by the profiles, which all ranks know alike. */
	bool is_fast[LH_JOB_RANKS_MAX];
	struct lh_progress_news news[LH_JOB_RANKS_MAX];
	struct lh_progress_news next[LH_JOB_RANKS_MAX]; /* of ranks an epoch ahead */
};

/* Knows nothing but the job; steps begin at the profile's means. Call begin_epoch next. */
void lh_progress_init(struct lh_progress *p, const struct lh_job *job, uint32_t self);

/* Ranks without news of the epoch are taken to begin it at now_ns, too. */
void lh_progress_begin_epoch(struct lh_progress *p, uint32_t epoch, int64_t now_ns);

/* What a peer told: its news' epoch must be this one or the next, samples must not shrink.
 * now_ns: when it came. LH_ERUN. */
int lh_progress_note(struct lh_progress *p, uint32_t peer, uint32_t epoch,
		     const struct lh_progress_news *news, int64_t step_ns, int64_t now_ns,
		     struct lh_error *err);

/* This rank has done one more micro-batch, which took step_ns, at at_ns. */
void lh_progress_advance(struct lh_progress *p, int64_t at_ns, int64_t step_ns);

void lh_progress_stop(struct lh_progress *p);

/* Whether to begin a micro-batch at now_ns: the rule above. */
bool lh_progress_should_begin(const struct lh_progress *p, int64_t now_ns);

/* Expected time from now_ns until all ranks together have done the target, 0 if reached. */
int64_t lh_progress_left_ns(const struct lh_progress *p, int64_t now_ns);

/* Whether all ranks have stopped (perhaps short of the target). */
bool lh_progress_has_all_stopped(const struct lh_progress *p);

/* Micro-batches that rank owes beyond its first stop; only when all have stopped. */
uint64_t lh_progress_owed(const struct lh_progress *p, uint32_t rank);

/* Micro-batches of rank's share of the target where nobody counts as they go: as above, owed from
 * the begin. */
uint64_t lh_progress_share(const struct lh_progress *p, uint32_t rank);

/* Whether all ranks have stopped and done what they owed: the counts are final. */
bool lh_progress_is_complete(const struct lh_progress *p);

bool lh_progress_has_all_joined(const struct lh_progress *p);

#endif
