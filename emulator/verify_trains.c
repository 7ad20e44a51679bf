/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains of numbered UDP packets between nodes. One thread sends and receives for all of
 * them: every namespace here has the same clock, so a packet's delay is its arrival, stamped
 * by the receiving kernel, less the time that it carries.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/probe_internal.h"
#include "emulator/verify_internal.h"

enum {
	PORT = 20001,
	PATIENCE_NS = 1000000000,
	BUFFER_BYTES = 512 << 20,
	UDP_HEADERS_BYTES = 28,
	PACKET_MAX_BYTES = 65536,
	FILLER = 0x5a,
	HEAP_PACKETS = 2048,
};

/* What a packet begins with; bytes of FILLER follow. */
struct head {
	uint32_t train;
	uint32_t number;
	int64_t sent_ns; /* CLOCK_REALTIME, the clock of the kernel's stamps */
	uint32_t size;
	uint32_t sum; /* of the fields above */
};

struct trains {
	const struct lh_plan *plan;
	struct lh_train *list;
	size_t n;
	int *socks; /* by node, -1: none */
	struct pollfd *fds;
	uint32_t *highest; /* by train: number + 1 of the furthest that has come */
	size_t n_missing;
	unsigned char *packet;
};

uint32_t lh_probe_full_bytes(const struct lh_plan *plan)
{
	return plan->mtu_bytes - UDP_HEADERS_BYTES;
}

uint32_t lh_probe_wire_bytes(uint32_t payload)
{
	return payload + UDP_HEADERS_BYTES + LH_ETHERNET_HEADER_BYTES;
}

bool lh_train_is_full(const struct lh_train *t, uint32_t i)
{
	return t->n_full == t->n || (i % 2 && i / 2 < t->n_full);
}

void lh_train_done(struct lh_train *t)
{
	free(t->delay_ns);
	free(t->arrival_ns);
	free(t->all_ns);
	t->delay_ns = t->arrival_ns = t->all_ns = NULL;
}

static int64_t realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * LH_NS_PER_S + t.tv_nsec;
}

/* FNV-1a over the fields before the sum. */
static uint32_t sum_of(const struct head *h)
{
	const unsigned char *bytes = (const unsigned char *)h;
	uint32_t sum = 2166136261u;

	for (size_t i = 0; i < offsetof(struct head, sum); i++)
		sum = (sum ^ bytes[i]) * 16777619u;
	return sum;
}

