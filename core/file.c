/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders. See file.h. */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"

enum { JSON_FILE_MAX_BYTES = 256 << 20 };

char *lh_strf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	return s;
}

int lh_file_read(const char *path, size_t max_bytes, char **ret_text, size_t *ret_size,
		 struct lh_error *err)
{
	lh_cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	lh_cleanup_free char *text = NULL;
	size_t size = 0, room = 0;
	struct stat st;

	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open %s", path);
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return lh_fail(err, LH_ESYS, EISDIR, "read %s", path);
	for (;;) {
		ssize_t n;

		if (room - size < 2) {
			char *grown = realloc(text, room = room ? room * 2 : 4096);

			if (!grown)
				return lh_fail(err, LH_ESYS, ENOMEM, "read %s", path);
			text = grown;
		}
		n = read(fd, text + size, room - size - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return lh_fail(err, LH_ESYS, errno, "read %s", path);
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > max_bytes)
			return lh_fail(err, LH_ESYS, 0, "read %s: larger than %zu bytes", path,
				       max_bytes);
	}
	text[size] = '\0';
	if (ret_size)
		*ret_size = size;
	*ret_text = lh_steal(&text);
	return 0;
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

int lh_file_write(const char *path, const void *data, size_t size, struct lh_error *err)
{
	lh_cleanup_free char *temporary = lh_strf("%s.part-%d", path, (int)getpid());
	int fd, saved;

	if (!temporary)
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "create %s", path);
	if (write_all(fd, data, size) < 0)
		goto fail;
	if (close(fd) < 0) {
		fd = -1;
		goto fail;
	}
	fd = -1;
	if (rename(temporary, path) == 0)
		return 0;
fail:
	saved = errno;
	if (fd >= 0)
		close(fd);
	unlink(temporary);
	return lh_fail(err, LH_ESYS, saved, "write %s", path);
}

int lh_json_write(const char *path, const json_t *value, struct lh_error *err)
{
	lh_cleanup_free char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	lh_cleanup_free char *line = NULL;

	if (!text || !(line = lh_strf("%s\n", text)))
		return lh_fail(err, LH_ESYS, ENOMEM, "write %s", path);
	return lh_file_write(path, line, strlen(line), err);
}

int lh_json_read(const char *path, json_t **ret_value, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	json_error_t je;
	size_t size;
	json_t *value;
	int r = lh_file_read(path, JSON_FILE_MAX_BYTES, &text, &size, err);

	if (r < 0)
		return r;
	value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &je);
	if (!value)
		return lh_fail(err, LH_EINPUT, 0, "%s:%d:%d: %s", path, je.line, je.column,
			       je.text);
	*ret_value = value;
	return 0;
}

bool lh_path_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

char *lh_path_unused(const char *path)
{
	char *unused = strdup(path);

	for (int i = 2; unused && lh_path_exists(unused); i++) {
		free(unused);
		unused = lh_strf("%s-%d", path, i);
	}
	return unused;
}

int lh_dir_make(const char *path, struct lh_error *err)
{
	lh_cleanup_free char *p = strdup(path);
	struct stat st;

	if (!p)
		return lh_fail(err, LH_ESYS, ENOMEM, "make folder %s", path);
	if (!*p)
		return lh_fail(err, LH_ESYS, ENOENT, "make folder '%s'", path);
	for (char *s = p + 1;; s++) {
		char c = *s;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdir(p, 0777) < 0 && errno != EEXIST)
			return lh_fail(err, LH_ESYS, errno, "make folder %s", p);
		if (!(*s = c))
			break;
	}
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return lh_fail(err, LH_ESYS, ENOTDIR, "make folder %s", path);
	return 0;
}

/* Removes what stands in the folder open as dir. */
static int remove_entries(DIR *dir)
{
	struct dirent *e;

	while ((e = readdir(dir))) {
		int fd;
		lh_cleanup_closedir DIR *sub = NULL;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(dir), e->d_name, 0) == 0)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return -1;
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || !(sub = fdopendir(fd)))
			return -1;
		if (remove_entries(sub) < 0 || unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR) < 0)
			return -1;
	}
	return 0;
}

int lh_dir_remove(const char *path, struct lh_error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	lh_cleanup_closedir DIR *dir = NULL;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || !(dir = fdopendir(fd)) || remove_entries(dir) < 0 || rmdir(path) < 0)
		return lh_fail(err, LH_ESYS, errno, "remove folder %s", path);
	return 0;
}

char *lh_path_dirname(const char *path)
{
	lh_cleanup_free char *copy = strdup(path);

	return copy ? strdup(dirname(copy)) : NULL;
}

char *lh_path_join(const char *base, const char *name)
{
	if (name[0] == '/' || !base[0] || strcmp(base, ".") == 0)
		return strdup(name);
	return lh_strf("%s%s%s", base, base[strlen(base) - 1] == '/' ? "" : "/", name);
}
