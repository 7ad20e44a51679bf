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
	BATCH_BYTES = 16384, /* what is said about it fits into the least receive buffer */
	HELD_BYTES = 65536,
	HELD_MAX = 512, /* messages */
	WHAT_BYTES = 64,
};

/* Requests that go to the kernel together. */
struct held {
	bool is_on;
	size_t n;
	size_t used; /* bytes */
	size_t last; /* where the last one begins */
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
	struct lh_nl *nl = malloc(sizeof(*nl)); /* large, and most of it never touched */
	int one = 1;
	int r;

	if (nl) {
		nl->sock = NULL;
		nl->held.is_on = false;
		nl->held.n = nl->held.used = 0;
	}
	if (!nl || !(nl->sock = nl_socket_alloc())) {
		free(nl);
		return lh_fail(err, LH_ESYS, ENOMEM, "open netlink");
	}
	r = nl_connect(nl->sock, NETLINK_ROUTE);
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

/* Reads answers until the one that ends the exchange. */
static int read_answers(struct lh_nl *nl, uint32_t seq, const char *what,
			int (*each)(const struct nlmsghdr *, void *, struct lh_error *),
			void *context, struct lh_error *err)
{
	for (;;) {
		ssize_t n = receive(nl, what, err);
		int left = (int)n;

		if (n < 0)
			return (int)n;
		for (struct nlmsghdr *h = (void *)nl->buffer; nlmsg_ok(h, left);
		     h = nlmsg_next(h, &left)) {
			int r;

			if (h->nlmsg_seq != seq)
				continue;
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR) {
				const struct nlmsgerr *e = nlmsg_data(h);

				return e->error ? fail_from_kernel(h, what, err) : 0;
			}
			r = each ? each(h, context, err) : 0;
			if (r < 0)
				return r;
		}
	}
}

/* What was asked for with the number, or NULL where it is not of those held. */
static const char *what_of(const struct held *h, uint32_t seq)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->seq[i] == seq)
			return h->what[i];
	return NULL;
}

/* Reads refusals, which come unasked, until the answer to the last of those held. */
static int read_refusals(struct lh_nl *nl, struct lh_error *err)
{
	const struct held *held = &nl->held;
	int result = 0;

	for (;;) {
		ssize_t n = receive(nl, held->what[held->n - 1], err);
		int left = (int)n;

		if (n < 0)
			return (int)n;
		for (struct nlmsghdr *h = (void *)nl->buffer; nlmsg_ok(h, left);
		     h = nlmsg_next(h, &left)) {
			const char *what = what_of(held, h->nlmsg_seq);
			const struct nlmsgerr *e = nlmsg_data(h);

			if (!what || h->nlmsg_type != NLMSG_ERROR)
				continue;
			if (e->error && result == 0)
				result = fail_from_kernel(h, what, err);
			if (h->nlmsg_seq == held->seq[held->n - 1])
				return result;
		}
	}
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
	r = n < 0 ? lh_fail(err, LH_ESYS, errno, "%s: send to netlink", held->what[held->n - 1])
		  : read_refusals(nl, err);
	held->n = held->used = 0;
	return r;
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
	if (held->n == HELD_MAX || held->used + size > HELD_BYTES)
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
	uint32_t seq;
	int r;

	if (msg && nl->held.is_on) {
		nlmsg_hdr(msg)->nlmsg_flags |= NLM_F_ACK | NLM_F_REQUEST;
		return hold(nl, msg, what, err);
	}
	if (msg)
		nlmsg_hdr(msg)->nlmsg_flags |= NLM_F_ACK | NLM_F_REQUEST;
	r = send_message(nl, msg, what, &seq, err);
	return r < 0 ? r : read_answers(nl, seq, what, NULL, NULL, err);
}

int lh_nl_dump(struct lh_nl *nl, struct nl_msg *msg, const char *what,
	       int (*each)(const struct nlmsghdr *answer, void *context, struct lh_error *err),
	       void *context, struct lh_error *err)
{
	uint32_t seq;
	int r;

	if (msg)
		nlmsg_hdr(msg)->nlmsg_flags |= NLM_F_DUMP | NLM_F_REQUEST;
	r = send_message(nl, msg, what, &seq, err);
	return r < 0 ? r : read_answers(nl, seq, what, each, context, err);
}

/* Puts messages that one call can send into one buffer; how many, and their sequence numbers. */
static size_t gather(struct lh_nl *nl, struct nl_msg **messages, size_t n, char *buffer,
		     size_t *ret_bytes, uint32_t *ret_last_seq)
{
	size_t i = 0;

	*ret_bytes = 0;
	for (; i < n; i++) {
		struct nlmsghdr *h = nlmsg_hdr(messages[i]);

		if (*ret_bytes + NLMSG_ALIGN(h->nlmsg_len) > BATCH_BYTES)
			break;
		nl_complete_msg(nl->sock, messages[i]);
		/* refusals come without being asked for */
		h->nlmsg_flags = (uint16_t)((h->nlmsg_flags | NLM_F_REQUEST) & ~NLM_F_ACK);
		memcpy(buffer + *ret_bytes, h, h->nlmsg_len);
		*ret_bytes += NLMSG_ALIGN(h->nlmsg_len);
		*ret_last_seq = h->nlmsg_seq;
	}
	if (i > 0)
		((struct nlmsghdr *)(buffer + *ret_bytes -
				     NLMSG_ALIGN(nlmsg_hdr(messages[i - 1])->nlmsg_len)))
			->nlmsg_flags |= NLM_F_ACK;
	return i;
}

/* Reads what the kernel says until it acknowledges the last message; the first refusal stays. */
static int read_batch(struct lh_nl *nl, uint32_t last_seq, const char *what,
		      int (*each)(const struct nlmsghdr *, void *, struct lh_error *),
		      void *context, struct lh_error *err)
{
	int result = 0;

	for (;;) {
		ssize_t n = receive(nl, what, err);
		int left = (int)n;

		if (n < 0)
			return (int)n;
		for (struct nlmsghdr *h = (void *)nl->buffer; nlmsg_ok(h, left);
		     h = nlmsg_next(h, &left)) {
			const struct nlmsgerr *e = nlmsg_data(h);

			if (h->nlmsg_type != NLMSG_ERROR) {
				if (result == 0)
					result = each(h, context, err);
				continue;
			}
			if (e->error && result == 0)
				result = fail_from_kernel(h, what, err);
			if (h->nlmsg_seq == last_seq)
				return result;
		}
	}
}

int lh_nl_batch(struct lh_nl *nl, struct nl_msg **messages, size_t n, const char *what,
		int (*each)(const struct nlmsghdr *answer, void *context, struct lh_error *err),
		void *context, struct lh_error *err)
{
	char *buffer = malloc(BATCH_BYTES);
	int r = buffer ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "%s", what);

	for (size_t done = 0, some; done < n && r == 0; done += some) {
		size_t bytes;
		uint32_t last_seq = 0;

		some = gather(nl, messages + done, n - done, buffer, &bytes, &last_seq);
		if (send(nl_socket_get_fd(nl->sock), buffer, bytes, 0) < 0)
			r = lh_fail(err, LH_ESYS, errno, "%s", what);
		else
			r = read_batch(nl, last_seq, what, each, context, err);
	}
	for (size_t i = 0; i < n; i++)
		nlmsg_free(messages[i]);
	free(buffer);
	return r;
}
