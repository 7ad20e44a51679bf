/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round trips by ICMP echo. The nodes' kernels answer; one thread here asks for all of
 * them, through a raw socket in every namespace. The kernel stamps arrivals.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/probe_internal.h"

enum {
	ROUNDS = 3,
	ROUNDS_WHERE_RANDOM = 25, /* so that one at least comes back from any path, and a median
				   * means something */
	ROUND_GAP_NS = 10 * LH_NS_PER_MS,
	/* of one node's echoes at once: where there are more, they would queue at its card */
	GROUP_ECHOES = 64,
	GROUP_GAP_NS = 2 * LH_NS_PER_MS,
	/* all namespaces answer through one socket of the kernel, which holds 148 answers: with a
	 * clock that readings hardly move, groups of all nodes would be at one instant */
	NODE_GAP_NS = 5000,
	RECEIVED_AT_ONCE = 64,
	PATIENCE_NS = 2000000000, /* beyond the longest round trip */
	ECHO_ID = 0x4c48,
	RECEIVE_BUFFER_BYTES = 8 << 20,
};

/* What an echo carries; it comes back unchanged. */
struct echo {
	struct icmphdr header;
	uint32_t to;
	uint32_t round;
	int64_t sent_ns; /* CLOCK_REALTIME, the clock of the kernel's stamps */
};

_Static_assert(sizeof(struct echo) + 34 == LH_ECHO_WIRE_BYTES, "the length of an echo");

struct rtt_probe {
	const struct lh_plan *plan;
	int *socks; /* by node */
	uint32_t n_rounds;
	int64_t *samples; /* [(from * n + to) * n_rounds + round], -1: none yet */
	size_t n_missing;
};

static uint16_t checksum(const void *data, size_t size)
{
	const uint16_t *w = data;
	uint32_t sum = 0;

	for (size_t i = 0; i < size / 2; i++)
		sum += w[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

static int64_t realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * LH_NS_PER_S + t.tv_nsec;
}

static int open_socket(struct lh_net *net, size_t node, int *ret_sock, struct lh_error *err)
{
	int one = 1, size = RECEIVE_BUFFER_BYTES;
	int r = lh_net_enter(net, node, err);

	if (r < 0)
		return r;
	*ret_sock = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP);
	if (*ret_sock < 0)
		return lh_fail(err, LH_ESYS, errno, "open an ICMP socket");
	setsockopt(*ret_sock, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	setsockopt(*ret_sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return 0;
}

/* What goes into the kernel, or comes out of it, with one call. */
struct batch {
	struct echo echoes[GROUP_ECHOES];
	struct sockaddr_in addresses[GROUP_ECHOES];
	struct iovec parts[GROUP_ECHOES];
	struct mmsghdr messages[GROUP_ECHOES];
	unsigned n;
};

static void add_echo(const struct lh_plan *plan, struct batch *b, size_t from, size_t to,
		     uint32_t round, int64_t now_ns)
{
	/* of a node to itself: to its second rank */
	uint32_t address = plan->nodes[to].address + (from == to);
	unsigned i = b->n++;

	b->addresses[i] = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(address),
	};
	b->echoes[i] = (struct echo){
		.header = {.type = ICMP_ECHO, .un.echo.id = htons(ECHO_ID)},
		.to = (uint32_t)to,
		.round = round,
		.sent_ns = now_ns,
	};
	b->echoes[i].header.checksum = checksum(&b->echoes[i], sizeof(b->echoes[i]));
	b->parts[i] = (struct iovec){&b->echoes[i], sizeof(b->echoes[i])};
	b->messages[i].msg_hdr = (struct msghdr){.msg_name = &b->addresses[i],
						 .msg_namelen = sizeof(b->addresses[i]),
						 .msg_iov = &b->parts[i],
						 .msg_iovlen = 1};
}

static int send_batch(const struct rtt_probe *p, size_t from, struct batch *b, struct lh_error *err)
{
	unsigned sent = 0;

	while (sent < b->n) {
		int k = sendmmsg(p->socks[from], b->messages + sent, b->n - sent, 0);

		if (k < 0)
			return lh_fail(err, LH_ESYS, errno, "send an echo to %s",
				       p->plan->nodes[b->echoes[sent].to].name);
		sent += (unsigned)k;
	}
	return 0;
}

/* The echoes of one node to those from `first` places behind it on, at most GROUP_ECHOES. */
static int send_group(const struct rtt_probe *p, size_t from, size_t first, uint32_t round,
		      struct lh_error *err)
{
	size_t n = p->plan->n_nodes;
	int64_t now_ns = realtime_ns();
	struct batch b = {.n = 0};

	for (size_t i = first; i < n && b.n < GROUP_ECHOES; i++)
		add_echo(p->plan, &b, from, (from + i) % n, round, now_ns);
	return send_batch(p, from, &b, err);
}

/* One echo over each inner network that is measured. */
static int send_inside(const struct rtt_probe *p, uint32_t round, struct lh_error *err)
{
	int r = 0;

	for (size_t i = 0; i < p->plan->n_nodes && r == 0; i++) {
		struct batch b = {.n = 0};

		if (!lh_plan_is_first_inner(p->plan, i))
			continue;
		add_echo(p->plan, &b, i, i, round, realtime_ns());
		r = send_batch(p, i, &b, err);
	}
	return r;
}

int64_t lh_arrival_ns(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct timespec t;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_TIMESTAMPNS)
			continue;
		memcpy(&t, CMSG_DATA(c), sizeof(t));
		return (int64_t)t.tv_sec * LH_NS_PER_S + t.tv_nsec;
	}
	return 0;
}

