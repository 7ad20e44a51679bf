/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates over steps. See schedule.h. */
#include "trainer/optim/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static double constant(const struct lh_schedule *schedule, double p)
{
	(void)schedule;
	(void)p;
	return 1;
}

static double cosine(const struct lh_schedule *schedule, double p)
{
	(void)schedule;
	return 0.5 * (1 + cos(PI * p));
}

static double linear(const struct lh_schedule *schedule, double p)
{
	(void)schedule;
	return 1 - p;
}

static double polynomial(const struct lh_schedule *schedule, double p)
{
	return pow(1 - p, schedule->power);
}

const struct lh_schedule_kind lh_schedules[] = {
	{"constant", "lr after the warm-up", constant, false},
	{"cosine", "end + (lr - end) (1 + cos(pi p)) / 2", cosine, true},
	{"linear", "end + (lr - end) (1 - p)", linear, true},
	{"polynomial", "end + (lr - end) (1 - p)^power", polynomial, true},
	{NULL, NULL, NULL, false},
};

const struct lh_schedule_kind *lh_schedule_find(const char *kind)
{
	for (const struct lh_schedule_kind *k = lh_schedules; k->name; k++)
		if (strcmp(k->name, kind) == 0)
			return k;
	return NULL;
}

void lh_schedule_init(double lr, struct lh_schedule *ret_schedule)
{
	*ret_schedule = (struct lh_schedule){.kind = "constant", .lr = lr, .power = 1};
}

static int fail_unknown(const char *kind, struct lh_error *err)
{
	char names[256] = "";
	size_t at = 0;

	for (size_t i = 0; lh_schedules[i].name && at < sizeof(names); i++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "",
				       lh_schedules[i].name);
	return lh_fail(err, LH_EINPUT, 0, "no schedule is called %s; expected one of %s",
		       kind ? kind : "(nothing)", names);
}

int lh_schedule_check(const struct lh_schedule *schedule, struct lh_error *err)
{
	const struct lh_schedule_kind *kind =
		schedule->kind ? lh_schedule_find(schedule->kind) : NULL;

	if (!kind)
		return fail_unknown(schedule->kind, err);
	if (!(schedule->lr > 0) || !isfinite(schedule->lr))
		return lh_fail(err, LH_EINPUT, 0, "schedule: lr is %g; expected more than 0",
			       schedule->lr);
	if (!(schedule->final_ratio >= 0 && schedule->final_ratio <= 1))
		return lh_fail(err, LH_EINPUT, 0, "schedule: final_ratio is %g; expected 0 to 1",
			       schedule->final_ratio);
	if (!(schedule->power > 0) || !isfinite(schedule->power))
		return lh_fail(err, LH_EINPUT, 0, "schedule: power is %g; expected more than 0",
			       schedule->power);
	if (kind->needs_total_steps && schedule->total_steps <= schedule->warmup_steps)
		return lh_fail(err, LH_EINPUT, 0,
			       "schedule %s: %" PRIu64
			       " steps in all; expected more than the %" PRIu64 " of the warm-up",
			       kind->name, schedule->total_steps, schedule->warmup_steps);
	return 0;
}

double lh_schedule_lr(const struct lh_schedule *schedule, uint64_t step)
{
	const struct lh_schedule_kind *kind = lh_schedule_find(schedule->kind);
	double end = schedule->lr * schedule->final_ratio, p = 1;

	if (step < schedule->warmup_steps)
		return schedule->lr * (double)(step + 1) / (double)schedule->warmup_steps;
	if (step < schedule->total_steps)
		p = (double)(step - schedule->warmup_steps) /
		    (double)(schedule->total_steps - schedule->warmup_steps);
	return end + (schedule->lr - end) * kind->remaining_ratio(schedule, p);
}
