/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throughput by TCP streams. A thread at each end keeps a stream going; the main thread
 * reads the receivers' byte counters from the kernel at two instants. The content is not
 * copied: the sender sends pages of a file, the receiver discards.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "emulator/probe_internal.h"

enum {
	FILLER_BYTES = 4 << 20,
	RECEIVE_BLOCK_BYTES = 16 << 20,
	STACK_BYTES = 65536,
	FIRST_PORT = 20000,
	INNER_DRAIN_NS = LH_NS_PER_MS,
};

struct stream {
	struct lh_stream_job *job;
	int send_sock;
	int receive_sock;
	int filler_fd;
	pthread_t sender;
	pthread_t receiver;
	bool has_sender;
	bool has_receiver;
	uint64_t bytes_at_begin[LH_PROBE_PHASES_MAX];
};

int64_t lh_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * LH_NS_PER_S + t.tv_nsec;
}

void lh_sleep_until(int64_t t_ns)
{
	struct timespec t = {t_ns / LH_NS_PER_S, t_ns % LH_NS_PER_S};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* The rank that a stream of a job ends in: of the same node the second. */
static size_t receiver_of(const struct lh_plan *plan, const struct lh_stream_job *job)
{
	return plan->nodes[job->to].first_rank + (job->from == job->to);
}

/* A connection from one node to another, both ends in this process. */
static int connect_pair(struct lh_net *net, const struct lh_plan *plan, struct stream *s,
			uint16_t port, struct lh_error *err)
{
	size_t receiver = receiver_of(plan, s->job);
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(plan->ranks[receiver].address),
	};
	lh_cleanup_close int listener = -1;
	int one = 1;
	int r = lh_net_enter_rank(net, receiver, err);

	if (r < 0)
		return r;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* an earlier measurement may still be saying goodbye there */
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(listener, 1) < 0)
		return lh_fail(err, LH_ESYS, errno, "listen at node %s",
			       plan->nodes[s->job->to].name);
	r = lh_net_enter(net, s->job->from, err);
	if (r < 0)
		return r;
	s->send_sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->send_sock < 0 ||
	    connect(s->send_sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return lh_fail(err, LH_ESYS, errno, "connect node %s to %s",
			       plan->nodes[s->job->from].name, plan->nodes[s->job->to].name);
	s->receive_sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	return s->receive_sock < 0 ? lh_fail(err, LH_ESYS, errno, "accept a stream") : 0;
}

/* Sends until the connection is shut down. */
static void *send_loop(void *arg)
{
	struct stream *s = arg;

	for (;;) {
		off_t offset = 0;

		if (sendfile(s->send_sock, s->filler_fd, &offset, FILLER_BYTES) <= 0)
			return NULL;
	}
}

/* Receives until the connection is shut down. */
static void *receive_loop(void *arg)
{
	struct stream *s = arg;

	while (recv(s->receive_sock, NULL, RECEIVE_BLOCK_BYTES, MSG_WAITALL | MSG_TRUNC) > 0)
		;
	return NULL;
}

static int start_threads(struct stream *s, struct lh_error *err)
{
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = pthread_create(&s->receiver, &attr, receive_loop, s);
	s->has_receiver = r == 0;
	if (r == 0) {
		r = pthread_create(&s->sender, &attr, send_loop, s);
		s->has_sender = r == 0;
	}
	pthread_attr_destroy(&attr);
	return r ? lh_fail(err, LH_ESYS, r, "start a probe's thread") : 0;
}

/* Ends a stream at once: what is queued is thrown away. */
static void stop(struct stream *s)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	if (s->send_sock >= 0)
		shutdown(s->send_sock, SHUT_RDWR);
	if (s->receive_sock >= 0)
		shutdown(s->receive_sock, SHUT_RDWR);
	if (s->has_sender)
		pthread_join(s->sender, NULL);
	if (s->has_receiver)
		pthread_join(s->receiver, NULL);
	if (s->send_sock >= 0) {
		setsockopt(s->send_sock, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(s->send_sock);
	}
	if (s->receive_sock >= 0)
		close(s->receive_sock);
}

static uint64_t bytes_received(const struct stream *s)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);

	getsockopt(s->receive_sock, IPPROTO_TCP, TCP_INFO, &info, &size);
	return info.tcpi_bytes_received;
}

/* An instant at which one job's counters are read. */
struct instant {
	int64_t t_ns;
	size_t job;
	int phase;
	bool is_end;
};

static int compare_instants(const void *a, const void *b)
{
	const struct instant *x = a, *y = b;

	if (x->t_ns != y->t_ns)
		return x->t_ns < y->t_ns ? -1 : 1;
	return x->job < y->job ? -1 : x->job > y->job;
}