/* Room for answers, and for what the kernel says of each. */
struct answers {
	char packets[RECEIVED_AT_ONCE][256];
	char controls[RECEIVED_AT_ONCE][128];
	struct iovec parts[RECEIVED_AT_ONCE];
	struct mmsghdr messages[RECEIVED_AT_ONCE];
};

static void take_answer(struct rtt_probe *p, size_t from, const char *packet, size_t size,
			struct msghdr *m)
{
	size_t n = p->plan->n_nodes;
	struct echo e;
	int64_t *sample;

	if (size < sizeof(struct iphdr) + sizeof(e))
		return;
	memcpy(&e, packet + sizeof(struct iphdr), sizeof(e));
	if (e.header.type != ICMP_ECHOREPLY || e.header.un.echo.id != htons(ECHO_ID) || e.to >= n ||
	    e.round >= p->n_rounds)
		return;
	sample = &p->samples[(from * n + e.to) * p->n_rounds + e.round];
	if (*sample < 0) {
		*sample = lh_arrival_ns(m) - e.sent_ns;
		p->n_missing--;
	}
}

/* Takes every answer that waits at a node. */
static void receive_answers(struct rtt_probe *p, size_t from)
{
	struct answers a;
	int got;

	do {
		for (size_t i = 0; i < RECEIVED_AT_ONCE; i++) {
			a.parts[i] = (struct iovec){a.packets[i], sizeof(a.packets[i])};
			a.messages[i].msg_hdr =
				(struct msghdr){.msg_iov = &a.parts[i],
						.msg_iovlen = 1,
						.msg_control = a.controls[i],
						.msg_controllen = sizeof(a.controls[i])};
		}
		got = recvmmsg(p->socks[from], a.messages, RECEIVED_AT_ONCE, 0, NULL);
		for (int i = 0; i < got; i++)
			take_answer(p, from, a.packets[i], a.messages[i].msg_len,
				    &a.messages[i].msg_hdr);
	} while (got == RECEIVED_AT_ONCE);
}

/* The longest round trip that is waited for. */
static int64_t longest_rtt_ns(const struct lh_plan *plan)
{
	int64_t longest = lh_plan_longest_rtt_ns(plan);

	for (size_t i = 0; i < plan->n_nodes; i++)
		if (2 * plan->nodes[i].inner.delay_ns > longest)
			longest = 2 * plan->nodes[i].inner.delay_ns;
	return longest;
}

