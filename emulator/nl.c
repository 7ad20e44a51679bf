/* SPDX-License-Identifier: Apache-2.0 */
/* Netlink requests. See nl.h. */
#include "emulator/nl.h"

#include <errno.h>
#include <linux/netlink.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MESSAGE_BYTES = 16384,
	RECEIVE_BYTES = 65536,
	BUFFER_BYTES = 4 << 20,
	HELD_BYTES = 65536,
	ECHOED_BYTES = 16384, /* what is said of so much fits into the least receive buffer */
	HELD_MAX = 512,	      /* messages */
	WHAT_BYTES = 64,
};

/* Requests that go to the kernel together. */
struct held {
	bool is_on;
	size_t n;
	size_t used; /* bytes */
	size_t last; /* where the last one begins */
	int (*each)(const struct nlmsghdr *, void *, struct lh_error *); /* or NULL */
	void *context;
	int result;
	unsigned char bytes[HELD_BYTES];
	uint32_t seq[HELD_MAX];
	char what[HELD_MAX][WHAT_BYTES];
};

struct lh_nl {
	struct nl_sock *sock;
	unsigned char buffer[RECEIVE_BYTES];
	struct held held;
};

int lh_nl_open(struct lh_nl **ret_nl, struct lh_error *err)
{
	return lh_nl_open_protocol(NETLINK_ROUTE, ret_nl, err);
}

int lh_nl_open_protocol(int protocol, struct lh_nl **ret_nl, struct lh_error *err)
{
	struct lh_nl *nl = malloc(sizeof(*nl)); /* large, and most of it never touched */
	int one = 1;
	int r;

	if (nl) {
		nl->sock = NULL;
		nl->held.is_on = false;
		nl->held.n = nl->held.used = 0;
		nl->held.each = NULL;
	}
	if (!nl || !(nl->sock = nl_socket_alloc())) {
		free(nl);
		return lh_fail(err, LH_ESYS, ENOMEM, "open netlink");
	}
	r = nl_connect(nl->sock, protocol);
	if (r < 0) {
		lh_nl_close(nl);
		return lh_fail(err, LH_ESYS, 0, "open netlink: %s", nl_geterror(r));
	}
	nl_socket_set_buffer_size(nl->sock, BUFFER_BYTES, BUFFER_BYTES);
	/* the kernel's own words for a refusal; an old kernel without them does no harm */
	(void)setsockopt(nl_socket_get_fd(nl->sock), SOL_NETLINK, NETLINK_EXT_ACK, &one,
			 sizeof(one));
	*ret_nl = nl;
	return 0;
}

void lh_nl_close(struct lh_nl *nl)
{
	if (!nl)
		return;
	nl_socket_free(nl->sock);
	free(nl);
}

struct nl_msg *lh_nl_new(int type, int flags, const void *header, size_t size)
{
	/* libnl's own size, a page, does not hold a table of delays */
	struct nl_msg *msg = nlmsg_alloc_size(MESSAGE_BYTES);

	if (msg && !nlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, type, 0, flags)) {
		nlmsg_free(msg);
		return NULL;
	}

	if (msg && nlmsg_append(msg, (void *)header, size, NLMSG_ALIGNTO) < 0) {
		nlmsg_free(msg);
		return NULL;
	}
	return msg;
}

/* The text of an extended acknowledgement, or NULL. */
static const char *extended_text(const struct nlmsghdr *h)
{
	const struct nlmsgerr *e = nlmsg_data(h);
	size_t skip = sizeof(*e);
	struct nlattr *text;

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS))
		return NULL;
	if (!(h->nlmsg_flags & NLM_F_CAPPED))
		skip += e->msg.nlmsg_len - NLMSG_HDRLEN;
	skip = NLMSG_ALIGN(skip);
	if (skip >= (size_t)nlmsg_datalen(h))
		return NULL;
	text = nla_find((const struct nlattr *)((const char *)nlmsg_data(h) + skip),
			nlmsg_datalen(h) - (int)skip, NLMSGERR_ATTR_MSG);
	return text ? nla_get_string(text) : NULL;
}

static int fail_from_kernel(const struct nlmsghdr *h, const char *what, struct lh_error *err)
{
	const struct nlmsgerr *e = nlmsg_data(h);
	const char *text = extended_text(h);

	return lh_fail(err, LH_ESYS, -e->error, "%s%s%s%s", what, text ? " (" : "",
		       text ? text : "", text ? ")" : "");
}

static int send_message(struct lh_nl *nl, struct nl_msg *msg, const char *what, uint32_t *ret_seq,
			struct lh_error *err)
{
	int r;

	if (!msg)
		return lh_fail(err, LH_ESYS, ENOMEM, "%s", what);
	nl_complete_msg(nl->sock, msg);
	*ret_seq = nlmsg_hdr(msg)->nlmsg_seq;
	r = nl_send(nl->sock, msg);
	nlmsg_free(msg);
	return r < 0 ? lh_fail(err, LH_ESYS, 0, "%s: %s", what, nl_geterror(r)) : 0;
}

