/* SPDX-License-Identifier: Apache-2.0 */
/* TCP sockets. See tcp.h. */
#include "trainer/transport/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/cleanup.h"

enum {
	USER_TIMEOUT_MS = 60000,
	KEEPALIVE_IDLE_S = 60,
	KEEPALIVE_INTERVAL_S = 10,
	KEEPALIVE_PROBES = 3,
	/* A system call may move at most INT_MAX, rounded down to pages. */
	DISCARD_MAX_BYTES = 1 << 30,
};

/* struct tcp_info of Linux 6.7 and later: headers are often older than kernels. */
struct tcp_info_long {
	struct tcp_info base;
	uint8_t room[256];
};

/* Where tcpi_total_rto stands. Source: include/uapi/linux/tcp.h of Linux 6.12. */
static const size_t TOTAL_RTO_OFFSET =
	offsetof(struct tcp_info, tcpi_rcv_ooopack) + 4 * sizeof(uint32_t);

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

int lh_tcp_listen(const struct sockaddr *address, socklen_t size, int backlog, int *ret_fd,
		  struct lh_error *err)
{
	lh_cleanup_close int fd =
		socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open a socket");
	if (set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) || bind(fd, address, size))
		return lh_fail(err, LH_ESYS, errno, "bind to this rank's address and port");
	if (listen(fd, backlog))
		return lh_fail(err, LH_ESYS, errno, "listen");
	*ret_fd = fd;
	fd = -1;
	return 0;
}

/* The same address with port 0. */
static struct sockaddr_storage without_port(const struct sockaddr_storage *address)
{
	struct sockaddr_storage any = *address;

	if (any.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&any)->sin6_port = 0;
	else
		((struct sockaddr_in *)&any)->sin_port = 0;
	return any;
}

int lh_tcp_connect_start(const struct sockaddr_storage *local,
			 const struct sockaddr_storage *remote, socklen_t size, int *ret_fd,
			 struct lh_error *err)
{
	lh_cleanup_close int fd =
		socket(remote->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_storage from = without_port(local);

	if (fd < 0)
		return lh_fail(err, LH_ESYS, errno, "open a socket");
	if (local->ss_family == remote->ss_family &&
	    (set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1) ||
	     bind(fd, (const struct sockaddr *)&from, size)))
		return lh_fail(err, LH_ESYS, errno, "bind to this rank's address");
	if (connect(fd, (const struct sockaddr *)remote, size) && errno != EINPROGRESS)
		return lh_fail(err, LH_ESYS, errno, "connect");
	*ret_fd = fd;
	fd = -1;
	return 0;
}

int lh_tcp_set_options(int fd, int64_t patience_ns, struct lh_error *err)
{
	int64_t timeout_ms = patience_ns / 1000000;

	if (timeout_ms < USER_TIMEOUT_MS)
		timeout_ms = USER_TIMEOUT_MS;
	if (set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) ||
	    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)timeout_ms) ||
	    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S) ||
	    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S) ||
	    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES) ||
	    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1))
		return lh_fail(err, LH_ESYS, errno, "set a socket's options");
	return 0;
}

int lh_tcp_set_blocking(int fd, bool is_blocking, struct lh_error *err)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, is_blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK))
		return lh_fail(err, LH_ESYS, errno, "set a socket's mode");
	return 0;
}

int lh_tcp_send(int fd, const void *bytes, size_t size, bool is_more, struct lh_error *err)
{
	const uint8_t *at = bytes;

	while (size) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL | (is_more ? MSG_MORE : 0));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return lh_fail(err, LH_ESYS, errno, "send");
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

/* One receive; 0 and the number, or the error. */
static int receive_some(int fd, void *bytes, size_t size, int flags, size_t *ret_n,
			struct lh_error *err)
{
	ssize_t n;

	do {
		n = recv(fd, bytes, size, MSG_WAITALL | flags);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return lh_fail(err, LH_ESYS, errno, "receive");
	if (n == 0)
		return lh_fail(err, LH_ERUN, 0, "the peer closed the connection");
	*ret_n = (size_t)n;
	return 0;
}

int lh_tcp_receive(int fd, void *bytes, size_t size, struct lh_error *err)
{
	uint8_t *at = bytes;

	while (size) {
		size_t n;
		int rc = receive_some(fd, at, size, 0, &n, err);

		if (rc)
			return rc;
		at += n;
		size -= n;
	}
	return 0;
}

int lh_tcp_discard(int fd, uint64_t size, struct lh_error *err)
{
	while (size) {
		size_t want = size < DISCARD_MAX_BYTES ? (size_t)size : DISCARD_MAX_BYTES;
		size_t n;
		int rc = receive_some(fd, NULL, want, MSG_TRUNC, &n, err);

		if (rc)
			return rc;
		size -= n;
	}
	return 0;
}

uint64_t lh_tcp_unacknowledged_bytes(int fd)
{
	int bytes;

	return ioctl(fd, SIOCOUTQ, &bytes) || bytes < 0 ? 0 : (uint64_t)bytes;
}

int lh_tcp_read_counters(int fd, struct lh_tcp_counters *ret_counters, struct lh_error *err)
{
	struct tcp_info_long info = {0};
	socklen_t size = sizeof(info);
	uint16_t timeouts = 0;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size))
		return lh_fail(err, LH_ESYS, errno, "read TCP_INFO");
	if (size >= TOTAL_RTO_OFFSET + sizeof(timeouts))
		memcpy(&timeouts, (const uint8_t *)&info + TOTAL_RTO_OFFSET, sizeof(timeouts));
	*ret_counters = (struct lh_tcp_counters){
		.segs_out = info.base.tcpi_segs_out,
		.data_segs_out = info.base.tcpi_data_segs_out,
		.bytes_sent = info.base.tcpi_bytes_sent,
		.bytes_retrans = info.base.tcpi_bytes_retrans,
		.retransmits = info.base.tcpi_total_retrans,
		.timeouts = timeouts,
		.rtt_ns = (int64_t)info.base.tcpi_rtt * 1000,
	};
	return 0;
}
