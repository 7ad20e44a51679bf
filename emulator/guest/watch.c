/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the guest's clock passes. See watch.h. */
#include "emulator/guest/watch.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"

enum { LOOKS_PER_READING = 5, NS_PER_S = 1000000000 };

struct process {
	int parent;
	long long ticks;	/* of its own */
	long long waited_ticks; /* of children that it has reaped */
};

/* Reads /proc/PID/stat; false where there is no such process any more. */
static bool read_process(const char *pid, struct process *ret)
{
	char path[64], text[1024];
	lh_cleanup_fclose FILE *f = NULL;
	long long user, system, waited_user, waited_system;
	const char *after_name;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f) || !(after_name = strrchr(text, ')')))
		return false;
	if (sscanf(after_name + 1,
		   " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld", &ret->parent,
		   &user, &system, &waited_user, &waited_system) != 5)
		return false;
	ret->ticks = user + system;
	ret->waited_ticks = waited_user + waited_system;
	return true;
}

/* Processor time of the guest's kernel and its processes, which are children of it. */
static int64_t read_cpu_ns(pid_t kernel)
{
	lh_cleanup_closedir DIR *dir = opendir("/proc");
	long long ticks = 0;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		struct process p;

		if (!isdigit((unsigned char)e->d_name[0]) || !read_process(e->d_name, &p))
			continue;
		if (atoi(e->d_name) == kernel)
			ticks += p.ticks + p.waited_ticks;
		else if (p.parent == kernel)
			ticks += p.ticks;
	}
	return ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
}

bool lh_watch_is_stuck(struct lh_watch *w)
{
	struct stat st;
	int64_t cpu_ns;

	if (!w->limit_ns || w->looks++ % LOOKS_PER_READING || stat(w->heartbeat_path, &st) < 0)
		return false;
	cpu_ns = read_cpu_ns(w->kernel);
	if (!w->cpu_ns || st.st_size != w->beats) {
		w->beats = st.st_size;
		w->cpu_ns = cpu_ns;
	}
	return cpu_ns - w->cpu_ns >= w->limit_ns;
}
