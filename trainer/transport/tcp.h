/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP sockets as the trainer uses them. Buffers and congestion control are left alone:
 * they belong to the machine. All functions are for any thread.
 */
#ifndef LH_TRAINER_TCP_H
#define LH_TRAINER_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/error.h"

/* What the kernel says of a connection at its end. */
struct lh_tcp_counters {
	uint64_t segs_out;
	uint64_t data_segs_out;
	uint64_t bytes_sent; /* with what was sent again */
	uint64_t bytes_retrans;
	uint64_t retransmits; /* segments */
	uint64_t timeouts;    /* retransmission time-outs, where the kernel counts them (6.7) */
	int64_t rtt_ns;	      /* smoothed */
};

/* A non-blocking socket that listens at address. The caller closes *ret_fd. LH_ESYS. */
int lh_tcp_listen(const struct sockaddr *address, socklen_t size, int backlog, int *ret_fd,
		  struct lh_error *err);

/* Starts a non-blocking connection from local's address (any port) to remote; whether it
 * comes up shows when *ret_fd is writable. LH_ESYS, err->sys holds the errno. */
int lh_tcp_connect_start(const struct sockaddr_storage *local,
			 const struct sockaddr_storage *remote, socklen_t size, int *ret_fd,
			 struct lh_error *err);

/* Small messages at once; a silently dead peer is noticed after about a minute. LH_ESYS. */
int lh_tcp_set_options(int fd, int64_t patience_ns, struct lh_error *err);

int lh_tcp_set_blocking(int fd, bool is_blocking, struct lh_error *err);

/* Sends all bytes, blocking; with is_more a payload follows in the same segment. LH_ESYS. */
int lh_tcp_send(int fd, const void *bytes, size_t size, bool is_more, struct lh_error *err);

/* Receives exactly size bytes, blocking. LH_ESYS; LH_ERUN where the peer closed before. */
int lh_tcp_receive(int fd, void *bytes, size_t size, struct lh_error *err);

/* Receives and drops exactly size bytes, blocking, in few system calls and without a copy
 * (tcp(7), MSG_TRUNC). Errors as lh_tcp_receive. */
int lh_tcp_discard(int fd, uint64_t size, struct lh_error *err);

/* Bytes that the kernel has taken and the peer's has not acknowledged yet; 0 where fd has failed.
 */
uint64_t lh_tcp_unacknowledged_bytes(int fd);

int lh_tcp_read_counters(int fd, struct lh_tcp_counters *ret_counters, struct lh_error *err);

#endif
