/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces and their settings. See netns.h. */
#include "emulator/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"

int lh_netns_open_current(int *ret_fd, struct lh_error *err)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open /proc/thread-self/ns/net");
	*ret_fd = fd;
	return 0;
}

int lh_netns_create(int *ret_fd, struct lh_error *err)
{
	if (unshare(CLONE_NEWNET) < 0)
		return lh_fail(err, LH_ESYS, errno, "make a network namespace");
	return lh_netns_open_current(ret_fd, err);
}

int lh_netns_enter(int fd, struct lh_error *err)
{
	if (setns(fd, CLONE_NEWNET) < 0)
		return lh_fail(err, LH_ESYS, errno, "enter a network namespace");
	return 0;
}

/* Turns runs of white space into single blanks and cuts them off at the end. */
static void squeeze(char *s)
{
	char *to = s;

	for (char *from = s; *from; from++) {
		bool blank = *from == ' ' || *from == '\t' || *from == '\n';

		if (!blank)
			*to++ = *from;
		else if (to > s && to[-1] != ' ')
			*to++ = ' ';
	}
	while (to > s && to[-1] == ' ')
		to--;
	*to = '\0';
}

int lh_sysctl_read(const char *key, char *buf, size_t n_buf, struct lh_error *err)
{
	char path[256];
	lh_cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s%s", key[0] == '/' ? "" : "/proc/sys/", key);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open %s", path);
	n = read(fd, buf, n_buf - 1);
	if (n < 0)
		return lh_fail(err, LH_ESYS, errno, "read %s", path);
	buf[n] = '\0';
	squeeze(buf);
	return 0;
}

int lh_sysctl_write(const char *key, const char *value, struct lh_error *err)
{
	char path[256], held[256];
	lh_cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s%s", key[0] == '/' ? "" : "/proc/sys/", key);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open %s", path);
	if (write(fd, value, strlen(value)) < 0)
		return lh_fail(err, LH_ESYS, errno, "write '%s' to %s", value, path);
	n = pread(fd, held, sizeof(held) - 1, 0);
	if (n < 0)
		return lh_fail(err, LH_ESYS, errno, "read %s", path);
	held[n] = '\0';
	squeeze(held);
	if (strcmp(held, value) != 0)
		return lh_fail(err, LH_ESYS, 0, "%s holds '%s' after '%s' was written", path, held,
			       value);
	return 0;
}
