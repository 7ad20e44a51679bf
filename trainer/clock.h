/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time as the trainer sees it: CLOCK_MONOTONIC in ns. Sleeping is always to an absolute
 * moment, so that nothing drifts and a virtual clock is never spun on.
 */
#ifndef LH_TRAINER_CLOCK_H
#define LH_TRAINER_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define LH_NS_PER_S INT64_C(1000000000)
#define LH_NS_PER_MS INT64_C(1000000)

static inline int64_t lh_clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * LH_NS_PER_S + ts.tv_nsec;
}

/* Returns at or after at_ns; at once where that has passed. */
static inline void lh_clock_sleep_until(int64_t at_ns)
{
	struct timespec ts = {.tv_sec = at_ns / LH_NS_PER_S, .tv_nsec = at_ns % LH_NS_PER_S};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

#endif
