/* SPDX-License-Identifier: Apache-2.0 */
/* Ways from one node into the others. See doors.h. */
#include "emulator/doors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/command.h"
#include "emulator/network_internal.h"

static const char script[] =
	"#!/bin/sh\n"
	"# Runs a command in another node: its network, its host name.\n"
	"nodes=$(dirname \"$0\")/nodes\n"
	"if [ $# -lt 2 ] || [ ! -e \"$nodes/$1\" ]; then\n"
	"	echo \"usage: longhaul-node HOST COMMAND [ARGUMENT...]; hosts: $LONGHAUL_HOSTS\" "
	">&2\n"
	"	exit 2\n"
	"fi\n"
	"unset LONGHAUL_NODE LONGHAUL_SITE LONGHAUL_RANK LONGHAUL_ADDRESS\n"
	"host=$1\n"
	"shift\n"
	"HOSTNAME=$host exec nsenter --net=\"$nodes/$host\" unshare --uts sh -c \\\n"
	"	'echo \"$0\" >/proc/sys/kernel/hostname; exec \"$@\"' \"$host\" \"$@\"\n";

static int write_script(const char *folder, struct lh_error *err)
{
	lh_cleanup_free char *path = lh_path_join(folder, "longhaul-node");
	int r = path ? lh_file_write(path, script, sizeof(script) - 1, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "write longhaul-node");

	if (r == 0 && chmod(path, 0755) < 0)
		r = lh_fail(err, LH_ESYS, errno, "make %s a program", path);
	return r;
}

/* A rank's network as a file. */
static int add_rank(const struct lh_net *net, size_t i, const char *folder, struct lh_error *err)
{
	lh_cleanup_free char *host = lh_host_name(net->plan->ranks[i].name);
	lh_cleanup_free char *path = lh_strf("%s/nodes/%s", folder, host ? host : "");
	lh_cleanup_close int file = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444) : -1;
	char source[64];

	snprintf(source, sizeof(source), "/proc/self/fd/%d",
		 net->rank_ns_fds[i] >= 0 ? net->rank_ns_fds[i]
					  : net->node_ns_fds[net->plan->ranks[i].node]);
	if (file < 0 || mount(source, path, NULL, MS_BIND, NULL) < 0)
		return lh_fail(err, LH_ESYS, errno, "make a way into %s", host ? host : "a node");
	return 0;
}

int lh_doors_make(const struct lh_net *net, const char *folder, struct lh_error *err)
{
	lh_cleanup_free char *nodes = lh_path_join(folder, "nodes");
	int r;

	if (mount("none", folder, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") < 0 || !nodes)
		return lh_fail(err, LH_ESYS, errno, "mount a folder for longhaul-node");
	r = lh_dir_make(nodes, err);
	for (size_t i = 0; i < net->plan->n_ranks && r == 0; i++)
		r = add_rank(net, i, folder, err);
	return r < 0 ? r : write_script(folder, err);
}