/* Reads the counters of a job's streams at an instant. */
static void look(const struct instant *at, struct lh_stream_job *job, struct stream *streams,
		 size_t n)
{
	double counts = (double)job->measure_ns * job->n_phases;

	for (size_t i = 0; i < n; i++) {
		struct stream *s = &streams[i];

		if (s->job != job)
			continue;
		if (!at->is_end) {
			s->bytes_at_begin[at->phase] = bytes_received(s);
			continue;
		}
		job->achieved_bps +=
			(double)(bytes_received(s) - s->bytes_at_begin[at->phase]) * 8e9 / counts;
		if (at->phase == job->n_phases - 1)
			shutdown(s->send_sock, SHUT_RDWR);
	}
}

/* Counts each job for as long as it says, in all of its phases. */
static void measure(struct lh_stream_job *jobs, size_t n_jobs, struct stream *streams, size_t n,
		    struct instant *instants, int64_t begin_ns)
{
	size_t n_instants = 0;

	for (size_t i = 0; i < n_jobs; i++) {
		jobs[i].achieved_bps = 0;
		for (int k = 0; k < jobs[i].n_phases; k++) {
			int64_t t_ns = begin_ns + jobs[i].settle_ns + k * jobs[i].phase_ns;

			instants[n_instants++] = (struct instant){t_ns, i, k, false};
			instants[n_instants++] =
				(struct instant){t_ns + jobs[i].measure_ns, i, k, true};
		}
	}
	qsort(instants, n_instants, sizeof(*instants), compare_instants);
	for (size_t k = 0; k < n_instants; k++) {
		lh_sleep_until(instants[k].t_ns);
		look(&instants[k], &jobs[instants[k].job], streams, n);
	}
}

static int open_filler(int *ret_fd, struct lh_error *err)
{
	*ret_fd = memfd_create("longhaul-filler", MFD_CLOEXEC);
	if (*ret_fd < 0 || ftruncate(*ret_fd, FILLER_BYTES) < 0)
		return lh_fail(err, LH_ESYS, errno, "make the probe's filler");
	return 0;
}

static int run_streams(struct lh_net *net, const struct lh_plan *plan, struct lh_stream_job *jobs,
		       size_t n_jobs, struct stream *streams, size_t n, struct lh_error *err)
{
	lh_cleanup_free struct instant *instants =
		calloc(2 * n_jobs * LH_PROBE_PHASES_MAX, sizeof(*instants));
	struct lh_error ignored;
	int64_t begin_ns;
	int r = instants ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "probe streams");

	for (size_t i = 0; i < n && r == 0; i++)
		r = connect_pair(net, plan, &streams[i], (uint16_t)(FIRST_PORT + i), err);
	lh_net_leave(net, &ignored);
	begin_ns = lh_now_ns();
	for (size_t i = 0; i < n && r == 0; i++)
		r = start_threads(&streams[i], err);
	if (r == 0)
		measure(jobs, n_jobs, streams, n, instants, begin_ns);
	return r;
}

/* Until nothing of a stream inside a node is: a window of it may wait at a port. */
static int64_t inner_drain_ns(const struct lh_plan_node *n)
{
	double window_s = 8.0 * (double)n->tcp->rmem_max_bytes / (double)n->inner.bandwidth_bps;

	return INNER_DRAIN_NS + 2 * n->inner.delay_ns + (int64_t)(window_s * LH_NS_PER_S);
}

/* How long until nothing of the streams is on its way any more. */
static int64_t drain_ns(const struct lh_plan *plan, const struct lh_stream_job *jobs, size_t n_jobs)
{
	int64_t longest = 0;

	for (size_t i = 0; i < n_jobs; i++) {
		const struct lh_plan_path *p = lh_plan_path_at(plan, jobs[i].from, jobs[i].to);
		int64_t t = lh_plan_rtt_ns(plan, jobs[i].from, jobs[i].to) + p->queue_ns;

		if (jobs[i].from == jobs[i].to)
			t = inner_drain_ns(&plan->nodes[jobs[i].from]);
		longest = t > longest ? t : longest;
	}
	return longest;
}

int lh_probe_streams(struct lh_net *net, const struct lh_plan *plan, struct lh_stream_job *jobs,
		     size_t n_jobs, struct lh_error *err)
{
	lh_cleanup_close int filler = -1;
	lh_cleanup_free struct stream *streams = NULL;
	size_t n = 0;
	int r = open_filler(&filler, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n_jobs; i++)
		n += (size_t)jobs[i].streams;
	streams = calloc(n, sizeof(*streams));
	if (!streams)
		return lh_fail(err, LH_ESYS, ENOMEM, "probe streams");
	for (size_t i = 0, k = 0; i < n_jobs; i++)
		for (int s = 0; s < jobs[i].streams; s++)
			streams[k++] = (struct stream){.job = &jobs[i],
						       .send_sock = -1,
						       .receive_sock = -1,
						       .filler_fd = filler};
	r = run_streams(net, plan, jobs, n_jobs, streams, n, err);
	for (size_t i = 0; i < n; i++)
		stop(&streams[i]);
	lh_sleep_until(lh_now_ns() + drain_ns(plan, jobs, n_jobs));
	return r;
}
