/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work beside computing: one helper thread that does tasks one after another, in the order in which
 * they were posted. What a task touches is its own until it has ended.
 */
#ifndef LH_TRAINER_BESIDE_H
#define LH_TRAINER_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct lh_beside;

/* Belongs to the caller and stays where it is until it has ended. */
struct lh_beside_task {
	int (*run)(void *arg, struct lh_error *err);
	void *arg;
	/* the helper's own: */
	struct lh_beside_task *next;
	bool has_ended;
	int64_t end_ns; /* when it ended */
};

/* *ret_beside is given to lh_beside_close. LH_ESYS. */
int lh_beside_open(struct lh_beside **ret_beside, struct lh_error *err);

/* Posts a task whose run and arg are set. Once one has failed, those behind it end undone. */
void lh_beside_post(struct lh_beside *beside, struct lh_beside_task *task);

/* Waits until the task has ended; the error of the first that failed. Past deadline_ns (INT64_MAX:
 * none) LH_ERUN with sys ETIMEDOUT. */
int lh_beside_wait(struct lh_beside *beside, const struct lh_beside_task *task, int64_t deadline_ns,
		   struct lh_error *err);

/* Whether a posted task has ended; never blocks. */
bool lh_beside_has_ended(struct lh_beside *beside, const struct lh_beside_task *task);

/* The error of the first task that failed, or 0; never blocks. */
int lh_beside_check(struct lh_beside *beside, struct lh_error *err);

/* Waits for the task under way, which the caller has made end; those behind it are not begun. NULL
 * is fine. */
void lh_beside_close(struct lh_beside *beside);

#endif
