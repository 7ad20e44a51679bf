/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this machine. See machine.h. */
#include "trainer/learn/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"

enum { LINE_MAX_BYTES = 256 };

/* The number behind a word that begins a line, or `missing`. */
static uint64_t read_number(const char *path, const char *word, uint64_t missing)
{
	lh_cleanup_fclose FILE *f = fopen(path, "re");
	size_t n = strlen(word);
	char line[LINE_MAX_BYTES];

	while (f && fgets(line, sizeof(line), f)) {
		char *end;
		uint64_t number;

		if (strncmp(line, word, n) != 0)
			continue;
		number = strtoull(line + n, &end, 10);
		return end == line + n ? missing : number;
	}
	return missing;
}

/* Of the control group, as a container sees its own. */
static uint64_t group_available_bytes(void)
{
	uint64_t max = read_number("/sys/fs/cgroup/memory.max", "", UINT64_MAX);
	uint64_t used = read_number("/sys/fs/cgroup/memory.stat", "anon ", 0);

	return max == UINT64_MAX ? max : max > used ? max - used : 0;
}

uint64_t lh_machine_available_bytes(void)
{
	uint64_t kib = read_number("/proc/meminfo", "MemAvailable:", UINT64_MAX);
	uint64_t all = kib == UINT64_MAX ? kib : kib * 1024, group = group_available_bytes();

	return all < group ? all : group;
}

struct lh_machine_memory lh_machine_process_memory(void)
{
	return (struct lh_machine_memory){
		.own_bytes = 1024 * read_number("/proc/self/status", "RssAnon:", 0),
		.files_bytes = 1024 * read_number("/proc/self/status", "RssFile:", 0),
		.peak_bytes = 1024 * read_number("/proc/self/status", "VmHWM:", 0),
	};
}
