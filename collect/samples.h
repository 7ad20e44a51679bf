/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of every micro-batch of a training whose ranks come and go: samples.csv. The
 * coordinator (rank 0) wrote what counts, each rank what it computed and what it gave up; whoever
 * was killed gave up what was open without a word.
 */
#ifndef LH_COLLECT_SAMPLES_H
#define LH_COLLECT_SAMPLES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* Micro-batches [from, to) of an incarnation of a rank, that count in an epoch or were given up. */
struct lh_taken {
	size_t rank;
	size_t incarnation;
	int64_t epoch;
	int64_t from;
	int64_t to;
	bool is_committed;
};

/* What one rank's files tell of it. */
struct lh_rank_samples {
	struct lh_incarnation {
		int64_t computed; /* micro-batches */
		bool has_ended;	  /* it came to the training's end */
	} * incarnations;	  /* owned, as the next */
	size_t n_incarnations;
	size_t n_incarnations_room;
	struct lh_taken *taken; /* given up by this rank; of rank 0 also all that counts */
	size_t n_taken;
	size_t n_taken_room;
};

/* A file of the next incarnation begins. LH_ESYS. */
int lh_rank_samples_begin(struct lh_rank_samples *samples, struct lh_error *err);

/* Takes an event of that name where it is about samples: `computed`, `lost`, `commit`, `end`.
 * where: file and line for messages. LH_EINPUT, LH_ESYS. */
int lh_rank_samples_take(struct lh_rank_samples *samples, size_t rank, size_t n_ranks,
			 const char *name, const json_t *event, const char *path, size_t line,
			 struct lh_error *err);

void lh_rank_samples_done(struct lh_rank_samples *samples);

#endif
