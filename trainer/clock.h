/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time as the trainer sees it: CLOCK_MONOTONIC in ns. Sleeping is always to an absolute
 * moment, so that nothing drifts and a virtual clock is never spun on.
 */
#ifndef LH_TRAINER_CLOCK_H
#define LH_TRAINER_CLOCK_H

#include <errno.h>
#include <poll.h>
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

/* Waits until one of n descriptors is ready, at most until until_ns (INT64_MAX: for ever); how many
 * are, or -1 with errno. */
static inline int lh_clock_poll_until(struct pollfd *polls, nfds_t n, int64_t until_ns)
{
	int64_t now_ns = lh_clock_now_ns();
	int64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec wait = {.tv_sec = wait_ns / LH_NS_PER_S, .tv_nsec = wait_ns % LH_NS_PER_S};

	return ppoll(polls, n, until_ns == INT64_MAX ? NULL : &wait, NULL);
}

#endif
