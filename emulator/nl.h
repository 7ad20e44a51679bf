/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Netlink requests to one network namespace: build with libnl's message calls, send, wait
 * for the kernel's verdict, keep its own words when it refuses. Private to the emulator.
 */
#ifndef LH_EMULATOR_NL_H
#define LH_EMULATOR_NL_H

#include <netlink/attr.h>
#include <netlink/msg.h>

#include "core/error.h"

struct lh_nl;

/* Opens a socket in the calling thread's current network namespace. */
int lh_nl_open(struct lh_nl **ret_nl, struct lh_error *err);
void lh_nl_close(struct lh_nl *nl);

/* The same for another netlink protocol: NETLINK_SOCK_DIAG. */
int lh_nl_open_protocol(int protocol, struct lh_nl **ret_nl, struct lh_error *err);

/*
 * Sends msg (which it frees) with NLM_F_ACK and waits for the acknowledgement. what is
 * said in the message on failure ("add netem to port3").
 */
int lh_nl_request(struct lh_nl *nl, struct nl_msg *msg, const char *what, struct lh_error *err);

/*
 * From lh_nl_hold on requests are kept, and sent many at a time; a system call is what a request
 * costs in the guest. lh_nl_release sends the rest. Either it or a later request returns the
 * first refusal; those after the refused one have been carried out.
 */
void lh_nl_hold(struct lh_nl *nl);
int lh_nl_release(struct lh_nl *nl, struct lh_error *err);

/*
 * Sends n messages at once (and frees them), so that the kernel takes them one after the other,
 * and calls each for whatever it says of them (with NLM_F_ECHO). The first that it refuses fails
 * the call; the others hold.
 */
int lh_nl_batch(struct lh_nl *nl, struct nl_msg **messages, size_t n, const char *what,
		int (*each)(const struct nlmsghdr *answer, void *context, struct lh_error *err),
		void *context, struct lh_error *err);

/* Sends a dump request (msg is freed) and calls each for every answer; a negative result of
 * each ends the dump and is returned. */
int lh_nl_dump(struct lh_nl *nl, struct nl_msg *msg, const char *what,
	       int (*each)(const struct nlmsghdr *answer, void *context, struct lh_error *err),
	       void *context, struct lh_error *err);

/* A new message of the given type and flags with a header of size bytes after it. NULL: no memory.
 */
struct nl_msg *lh_nl_new(int type, int flags, const void *header, size_t size);

#endif
