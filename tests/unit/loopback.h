/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of ranks over loopback share: sockets, and the events that ranks wrote. */
#ifndef LH_TESTS_UNIT_LOOPBACK_H
#define LH_TESTS_UNIT_LOOPBACK_H

#include <jansson.h>

#include "trainer/job.h"

/* Gives n ranks addresses on loopback, with ports that were free a moment ago. */
void loopback_find_ports(struct lh_job_rank *ranks, uint32_t n);

/* Two ends of a TCP connection. */
void loopback_connect(int ret_fds[2]);

/* The events of a file, an array that is the caller's; NULL: the file is not there. */
json_t *loopback_events(const char *path);

bool loopback_is_event(const json_t *event, const char *name);

/* An integer that must be there. */
int64_t loopback_integer(const json_t *event, const char *key);

/* The sum of key over all events of that name; how many these are (ret_n may be NULL). */
int64_t loopback_sum(const json_t *events, const char *name, const char *key, size_t *ret_n);

size_t loopback_count(const json_t *events, const char *name);

#endif