static int collect_answers(struct rtt_probe *p, struct lh_error *err)
{
	size_t n = p->plan->n_nodes;
	lh_cleanup_free struct pollfd *fds = calloc(n, sizeof(*fds));
	int64_t end_ns = lh_now_ns() + longest_rtt_ns(p->plan) + PATIENCE_NS;

	if (!fds)
		return lh_fail(err, LH_ESYS, ENOMEM, "wait for echoes");
	for (size_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){.fd = p->socks[i], .events = POLLIN};
	while (p->n_missing) {
		int64_t left = end_ns - lh_now_ns();
		struct timespec timeout = {left / LH_NS_PER_S, left % LH_NS_PER_S};

		if (left <= 0 || ppoll(fds, n, &timeout, NULL) == 0)
			break;
		for (size_t i = 0; i < n; i++)
			if (fds[i].revents)
				receive_answers(p, i);
	}
	return 0;
}

/* The median of those of n values that arrived, or -1. */
static int64_t median(int64_t *v, size_t n)
{
	size_t missing = 0;

	for (size_t i = 1; i < n; i++)
		for (size_t j = i; j > 0 && v[j] < v[j - 1]; j--) {
			int64_t t = v[j];

			v[j] = v[j - 1];
			v[j - 1] = t;
		}
	while (missing < n && v[missing] < 0)
		missing++;
	return missing < n ? v[missing + (n - missing) / 2] : -1;
}

static bool is_random(const struct lh_plan *plan)
{
	for (size_t i = 0; i < plan->n_nodes * plan->n_nodes; i++)
		if (plan->paths[i].seed)
			return true;
	return false;
}

static int run_rounds(struct rtt_probe *p, struct lh_error *err)
{
	size_t n = p->plan->n_nodes;
	int64_t begin_ns = lh_now_ns();
	bool has_fine_clock = p->plan->n_ranks > n;
	int64_t gap_ns = (int64_t)(n / GROUP_ECHOES) * GROUP_GAP_NS + ROUND_GAP_NS;
	int r = 0;

	for (uint32_t round = 0; round < p->n_rounds && r == 0; round++, begin_ns += gap_ns) {
		for (size_t first = 1; first < n && r == 0; first += GROUP_ECHOES) {
			lh_sleep_until(begin_ns + (int64_t)(first / GROUP_ECHOES) * GROUP_GAP_NS);
			for (size_t i = 0; i < n && r == 0; i++) {
				if (has_fine_clock)
					lh_sleep_until(lh_now_ns() + NODE_GAP_NS);
				r = send_group(p, i, first, round, err);
			}
		}
		if (r == 0)
			r = send_inside(p, round, err);
	}
	return r < 0 ? r : collect_answers(p, err);
}

int lh_probe_rtts(struct lh_net *net, const struct lh_plan *plan, int64_t *ret_ns,
		  struct lh_error *err)
{
	size_t n = plan->n_nodes;
	lh_cleanup_free int *socks = malloc(n * sizeof(*socks));
	uint32_t rounds = is_random(plan) ? ROUNDS_WHERE_RANDOM : ROUNDS;
	lh_cleanup_free int64_t *samples = malloc(n * n * rounds * sizeof(*samples));
	struct rtt_probe p = {plan, socks, rounds, samples, n * (n - 1) * rounds};
	struct lh_error ignored;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		p.n_missing += lh_plan_is_first_inner(plan, i) ? rounds : 0;
	if (!socks || !samples)
		return lh_fail(err, LH_ESYS, ENOMEM, "probe round trips");
	for (size_t i = 0; i < n; i++)
		socks[i] = -1;
	for (size_t i = 0; i < n * n * rounds; i++)
		samples[i] = -1;
	for (size_t i = 0; i < n && r == 0; i++)
		r = open_socket(net, i, &socks[i], err);
	lh_net_leave(net, &ignored);
	if (r == 0)
		r = run_rounds(&p, err);
	for (size_t i = 0; i < n; i++)
		if (socks[i] >= 0)
			close(socks[i]);
	for (size_t i = 0; i < n * n && r == 0; i++)
		ret_ns[i] = median(&samples[i * rounds], rounds);
	return r;
}
