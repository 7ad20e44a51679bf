/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matchmaking: forming the group that averages, beside computing. All to all: a rank tells
 * every peer that it joins this epoch's group; its group is formed when at least the job's
 * matchmaking time has passed since and every peer's word has come. It begins when the
 * target is expected within the matchmaking time, at once if that is so at the epoch's begin,
 * and at the latest when the rank stops computing. Pure; it costs computing nothing, so it
 * needs no thread that wakes.
 *
 * Source: Hivemind, hivemind/averaging/matchmaking.py, for what it takes in time; Hivemind
 * itself finds a leader through its hash table.
 */
#ifndef LH_TRAINER_MATCHMAKING_H
#define LH_TRAINER_MATCHMAKING_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/progress.h"

struct lh_matchmaking {
	bool is_begun;
	int64_t begin_ns;
	int64_t at_least_ns;
};

/* The moment, from now_ns on, at which matchmaking is to begin as far as is known now. */
int64_t lh_matchmaking_due_ns(const struct lh_matchmaking *m, const struct lh_progress *p,
			      int64_t now_ns);

/* This rank joins: marks it in p, too. The caller then tells the peers. */
void lh_matchmaking_begin(struct lh_matchmaking *m, struct lh_progress *p, int64_t now_ns);

/* When the group was or will be formed; INT64_MAX while a peer's word is missing. */
int64_t lh_matchmaking_end_ns(const struct lh_matchmaking *m, const struct lh_progress *p);

#endif
