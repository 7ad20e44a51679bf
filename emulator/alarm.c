/* SPDX-License-Identifier: Apache-2.0 */
/* SIGALRM at a time. See alarm.h. */
#include "emulator/alarm.h"

#include <errno.h>
#include <signal.h>

#include "emulator/probe_internal.h"

int lh_alarm_open(struct lh_alarm *alarm, struct lh_error *err)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};

	if (timer_create(CLOCK_MONOTONIC, &event, &alarm->timer) < 0)
		return lh_fail(err, LH_ESYS, errno, "make a timer");
	alarm->is_open = true;
	return 0;
}

int lh_alarm_set(struct lh_alarm *alarm, int64_t due_ns, struct lh_error *err)
{
	/* all zero disarms it */
	struct itimerspec at = {.it_value = {due_ns / LH_NS_PER_S, due_ns % LH_NS_PER_S}};

	if (due_ns == INT64_MAX)
		at.it_value = (struct timespec){0, 0};
	return timer_settime(alarm->timer, TIMER_ABSTIME, &at, NULL) < 0
		       ? lh_fail(err, LH_ESYS, errno, "set a timer")
		       : 0;
}

void lh_alarm_close(struct lh_alarm *alarm)
{
	if (alarm->is_open)
		timer_delete(alarm->timer);
	alarm->is_open = false;
}