static int open_socket(struct lh_net *net, const struct lh_plan *plan, size_t node, int *ret_sock,
		       struct lh_error *err)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(plan->nodes[node].address),
	};
	int one = 1, size = BUFFER_BYTES;
	int r = lh_net_enter(net, node, err);

	if (r < 0)
		return r;
	*ret_sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*ret_sock < 0 || bind(*ret_sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return lh_fail(err, LH_ESYS, errno, "open a UDP socket at node %s",
			       plan->nodes[node].name);
	setsockopt(*ret_sock, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	setsockopt(*ret_sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(*ret_sock, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	return 0;
}

/* The kernel is to cut what it is given into packets of so many bytes, as late as it can. */
static void ask_to_cut(struct msghdr *m, char *control, size_t n_control, uint16_t bytes)
{
	struct cmsghdr *c;

	m->msg_control = control;
	m->msg_controllen = n_control;
	c = CMSG_FIRSTHDR(m);
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(bytes));
	memcpy(CMSG_DATA(c), &bytes, sizeof(bytes));
}

/* Sends count packets from number on as one. */
static int send_some(struct trains *s, size_t train, uint32_t number, uint32_t count,
		     struct lh_error *err)
{
	const struct lh_train *t = &s->list[train];
	char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(s->plan->nodes[t->to].address),
	};
	uint32_t size =
		lh_train_is_full(t, number) ? lh_probe_full_bytes(s->plan) : LH_PROBE_SMALL_BYTES;
	struct head h = {.train = (uint32_t)train, .size = size, .sent_ns = realtime_ns()};
	struct iovec v = {s->packet, (size_t)size * count};
	struct msghdr m = {.msg_name = &address,
			   .msg_namelen = sizeof(address),
			   .msg_iov = &v,
			   .msg_iovlen = 1};

	memset(s->packet, FILLER, v.iov_len);
	for (uint32_t i = 0; i < count; i++) {
		h.number = number + i;
		h.sum = sum_of(&h);
		memcpy(s->packet + (size_t)size * i, &h, sizeof(h));
	}
	if (count > 1)
		ask_to_cut(&m, control, sizeof(control), (uint16_t)size);
	/* where the sender's own card has no room, the packet is lost there: it will be missed */
	if (sendmsg(s->socks[t->from], &m, 0) < 0 && errno != ENOBUFS && errno != EAGAIN)
		return lh_fail(err, LH_ESYS, errno, "send a packet to %s",
			       s->plan->nodes[t->to].name);
	return 0;
}

static bool is_whole(const unsigned char *packet, size_t size)
{
	struct head h;

	if (size < sizeof(h))
		return false;
	memcpy(&h, packet, sizeof(h));
	if (h.size != size || h.sum != sum_of(&h))
		return false;
	for (size_t i = sizeof(h); i < size; i++)
		if (packet[i] != FILLER)
			return false;
	return true;
}

static void note_arrival(struct lh_train *t, int64_t arrival_ns)
{
	if (t->n_all < 2 * t->n)
		t->all_ns[t->n_all++] = arrival_ns;
}

/* A damaged packet: its train is the one between the two nodes. */
static void take_damaged(struct trains *s, size_t node, const struct sockaddr_in *from,
			 int64_t arrival_ns)
{
	for (size_t i = 0; i < s->n; i++) {
		struct lh_train *t = &s->list[i];

		if (t->to != node ||
		    s->plan->nodes[t->from].address != ntohl(from->sin_addr.s_addr))
			continue;
		t->n_damaged++;
		note_arrival(t, arrival_ns);
	}
}

static void take_whole(struct trains *s, size_t node, const unsigned char *packet,
		       int64_t arrival_ns)
{
	struct lh_train *t;
	struct head h;

	memcpy(&h, packet, sizeof(h));
	if (h.train >= s->n || s->list[h.train].to != node || h.number >= s->list[h.train].n)
		return;
	t = &s->list[h.train];
	note_arrival(t, arrival_ns);
	if (t->arrival_ns[h.number] >= 0) {
		t->n_twice++;
		return;
	}
	t->arrival_ns[h.number] = arrival_ns;
	t->delay_ns[h.number] = arrival_ns - h.sent_ns;
	t->n_arrived++;
	s->n_missing--;
	if (h.number + 1 < s->highest[h.train])
		t->n_overtaken++;
	else
		s->highest[h.train] = h.number + 1;
}

/* Takes every packet that waits at a node. */
static void receive_all(struct trains *s, size_t node)
{
	static unsigned char packet[PACKET_MAX_BYTES];

	for (;;) {
		char control[128];
		struct sockaddr_in from = {0};
		struct iovec v = {packet, sizeof(packet)};
		struct msghdr m = {.msg_name = &from,
				   .msg_namelen = sizeof(from),
				   .msg_iov = &v,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		ssize_t got = recvmsg(s->socks[node], &m, 0);

		if (got < 0)
			return;
		if (is_whole(packet, (size_t)got))
			take_whole(s, node, packet, lh_arrival_ns(&m));
		else
			take_damaged(s, node, &from, lh_arrival_ns(&m));
	}
}

/* Receives until t_ns, or until nothing is missing. */
static void receive_until(struct trains *s, int64_t t_ns)
{
	while (s->n_missing) {
		int64_t left = t_ns - lh_now_ns();
		struct timespec timeout = {left / LH_NS_PER_S, left % LH_NS_PER_S};

		if (left <= 0 || ppoll(s->fds, s->plan->n_nodes, &timeout, NULL) == 0)
			return;
		for (size_t i = 0; i < s->plan->n_nodes; i++)
			if (s->fds[i].revents)
				receive_all(s, i);
	}
}

/* How long after the last packet something may still come. */
static int64_t patience_ns(const struct trains *s)
{
	int64_t longest = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct lh_plan_path *p =
			lh_plan_path_at(s->plan, s->list[i].from, s->list[i].to);
		double wire = s->plan->mtu_bytes + LH_ETHERNET_HEADER_BYTES;
		double slowest =
			(double)lh_plan_slowest_bps(s->plan, s->list[i].from, s->list[i].to);
		double room = (double)p->limit_pkts + p->bottleneck.limit_pkts;
		double queue_ns = room * wire * 8 / slowest * LH_NS_PER_S;
		double own_ns = s->list[i].n * wire * 8 / slowest * LH_NS_PER_S;
		int64_t t = p->delay_ns + (p->jitter ? p->jitter->highest_ns : 0) +
			    (int64_t)(queue_ns < own_ns ? queue_ns : own_ns);

		longest = t > longest ? t : longest;
	}
	return longest + PATIENCE_NS;
}

/* Arrivals carry their stamps: they are taken in heaps, since every waking costs. */
static int send_all(struct trains *s, struct lh_error *err)
{
	int64_t next_ns = lh_now_ns();
	const struct lh_train *first = &s->list[0];
	size_t waiting = 0;
	int r = 0;

	for (uint32_t i = 0, count; i < first->n && r == 0; i += count) {
		count = first->n - i < first->in_one ? first->n - i : first->in_one;
		for (size_t k = 0; k < s->n && r == 0; k++) {
			if (s->list[k].lag_ns)
				lh_sleep_until(next_ns + s->list[k].lag_ns);
			r = send_some(s, k, i, count, err);
		}
		waiting += s->n * count;
		if (waiting >= HEAP_PACKETS) {
			for (size_t k = 0; k < s->plan->n_nodes; k++)
				receive_all(s, k);
			waiting = 0;
		}
		if (!first->gap_ns ||
		    (i >= first->n_before && (i - first->n_before) % first->at_once))
			continue;
		next_ns += first->gap_ns;
		lh_sleep_until(next_ns);
	}
	receive_until(s, lh_now_ns() + patience_ns(s));
	return r;
}

static int prepare(struct lh_net *net, struct trains *s, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct lh_train *t = &s->list[i];

		t->delay_ns = malloc(t->n * sizeof(*t->delay_ns));
		t->arrival_ns = malloc(t->n * sizeof(*t->arrival_ns));
		t->all_ns = malloc(2 * t->n * sizeof(*t->all_ns));
		if (!t->delay_ns || !t->arrival_ns || !t->all_ns)
			return lh_fail(err, LH_ESYS, ENOMEM, "send packets");
		for (uint32_t k = 0; k < t->n; k++)
			t->delay_ns[k] = t->arrival_ns[k] = -1;
		s->n_missing += t->n;
	}
	for (size_t i = 0; i < s->plan->n_nodes; i++)
		s->socks[i] = -1;
	for (size_t i = 0; i < s->plan->n_nodes && r == 0; i++) {
		r = open_socket(net, s->plan, i, &s->socks[i], err);
		s->fds[i] = (struct pollfd){.fd = s->socks[i], .events = POLLIN};
	}
	for (size_t i = 0; i < s->n && r == 0; i++) {
		int off = s->list[i].no_checksum;

		setsockopt(s->socks[s->list[i].from], SOL_SOCKET, SO_NO_CHECK, &off, sizeof(off));
	}
	return r;
}

int lh_trains_run(struct lh_net *net, const struct lh_plan *plan, struct lh_train *trains,
		  size_t n_trains, struct lh_error *err)
{
	lh_cleanup_free int *socks = calloc(plan->n_nodes, sizeof(*socks));
	lh_cleanup_free struct pollfd *fds = calloc(plan->n_nodes, sizeof(*fds));
	lh_cleanup_free uint32_t *highest = calloc(n_trains, sizeof(*highest));
	lh_cleanup_free unsigned char *packet = malloc(PACKET_MAX_BYTES);
	struct trains s = {plan, trains, n_trains, socks, fds, highest, 0, packet};
	struct lh_error ignored;
	int r;

	if (!socks || !fds || !highest || !packet)
		return lh_fail(err, LH_ESYS, ENOMEM, "send packets");
	r = prepare(net, &s, err);
	lh_net_leave(net, &ignored);
	if (r == 0)
		r = send_all(&s, err);
	for (size_t i = 0; i < plan->n_nodes; i++)
		if (socks[i] >= 0)
			close(socks[i]);
	return r;
}