/* Receives one datagram; its length, or a negative code. */
static ssize_t receive(struct lh_nl *nl, const char *what, struct lh_error *err)
{
	ssize_t n;

	do {
		n = recv(nl_socket_get_fd(nl->sock), nl->buffer, sizeof(nl->buffer), 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? lh_fail(err, LH_ESYS, errno, "%s: receive from netlink", what) : n;
}

/* Hands every message that comes to take until it says that it was the last (1; 0: there are
 * more) or fails. */
static int read_until(struct lh_nl *nl, const char *what,
		      int (*take)(const struct nlmsghdr *, void *, struct lh_error *),
		      void *context, struct lh_error *err)
{
	for (;;) {
		ssize_t n = receive(nl, what, err);
		int left = (int)n;

		if (n < 0)
			return (int)n;
		for (struct nlmsghdr *h = (void *)nl->buffer; nlmsg_ok(h, left);
		     h = nlmsg_next(h, &left)) {
			int r = take(h, context, err);

			if (r)
				return r < 0 ? r : 0;
		}
	}
}

/* One exchange. */
struct exchange {
	uint32_t seq;
	const char *what;
	int (*each)(const struct nlmsghdr *, void *, struct lh_error *); /* or NULL */
	void *context;
};

static int take_answer(const struct nlmsghdr *h, void *context, struct lh_error *err)
{
	const struct exchange *x = context;
	const struct nlmsgerr *e = nlmsg_data(h);

	if (h->nlmsg_seq != x->seq)
		return 0;
	if (h->nlmsg_type == NLMSG_DONE)
		return 1;
	if (h->nlmsg_type == NLMSG_ERROR)
		return e->error ? fail_from_kernel(h, x->what, err) : 1;
	return x->each ? x->each(h, x->context, err) : 0;
}

/* Sends a request and reads what comes of it. */
static int exchange(struct lh_nl *nl, struct nl_msg *msg, struct exchange x, struct lh_error *err)
{
	int r = send_message(nl, msg, x.what, &x.seq, err);

	return r < 0 ? r : read_until(nl, x.what, take_answer, &x, err);
}

/* What was asked for with the number, or NULL where it is not of those held. */
static const char *what_of(const struct held *h, uint32_t seq)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->seq[i] == seq)
			return h->what[i];
	return NULL;
}

/* Takes what the kernel says of those held, until it confirms the last; the first refusal stays. */
static int take_of_held(const struct nlmsghdr *h, void *context, struct lh_error *err)
{
	struct held *held = context;
	const char *what = what_of(held, h->nlmsg_seq);
	const struct nlmsgerr *e = nlmsg_data(h);

	if (!what)
		return 0;
	if (h->nlmsg_type != NLMSG_ERROR) {
		if (held->each && held->result == 0)
			held->result = held->each(h, held->context, err);
		return 0;
	}
	if (e->error && held->result == 0)
		held->result = fail_from_kernel(h, what, err);
	return h->nlmsg_seq == held->seq[held->n - 1];
}

static int send_held(struct lh_nl *nl, struct lh_error *err)
{
	struct held *held = &nl->held;
	ssize_t n;
	int r;

	if (!held->n)
		return 0;
	do {
		n = send(nl_socket_get_fd(nl->sock), held->bytes, held->used, 0);
	} while (n < 0 && errno == EINTR);
	held->result = 0;
	r = n < 0 ? lh_fail(err, LH_ESYS, errno, "%s: send to netlink", held->what[held->n - 1])
		  : read_until(nl, held->what[held->n - 1], take_of_held, held, err);
	held->n = held->used = 0;
	return r < 0 ? r : held->result;
}

/* Puts a message behind those held; the kernel confirms the last one only. */
static int hold(struct lh_nl *nl, struct nl_msg *msg, const char *what, struct lh_error *err)
{
	struct held *held = &nl->held;
	struct nlmsghdr *h;
	size_t size;
	int r = 0;

	nl_complete_msg(nl->sock, msg);
	h = nlmsg_hdr(msg);
	size = NLMSG_ALIGN(h->nlmsg_len);
	if (held->n == HELD_MAX || held->used + size > (held->each ? ECHOED_BYTES : HELD_BYTES))
		r = send_held(nl, err);
	if (r == 0) {
		if (held->n)
			((struct nlmsghdr *)(void *)(held->bytes + held->last))->nlmsg_flags &=
				(uint16_t)~NLM_F_ACK;
		memcpy(held->bytes + held->used, h, size);
		snprintf(held->what[held->n], WHAT_BYTES, "%s", what);
		held->seq[held->n++] = h->nlmsg_seq;
		held->last = held->used;
		held->used += size;
	}
	nlmsg_free(msg);
	return r;
}

void lh_nl_hold(struct lh_nl *nl)
{
	nl->held.is_on = true;
}

int lh_nl_release(struct lh_nl *nl, struct lh_error *err)
{
	nl->held.is_on = false;
	return send_held(nl, err);
}

int lh_nl_request(struct lh_nl *nl, struct nl_msg *msg, const char *what, struct lh_error *err)
{
	if (msg)
		nlmsg_hdr(msg)->nlmsg_flags |= NLM_F_ACK | NLM_F_REQUEST;
	if (msg && nl->held.is_on)
		return hold(nl, msg, what, err);
	return exchange(nl, msg, (struct exchange){.what = what}, err);
}

int lh_nl_dump(struct lh_nl *nl, struct nl_msg *msg, const char *what,
	       int (*each)(const struct nlmsghdr *answer, void *context, struct lh_error *err),
	       void *context, struct lh_error *err)
{
	if (msg)
		nlmsg_hdr(msg)->nlmsg_flags |= NLM_F_DUMP | NLM_F_REQUEST;
	return exchange(nl, msg, (struct exchange){.what = what, .each = each, .context = context},
			err);
}

int lh_nl_batch(struct lh_nl *nl, struct nl_msg **messages, size_t n, const char *what,
		int (*each)(const struct nlmsghdr *answer, void *context, struct lh_error *err),
		void *context, struct lh_error *err)
{
	struct lh_error ignored;
	int released, r = 0;

	nl->held.each = each;
	nl->held.context = context;
	lh_nl_hold(nl);
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = lh_nl_request(nl, messages[i], what, err);
		else
			nlmsg_free(messages[i]);
	}
	released = lh_nl_release(nl, r < 0 ? &ignored : err);
	nl->held.each = NULL;
	return r < 0 ? r : released;
}
