/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning rates over steps: linear warm-up, then a decay. With s = 0, 1, ... the step, W the
 * warm-up and T all steps: s < W gives lr (s + 1) / W; afterwards, with
 * p = min(1, (s - W) / (T - W)) and end = lr final_ratio, what lh_schedules[] says.
 */
#ifndef LH_TRAINER_SCHEDULE_H
#define LH_TRAINER_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

struct lh_schedule;

struct lh_schedule_kind {
	const char *name;
	const char *doc; /* one line: the formula */
	/* The share of lr - end that is left at p. */
	double (*remaining_ratio)(const struct lh_schedule *schedule, double p);
	bool needs_total_steps;
};

/* constant, cosine, linear, polynomial; no name at the end */
extern const struct lh_schedule_kind lh_schedules[];

struct lh_schedule {
	const char *kind;      /* a name of lh_schedules[] */
	double lr;	       /* the highest: at the end of the warm-up */
	double final_ratio;    /* of lr, at the end; [0, 1] */
	double power;	       /* of polynomial, > 0 */
	uint64_t warmup_steps; /* W */
	uint64_t total_steps;  /* T > W; 0 where the kind needs none */
};

/* The kind of that name, or NULL. */
const struct lh_schedule_kind *lh_schedule_find(const char *kind);

/* Constant at lr: no warm-up, final_ratio 0, power 1. */
void lh_schedule_init(double lr, struct lh_schedule *ret_schedule);

/* LH_EINPUT with what is out of range and what it may be. */
int lh_schedule_check(const struct lh_schedule *schedule, struct lh_error *err);

/* The learning rate of a step, counted from 0, of a schedule that has been checked. */
double lh_schedule_lr(const struct lh_schedule *schedule, uint64_t step);

#endif
