/* SPDX-License-Identifier: Apache-2.0 */
/* What the files behind events.h share. */
#ifndef LH_COLLECT_EVENTS_INTERNAL_H
#define LH_COLLECT_EVENTS_INTERNAL_H

#include "collect/events.h"

/*
 * Adds the events of one file to a rank's. is_later: it is of an incarnation after the first. What
 * those before had of the epoch that it begins with, and after it, or had not finished, is
 * forgotten. LH_ESYS, LH_EINPUT (file:line).
 */
int lh_rank_events_read(const char *path, size_t rank_number, size_t n_ranks, bool is_later,
			struct lh_rank_events *rank, struct lh_error *err);

/* Books each blocking step of the optimizer to the epoch within which it began. */
void lh_rank_events_book(struct lh_rank_events *rank);

#endif
