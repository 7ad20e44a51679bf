/* SPDX-License-Identifier: Apache-2.0 */
/* The logger. See log.h. */
#include "core/log.h"

#include <stdarg.h>

static struct {
	FILE *stream;
	enum lh_log_level level;
	const char *program;
} logger;

void lh_log_open(FILE *stream, enum lh_log_level level, const char *program)
{
	logger.stream = stream;
	logger.level = level;
	logger.program = program;
}

void lh_log(enum lh_log_level level, const char *fmt, ...)
{
	static const char *const names[] = {"error: ", "warning: ", "", "debug: "};
	va_list ap;

	if (!logger.stream || level > logger.level)
		return;
	flockfile(logger.stream);
	fprintf(logger.stream, "%s: %s", logger.program, names[level]);
	va_start(ap, fmt);
	vfprintf(logger.stream, fmt, ap);
	va_end(ap);
	fputc('\n', logger.stream);
	fflush(logger.stream);
	funlockfile(logger.stream);
}
