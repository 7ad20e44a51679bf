/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events that a rank writes: JSON Lines, one object a line, in order of time. Lines
 * are collected in memory and written by lh_events_flush. One thread at a time.
 * Source: docs/formats.md, "events/rank-N.jsonl".
 */
#ifndef LH_TRAINER_EVENTS_H
#define LH_TRAINER_EVENTS_H

#include <jansson.h>
#include <stdint.h>

#include "core/error.h"

struct lh_events;

/* Makes the file at path anew; *ret_events is given to lh_events_close. LH_ESYS. */
int lh_events_open(const char *path, uint32_t rank, struct lh_events **ret_events,
		   struct lh_error *err);

/* Adds a line {"event", "t_ns", "rank", fields...}. fields is taken over, and NULL counts as
 * memory that ran out; t_ns must not be before the last line's. LH_ESYS. */
int lh_events_add(struct lh_events *events, const char *event, int64_t t_ns, json_t *fields,
		  struct lh_error *err);

/* Writes all lines so far, so that they outlive this process. LH_ESYS. */
int lh_events_write(struct lh_events *events, struct lh_error *err);

/* Writes all lines so far and waits until the file system has them, so that they outlive
 * this process and, in a guest, the guest. LH_ESYS. */
int lh_events_flush(struct lh_events *events, struct lh_error *err);

/* Frees; lines not flushed are lost. NULL is fine. */
void lh_events_close(struct lh_events *events);

#endif
