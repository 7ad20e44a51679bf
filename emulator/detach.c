/* SPDX-License-Identifier: Apache-2.0 */
/* A network of one's own. See detach.h. */
#include "emulator/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/cleanup.h"

static int write_text(const char *path, const char *text, struct lh_error *err)
{
	lh_cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return lh_fail(err, LH_EENV, errno, "write '%s' to %s", text, path);
	return 0;
}

/* The user is root in the new namespace, and only there. */
static int map_user(uid_t uid, gid_t gid, struct lh_error *err)
{
	char text[64];
	int r = write_text("/proc/self/setgroups", "deny", err);

	snprintf(text, sizeof(text), "0 %u 1", (unsigned)uid);
	if (r == 0)
		r = write_text("/proc/self/uid_map", text, err);
	snprintf(text, sizeof(text), "0 %u 1", (unsigned)gid);
	if (r == 0)
		r = write_text("/proc/self/gid_map", text, err);
	return r;
}

int lh_detach(struct lh_error *err)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWNET) == 0)
		return 0;
	if (errno != EPERM)
		return lh_fail(err, LH_EENV, errno, "make a network namespace");
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return lh_fail(err, LH_EENV, errno,
			       "make a network as an ordinary user (as root: sysctl "
			       "user.max_user_namespaces=10000; on Ubuntu sysctl "
			       "kernel.apparmor_restrict_unprivileged_userns=0; or run as root)");
	return map_user(uid, gid, err);
}

int lh_detach_try(struct lh_error *err)
{
	static const char path[] = "/dev/net/tun";
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	lh_cleanup_close int fd = -1;
	int r = lh_detach(err);

	if (r < 0)
		return r;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == EACCES)
		return lh_fail(err, LH_EENV, errno, "open %s (as root: chmod 666 %s)", path, path);
	if (fd < 0)
		return lh_fail(err, LH_EENV, errno,
			       "open %s (as root: modprobe tun; in Docker: --device %s)", path,
			       path);
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		return lh_fail(err, LH_EENV, errno,
			       "make a TAP device (in Docker: --cap-add NET_ADMIN)");
	return 0;
}
