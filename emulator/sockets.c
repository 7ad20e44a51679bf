/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ending TCP sockets through netlink. See sockets.h.
 * Source of the formats: include/uapi/linux/{sock_diag,inet_diag}.h, net/ipv4/inet_diag.c.
 */
#include "emulator/sockets.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/cleanup.h"
#include "emulator/nl.h"

static const uint32_t ALL_STATES = UINT32_MAX;

/* Sockets that were found. */
struct found {
	struct inet_diag_sockid *list; /* owned */
	size_t n;
	size_t room;
};

static int note_socket(const struct nlmsghdr *h, void *context, struct lh_error *err)
{
	const struct inet_diag_msg *msg = nlmsg_data(h);
	struct found *found = context;

	if (nlmsg_datalen(h) < (int)sizeof(*msg))
		return lh_fail(err, LH_ESYS, 0, "the kernel told too little of a socket");
	if (found->n == found->room) {
		size_t room = found->room ? 2 * found->room : 64;
		struct inet_diag_sockid *grown = reallocarray(found->list, room, sizeof(*grown));

		if (!grown)
			return lh_fail(err, LH_ESYS, ENOMEM, "list sockets");
		found->list = grown;
		found->room = room;
	}
	found->list[found->n++] = msg->id;
	return 0;
}

static struct nl_msg *message(int type, const struct inet_diag_sockid *id)
{
	struct inet_diag_req_v2 request = {
		.sdiag_family = AF_INET,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_states = ALL_STATES,
	};

	if (id)
		request.id = *id;
	return lh_nl_new(type, 0, &request, sizeof(request));
}

/* Ends those that were found. One may have ended by itself. */
static int end_all(struct lh_nl *nl, const struct found *found, struct lh_error *err)
{
	struct lh_error ignored;
	int released, r = 0;

	lh_nl_hold(nl);
	for (size_t i = 0; i < found->n && (r == 0 || err->sys == ENOENT); i++)
		r = lh_nl_request(nl, message(SOCK_DESTROY, &found->list[i]), "end a socket", err);
	released = lh_nl_release(nl, r < 0 ? &ignored : err);
	if (r == 0)
		r = released;
	return r < 0 && err->sys == ENOENT ? 0 : r;
}

int lh_sockets_end(struct lh_nl *nl, struct lh_error *err)
{
	struct found found = {.list = NULL};
	int r = lh_nl_dump(nl, message(SOCK_DIAG_BY_FAMILY, NULL), "list sockets", note_socket,
			   &found, err);

	if (r == 0 && found.n)
		r = end_all(nl, &found, err);
	free(found.list);
	return r;
}

int lh_sockets_check(struct lh_error *err)
{
	/* there is none with this number */
	const struct inet_diag_sockid nobody = {
		.idiag_cookie = {INET_DIAG_NOCOOKIE - 1, INET_DIAG_NOCOOKIE - 1}};
	struct lh_nl *nl = NULL;
	int r = lh_nl_open_protocol(NETLINK_SOCK_DIAG, &nl, err);

	if (r == 0)
		r = lh_nl_request(nl, message(SOCK_DESTROY, &nobody), "end a socket", err);
	lh_nl_close(nl);
	if (r < 0 && err->sys != ENOENT)
		return lh_fail(err, LH_EENV, err->sys,
			       "this kernel cannot take nodes away (it needs INET_DIAG_DESTROY; of "
			       "the guest: ./bootstrap build makes one that can)");
	return 0;
}
