/* SPDX-License-Identifier: Apache-2.0 */
/* The logger: lines for the person who runs the command. Silent until it is given a stream. */
#ifndef LH_CORE_LOG_H
#define LH_CORE_LOG_H

#include <stdio.h>

enum lh_log_level { LH_LOG_ERROR, LH_LOG_WARNING, LH_LOG_INFO, LH_LOG_DEBUG };

/* Lines of this level and more serious ones go to stream, after "program: ". Call once at start. */
void lh_log_open(FILE *stream, enum lh_log_level level, const char *program);

void lh_log(enum lh_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
