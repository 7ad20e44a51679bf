/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a run. See run_folder.h. */
#include "cli/run_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "core/log.h"

#define PARTIAL ".partial-"

enum {
	RANDOM_CHARACTERS = 6, /* of mkdtemp */
	HEADLESS_S = 60,       /* a folder without run.json is being made for less than that */
};

/* Whether a file's name is one that mkdtemp made of OUT.partial-XXXXXX. */
static bool is_partial_name(const char *name)
{
	const char *at = strstr(name, PARTIAL), *next;

	while (at && (next = strstr(at + 1, PARTIAL)))
		at = next;
	if (!at || at == name || strlen(at) != strlen(PARTIAL) + RANDOM_CHARACTERS)
		return false;
	for (at += strlen(PARTIAL); *at; at++)
		if (!isalnum((unsigned char)*at))
			return false;
	return true;
}

/* Whether nobody makes a run in the folder any more. */
static bool is_abandoned(int fd, struct stat *ret_st)
{
	return fstat(fd, ret_st) == 0 && ret_st->st_uid == geteuid() &&
	       flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Removes what a killed run has left. A run takes the lock before it writes run.json or train.json;
 * what has none is just being made, or not ours, unless it has been empty for long. */
static bool remove_abandoned(const char *path, int fd)
{
	lh_cleanup_free char *run = lh_path_join(path, "run.json");
	lh_cleanup_free char *training = lh_path_join(path, "train.json");
	struct lh_error ignored;
	struct stat st;

	if (!run || !training || !is_abandoned(fd, &st))
		return false;
	if (lh_path_exists(run) || lh_path_exists(training))
		return lh_dir_remove(path, &ignored) == 0;
	return time(NULL) - st.st_mtime > HEADLESS_S && rmdir(path) == 0;
}

static void clear_stale(const char *parent)
{
	lh_cleanup_closedir DIR *dir = opendir(parent);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		lh_cleanup_free char *path = NULL;
		lh_cleanup_close int fd = -1;

		if (!is_partial_name(e->d_name) || !(path = lh_path_join(parent, e->d_name)))
			continue;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && remove_abandoned(path, fd))
			lh_log(LH_LOG_INFO, "removed %s, whose run was killed", path);
	}
}

int lh_run_folder_make(const char *out, char **ret_dir, int *ret_lock_fd, struct lh_error *err)
{
	lh_cleanup_free char *parent = lh_path_dirname(out);
	lh_cleanup_free char *template = lh_strf("%s" PARTIAL "XXXXXX", out);
	mode_t mask;
	int r;

	if (!parent || !template)
		return lh_fail(err, LH_ESYS, ENOMEM, "make a folder beside %s", out);
	if (lh_path_exists(out))
		return lh_fail(err, LH_EUSAGE, 0,
			       "%s exists; results are never overwritten: name another folder with "
			       "--out, or remove it",
			       out);
	r = lh_dir_make(parent, err);
	if (r == 0 && !mkdtemp(template))
		r = lh_fail(err, LH_ESYS, errno, "make a folder beside %s", out);
	if (r < 0) {
		err->code = LH_EENV;
		return LH_EENV;
	}
	*ret_lock_fd = open(template, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*ret_dir = realpath(template, NULL);
	if (*ret_lock_fd < 0 || !*ret_dir)
		return lh_fail(err, LH_ESYS, errno, "find %s", template);
	/* a file system without locks: then nobody can take what lies there for stale either */
	(void)flock(*ret_lock_fd, LOCK_EX | LOCK_NB);
	mask = umask(0);
	umask(mask);
	(void)chmod(*ret_dir, 0777 & ~mask);
	clear_stale(parent);
	return 0;
}
