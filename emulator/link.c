/* SPDX-License-Identifier: Apache-2.0 */
/* Links, addresses, routes and neighbours. See link.h. */
#include "emulator/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/plan.h"

enum { LINK_PAUSE_NS = 10000000, LINK_PAUSES = 1000, RULE_PRIORITY = 100 };

/* The attributes that both ends of a veth pair have. */
static int put_end(struct nl_msg *msg, const char *name, const uint8_t mac[6], uint32_t mtu_bytes)
{
	if (nla_put_string(msg, IFLA_IFNAME, name) < 0 || nla_put(msg, IFLA_ADDRESS, 6, mac) < 0 ||
	    nla_put_u32(msg, IFLA_MTU, mtu_bytes) < 0)
		return -1;
	return 0;
}

int lh_veth_add(struct lh_nl *nl, const char *name, const uint8_t mac[6], const char *peer,
		const uint8_t peer_mac[6], int peer_ns_fd, uint32_t mtu_bytes, struct lh_error *err)
{
	struct ifinfomsg header = {.ifi_family = AF_UNSPEC};
	struct nl_msg *msg =
		lh_nl_new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
	struct nlattr *info, *data, *end;
	char what[96];

	snprintf(what, sizeof(what), "make the veth pair %s and %s", name, peer);
	if (!msg || put_end(msg, name, mac, mtu_bytes) < 0)
		goto oom;
	if (!(info = nla_nest_start(msg, IFLA_LINKINFO)) ||
	    nla_put_string(msg, IFLA_INFO_KIND, "veth") < 0)
		goto oom;
	if (!(data = nla_nest_start(msg, IFLA_INFO_DATA)) ||
	    !(end = nla_nest_start(msg, VETH_INFO_PEER)) ||
	    nlmsg_append(msg, &header, sizeof(header), NLMSG_ALIGNTO) < 0 ||
	    put_end(msg, peer, peer_mac, mtu_bytes) < 0 ||
	    nla_put_u32(msg, IFLA_NET_NS_FD, (uint32_t)peer_ns_fd) < 0)
		goto oom;
	nla_nest_end(msg, end);
	nla_nest_end(msg, data);
	nla_nest_end(msg, info);
	return lh_nl_request(nl, msg, what, err);
oom:
	nlmsg_free(msg);
	return lh_nl_request(nl, NULL, what, err);
}

int lh_link_index(const char *name, struct lh_error *err)
{
	unsigned i = if_nametoindex(name);

	return i ? (int)i : lh_fail(err, LH_ESYS, errno, "look up link %s", name);
}

int lh_link_up(struct lh_nl *nl, int ifindex, struct lh_error *err)
{
	struct ifinfomsg header = {
		.ifi_family = AF_UNSPEC,
		.ifi_index = ifindex,
		.ifi_flags = IFF_UP,
		.ifi_change = IFF_UP,
	};

	return lh_nl_request(nl, lh_nl_new(RTM_NEWLINK, 0, &header, sizeof(header)),
			     "bring a link up", err);
}

int lh_link_wait(struct lh_nl *nl, int ifindex, const char *name, struct lh_error *err)
{
	const struct timespec pause = {0, LINK_PAUSE_NS};
	struct ifinfomsg header = {.ifi_family = AF_UNSPEC, .ifi_index = ifindex};
	lh_cleanup_close int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	for (int i = 0; i < LINK_PAUSES; i++) {
		int r = lh_nl_request(nl, lh_nl_new(RTM_GETLINK, 0, &header, sizeof(header)),
				      "ask for a link", err);

		if (r < 0)
			return r;
		if (ioctl(sock, SIOCGIFFLAGS, &request) < 0)
			return lh_fail(err, LH_ESYS, errno, "ask for the state of link %s", name);
		if (request.ifr_flags & IFF_RUNNING)
			return 0;
		nanosleep(&pause, NULL);
	}
	return lh_fail(err, LH_ESYS, 0, "link %s does not come up", name);
}

