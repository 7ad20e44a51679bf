/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup whose sockets obey the window program. See cgroup.h. */
#include "emulator/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"

static const char prefix[] = "longhaul-";

/* Where cgroup v2 is mounted, or NULL. */
static const char *find_root(void)
{
	static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	struct statfs fs;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (statfs(places[i], &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
			return places[i];
	return NULL;
}

/* Moves this process into the cgroup. */
static int move_into(const char *cgroup)
{
	lh_cleanup_free char *procs = lh_strf("%s/cgroup.procs", cgroup);
	lh_cleanup_fclose FILE *f = procs ? fopen(procs, "we") : NULL;

	return f && fprintf(f, "%d\n", (int)getpid()) > 0 && fflush(f) == 0 ? 0 : -1;
}

void lh_cgroup_remove_stale(void)
{
	const char *root = find_root();
	lh_cleanup_closedir DIR *dir = root ? opendir(root) : NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		lh_cleanup_free char *path = lh_strf("%s/%s", root, e->d_name);
		int pid;

		if (strncmp(e->d_name, prefix, sizeof(prefix) - 1) != 0 || !path)
			continue;
		pid = atoi(e->d_name + sizeof(prefix) - 1);
		if (pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
			rmdir(path);
	}
}

int lh_cgroup_enter(bool owns_kernel, char **ret_path, struct lh_error *err)
{
	const char *root = find_root();
	lh_cleanup_free char *path = NULL;

	if (!root)
		return lh_fail(err, LH_EENV, 0,
			       "no cgroup v2 is mounted; mount -t cgroup2 none /sys/fs/cgroup");
	if (owns_kernel) {
		*ret_path = strdup(root);
		return *ret_path ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "find the cgroup");
	}
	lh_cgroup_remove_stale();
	path = lh_strf("%s/%s%d", root, prefix, (int)getpid());
	if (!path || mkdir(path, 0755) < 0)
		return lh_fail(err, LH_EENV, errno, "make a cgroup below %s", root);
	if (move_into(path) < 0) {
		int saved = errno;

		rmdir(path);
		return lh_fail(err, LH_EENV, saved, "move into the cgroup %s", path);
	}
	*ret_path = lh_steal(&path);
	return 0;
}

void lh_cgroup_leave(char *path)
{
	const char *root = find_root();

	if (path && root && strcmp(path, root) != 0 && move_into(root) == 0)
		rmdir(path);
	free(path);
}
