/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's counters under /proc/net. See proc.h. */
#include "emulator/proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the line of group begins at or after text, or NULL. */
static const char *find_line(const char *text, const char *group)
{
	for (const char *p = text; (p = strstr(p, group)); p++)
		if (p == text || p[-1] == '\n')
			return p;
	return NULL;
}

/* The word after the one at *p on the same line, or NULL. */
static const char *next_word(const char *p)
{
	p += strcspn(p, " \n");
	return *p == ' ' && p[1] && p[1] != '\n' ? p + 1 : NULL;
}

uint64_t lh_proc_value(const char *text, const char *group, const char *name)
{
	const char *names = find_line(text, group);
	const char *values = names ? find_line(names + 1, group) : NULL;
	size_t n = strlen(name);

	while (names && values) {
		names = next_word(names);
		values = next_word(values);
		if (names && values && strncmp(names, name, n) == 0 && strcspn(names, " \n") == n)
			return strtoull(values, NULL, 10);
	}
	return 0;
}

uint64_t lh_proc_softnet_drops(const char *text)
{
	uint64_t sum = 0;

	for (const char *line = text; *line;) {
		const char *second = next_word(line);

		if (second)
			sum += strtoull(second, NULL, 16);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return sum;
}

uint64_t lh_proc_link_drops(const char *text)
{
	uint64_t sum = 0;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		char name[32];
		unsigned long long received, sent;

		line += *line == '\n';
		/* bytes, packets, errs, drop, fifo, frame, compressed, multicast; then bytes,
		 * packets, errs, drop of the other direction */
		if (sscanf(line, " %31[^: ]: %*u %*u %*u %llu %*u %*u %*u %*u %*u %*u %*u %llu",
			   name, &received, &sent) == 3 &&
		    strcmp(name, "lo") != 0)
			sum += received + sent;
	}
	return sum;
}