int lh_address_add(struct lh_nl *nl, int ifindex, uint32_t address, struct lh_error *err)
{
	struct ifaddrmsg header = {
		.ifa_family = AF_INET,
		.ifa_prefixlen = 32,
		.ifa_scope = RT_SCOPE_UNIVERSE,
		.ifa_index = (unsigned)ifindex,
	};
	struct nl_msg *msg =
		lh_nl_new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
	char what[64], text[16];

	snprintf(what, sizeof(what), "add address %s",
		 lh_address_format(address, text, sizeof(text)));
	if (msg && (nla_put_u32(msg, IFA_LOCAL, htonl(address)) < 0 ||
		    nla_put_u32(msg, IFA_ADDRESS, htonl(address)) < 0)) {
		nlmsg_free(msg);
		msg = NULL;
	}
	return lh_nl_request(nl, msg, what, err);
}

static int put_route(struct nl_msg *msg, int ifindex, const struct lh_route *route)
{
	struct nlattr *metrics;

	if (nla_put_u32(msg, RTA_OIF, (uint32_t)ifindex) < 0 ||
	    nla_put_u32(msg, RTA_DST, htonl(route->prefix)) < 0)
		return -1;
	if (route->table && nla_put_u32(msg, RTA_TABLE, route->table) < 0)
		return -1;
	if (route->gateway && nla_put_u32(msg, RTA_GATEWAY, htonl(route->gateway)) < 0)
		return -1;
	if (route->source && nla_put_u32(msg, RTA_PREFSRC, htonl(route->source)) < 0)
		return -1;
	if (!route->initial_window)
		return 0;
	metrics = nla_nest_start(msg, RTA_METRICS);
	if (!metrics || nla_put_u32(msg, RTAX_INITCWND, route->initial_window) < 0)
		return -1;
	nla_nest_end(msg, metrics);
	return 0;
}

int lh_route_add(struct lh_nl *nl, int ifindex, const struct lh_route *route, struct lh_error *err)
{
	struct rtmsg header = {
		.rtm_family = AF_INET,
		.rtm_dst_len = (unsigned char)route->prefix_len,
		.rtm_table = route->table ? RT_TABLE_UNSPEC : RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = route->gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
		.rtm_type = RTN_UNICAST,
		.rtm_flags = route->gateway ? RTNH_F_ONLINK : 0,
	};
	struct nl_msg *msg =
		lh_nl_new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
	char what[64], text[16];

	snprintf(what, sizeof(what), "add the route to %s/%d",
		 lh_address_format(route->prefix, text, sizeof(text)), route->prefix_len);
	if (msg && put_route(msg, ifindex, route) < 0) {
		nlmsg_free(msg);
		msg = NULL;
	}
	return lh_nl_request(nl, msg, what, err);
}

int lh_rule_add(struct lh_nl *nl, const char *link, uint32_t table, struct lh_error *err)
{
	struct fib_rule_hdr header = {
		.family = AF_INET,
		.table = RT_TABLE_UNSPEC,
		.action = FR_ACT_TO_TBL,
	};
	struct nl_msg *msg =
		lh_nl_new(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
	char what[64];

	snprintf(what, sizeof(what), "add the rule for what comes from %s", link);
	if (msg &&
	    (nla_put_string(msg, FRA_IIFNAME, link) < 0 || nla_put_u32(msg, FRA_TABLE, table) < 0 ||
	     nla_put_u32(msg, FRA_PRIORITY, RULE_PRIORITY) < 0)) {
		nlmsg_free(msg);
		msg = NULL;
	}
	return lh_nl_request(nl, msg, what, err);
}

int lh_neighbour_add(struct lh_nl *nl, int ifindex, uint32_t address, const uint8_t mac[6],
		     struct lh_error *err)
{
	struct ndmsg header = {
		.ndm_family = AF_INET,
		.ndm_ifindex = ifindex,
		.ndm_state = NUD_PERMANENT,
	};
	struct nl_msg *msg =
		lh_nl_new(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &header, sizeof(header));
	char what[64], text[16];

	snprintf(what, sizeof(what), "add the neighbour %s",
		 lh_address_format(address, text, sizeof(text)));
	if (msg && (nla_put_u32(msg, NDA_DST, htonl(address)) < 0 ||
		    nla_put(msg, NDA_LLADDR, 6, mac) < 0)) {
		nlmsg_free(msg);
		msg = NULL;
	}
	return lh_nl_request(nl, msg, what, err);
}
