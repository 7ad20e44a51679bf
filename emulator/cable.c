/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cables between nodes on the host and a network in the guest. See cable.h.
 * Source of the guest's end: arch/um/drivers/vector_kern.c.
 */
#include "emulator/cable.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/link.h"
#include "emulator/proc.h"
#include "emulator/qdisc.h"

enum {
	/* TCP on the host fills it with whole windows, and what finds no room is lost */
	TAP_QUEUE_PKTS = 32768,
	PROC_FILE_MAX_BYTES = 1 << 20,
};

void lh_cable_tap_name(size_t i, char ret[LH_CABLE_NAME_BYTES])
{
	snprintf(ret, LH_CABLE_NAME_BYTES, "lh%u", (unsigned)i);
}

static struct nl_msg *link_message(int ifindex)
{
	struct ifinfomsg header = {.ifi_family = AF_UNSPEC, .ifi_index = ifindex};

	return lh_nl_new(RTM_NEWLINK, 0, &header, sizeof(header));
}

static struct nl_msg *unless(bool failed, struct nl_msg *msg)
{
	if (!failed)
		return msg;
	nlmsg_free(msg);
	return NULL;
}

/* Takes the link called name from the home namespace into that of node i, which the caller is
 * in. */
static int take_link(const struct lh_net *net, size_t i, const char *name, int *ret_ifindex,
		     struct lh_error *err)
{
	struct nl_msg *msg = link_message(0);
	char what[64];
	int r;

	snprintf(what, sizeof(what), "take the link %s into its namespace", name);
	msg = unless(msg && (nla_put_string(msg, IFLA_IFNAME, name) < 0 ||
			     nla_put_u32(msg, IFLA_NET_NS_FD, (uint32_t)net->node_ns_fds[i]) < 0),
		     msg);
	r = lh_nl_request(net->home, msg, what, err);
	if (r < 0)
		return r;
	r = *ret_ifindex = lh_link_index(name, err);
	return r < 0 ? r : 0;
}

/* Whatever comes in at `from` goes out at `to`, untouched. */
static int redirect(struct lh_nl *nl, int from, int to, struct lh_error *err)
{
	lh_cleanup_close int prog_fd = -1;
	int r = lh_bpf_load_redirect(to, &prog_fd, err);

	return r < 0 ? r : lh_ingress_add(nl, from, LH_INGRESS_FIRST, prog_fd, err);
}

int lh_cable_join(const struct lh_net *net, struct lh_nl *nl, size_t i, int link,
		  struct lh_error *err)
{
	char name[LH_CABLE_NAME_BYTES];
	int vec, r;

	snprintf(name, sizeof(name), "vec%u", (unsigned)i);
	r = take_link(net, i, name, &vec, err);
	/* nothing may be sent before the other end is up: the driver never tries again */
	if (r == 0)
		r = lh_link_up(nl, vec, err);
	if (r == 0)
		r = redirect(nl, vec, link, err);
	return r < 0 ? r : redirect(nl, link, vec, err);
}

int lh_cable_take(const struct lh_net *net, struct lh_nl *nl, size_t i, const uint8_t mac[6],
		  int *ret_link, struct lh_error *err)
{
	char name[LH_CABLE_NAME_BYTES];
	struct nl_msg *msg;
	int r;

	lh_cable_tap_name(i, name);
	r = take_link(net, i, name, ret_link, err);
	if (r < 0)
		return r;
	msg = link_message(*ret_link);
	msg = unless(msg && (nla_put_string(msg, IFLA_IFNAME, "eth0") < 0 ||
			     nla_put(msg, IFLA_ADDRESS, 6, mac) < 0 ||
			     nla_put_u32(msg, IFLA_MTU, net->plan->mtu_bytes) < 0 ||
			     nla_put_u32(msg, IFLA_TXQLEN, TAP_QUEUE_PKTS) < 0),
		     msg);
	r = lh_nl_request(nl, msg, "set up a node's link", err);
	return r < 0 ? r : lh_link_up(nl, *ret_link, err);
}

int lh_cable_read_drops(uint64_t *ret_drops, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	int r = lh_file_read("/proc/thread-self/net/dev", PROC_FILE_MAX_BYTES, &text, NULL, err);

	if (r == 0)
		*ret_drops = lh_proc_link_drops(text);
	return r;
}
