/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGALRM at a time. A waiting call's own time-out may be late by as much as the kernel grants
 * itself to save wake-ups; this is not. Whoever waits has the signal blocked. Private to the
 * emulator.
 */
#ifndef LH_EMULATOR_ALARM_H
#define LH_EMULATOR_ALARM_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/error.h"

/* All zero: closed. */
struct lh_alarm {
	timer_t timer;
	bool is_open;
};

int lh_alarm_open(struct lh_alarm *alarm, struct lh_error *err);

/* Lets the signal come when CLOCK_MONOTONIC reaches due_ns; INT64_MAX: no more. */
int lh_alarm_set(struct lh_alarm *alarm, int64_t due_ns, struct lh_error *err);

void lh_alarm_close(struct lh_alarm *alarm);

#endif
