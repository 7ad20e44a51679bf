/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that captures. See capture_internal.h.
 *
 * In virtual time it must not move the clock: it waits without a time limit (which would read
 * the clock) and writes what the kernel has stamped. Time stands while it works.
 */
#include <errno.h>
#include <linux/filter.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/capture_internal.h"
#include "emulator/probe_internal.h"

enum {
	/* until the kernel hands over a block that is not full: rare in virtual time, where each
	 * timer wakes an idle kernel and the wait at the end is for nothing. It has 16 bits */
	BLOCK_MS_VIRTUAL = 60000,
	BLOCK_MS_REAL = 100,
	DRAIN_BLOCKS_MAX = 10,
	PCAP_HEADER_BYTES = 24,
	PCAP_RECORD_BYTES = 16,
	IPV4_ADDRESSES_AT = 12,
};

static int block_ms(const struct lh_capture *c)
{
	return c->plan->scenario->run.clock == LH_CLOCK_VIRTUAL ? BLOCK_MS_VIRTUAL : BLOCK_MS_REAL;
}

/* Has the kernel keep so many bytes of each packet; 0: drop them all. Not through libpcap,
 * which would apply the new filter to packets that wait already. */
static int set_kept_bytes(const struct lh_tap *tap, uint32_t n_bytes)
{
	struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, n_bytes)};
	struct sock_fprog program = {1, code};

	return setsockopt(pcap_fileno(tap->pcap), SOL_SOCKET, SO_ATTACH_FILTER, &program,
			  sizeof(program));
}

/* Whether a packet of a node belongs to one of the paths that are captured. */
static bool is_wanted(const struct lh_tap *tap, const struct pcap_pkthdr *head, const u_char *bytes)
{
	const struct lh_plan *plan = tap->capture->plan;

	if (!tap->peers)
		return true;
	if (head->caplen < sizeof(struct ether_header) + IPV4_ADDRESSES_AT + 8)
		return false;
	bytes += sizeof(struct ether_header) + IPV4_ADDRESSES_AT;
	for (int i = 0; i < 2; i++, bytes += 4) {
		uint32_t address = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
				   (uint32_t)bytes[2] << 8 | bytes[3];
		size_t node = lh_plan_node_at(plan, address);

		if (node < plan->n_nodes && tap->peers[node])
			return true;
	}
	return false;
}

static void keep(u_char *context, const struct pcap_pkthdr *head, const u_char *bytes)
{
	struct lh_tap *tap = (struct lh_tap *)context;
	const struct lh_capture *c = tap->capture;
	uint64_t size = PCAP_RECORD_BYTES + head->caplen;
	struct pcap_pkthdr shifted = *head;
	int64_t t_ns =
		(int64_t)head->ts.tv_sec * LH_NS_PER_S + head->ts.tv_usec - c->realtime_ahead_ns;

	if (!is_wanted(tap, head, bytes)) {
		tap->tally.other_packets++;
		return;
	}
	if (tap->is_full ||
	    tap->tally.file_bytes + size > (uint64_t)lh_capture_spec_of(c)->max_bytes) {
		tap->is_full = true;
		tap->tally.past_bound_packets++;
		return;
	}
	shifted.ts.tv_sec = t_ns / LH_NS_PER_S;
	shifted.ts.tv_usec = t_ns % LH_NS_PER_S; /* nanoseconds, by the file's magic number */
	errno = 0;
	pcap_dump((u_char *)tap->dumper, &shifted, bytes);
	if (ferror(pcap_dump_file(tap->dumper)) && !tap->tally.sys) {
		tap->tally.sys = errno ? errno : EIO;
		tap->is_full = true;
	}
	tap->tally.packets++;
	tap->tally.file_bytes += size;
}

/* Whether all that the kernel has taken has come here. */
static bool is_drained(struct lh_tap *tap)
{
	struct pcap_stat s;
	uint64_t seen =
		tap->tally.packets + tap->tally.other_packets + tap->tally.past_bound_packets;

	if (pcap_stats(tap->pcap, &s) < 0)
		return false;
	tap->tally.kernel_dropped_packets = s.ps_drop;
	/* 32-bit counters: the difference is right, whatever they have wrapped */
	tap->tally.lost_packets = (uint32_t)(s.ps_recv - s.ps_drop - (uint32_t)seen);
	return !tap->tally.lost_packets;
}

/* Takes what waits at a link; false where the link is gone. */
static bool take_waiting(struct lh_tap *tap)
{
	errno = 0;
	if (pcap_dispatch(tap->pcap, -1, keep, (u_char *)tap) >= 0)
		return true;
	if (!tap->tally.sys)
		tap->tally.sys = errno ? errno : ENETDOWN;
	return false;
}

/* Takes what waits; true where all has come. */
static bool drain(struct lh_capture *c)
{
	bool all = true;

	for (size_t i = 0; i < c->n_taps; i++) {
		take_waiting(&c->taps[i]);
		all &= is_drained(&c->taps[i]);
	}
	return all;
}

/* Tells the engine something; it has gone where that cannot be. */
static void tell(int fd, const void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, (const char *)data + done, size - done);

		if (n <= 0)
			_exit(1);
		done += (size_t)n;
	}
}

/* Completes the files and tells what is in them. */
static void tell_tallies(struct lh_capture *c, int report_fd)
{
	for (size_t i = 0; i < c->n_taps; i++) {
		struct lh_tap *tap = &c->taps[i];

		errno = 0;
		/* the guest learns only here that the host's disk was full */
		if ((pcap_dump_flush(tap->dumper) < 0 ||
		     fsync(fileno(pcap_dump_file(tap->dumper))) < 0) &&
		    !tap->tally.sys)
			tap->tally.sys = errno ? errno : EIO;
		tell(report_fd, &tap->tally, sizeof(tap->tally));
	}
}

/* The capturing process, until the engine closes the other end of control_fd. */
static void capture_until_told(struct lh_capture *c, int control_fd, struct pollfd *polled)
{
	for (size_t i = 0; i < c->n_taps; i++)
		polled[i] = (struct pollfd){.fd = pcap_get_selectable_fd(c->taps[i].pcap),
					    .events = POLLIN};
	polled[c->n_taps] = (struct pollfd){.fd = control_fd};
	while (!polled[c->n_taps].revents) {
		if (poll(polled, c->n_taps + 1, -1) < 0 && errno != EINTR)
			_exit(1);
		for (size_t i = 0; i < c->n_taps; i++)
			if (polled[i].revents && !take_waiting(&c->taps[i]))
				polled[i].fd = -1; /* it would not wait any more */
	}
	for (size_t i = 0; i < c->n_taps; i++)
		set_kept_bytes(&c->taps[i], 0);
	for (int i = 0; i < DRAIN_BLOCKS_MAX && !drain(c); i++)
		poll(NULL, 0, block_ms(c));
}

/* Opens one node's link, in whose namespace the thread is. */
static int open_link(struct lh_tap *tap, struct lh_error *err)
{
	const struct lh_capture *c = tap->capture;
	uint32_t snaplen = (uint32_t)lh_capture_spec_of(c)->snaplen_bytes;
	char why[PCAP_ERRBUF_SIZE];
	int r;

	tap->pcap = pcap_create("eth0", why);
	if (!tap->pcap)
		return lh_fail(err, LH_ESYS, 0, "capture at eth0: %s", why);
	pcap_set_snaplen(tap->pcap, (int)snaplen);
	pcap_set_buffer_size(tap->pcap, (int)c->ring_bytes);
	pcap_set_timeout(tap->pcap, block_ms(c));
	pcap_set_tstamp_precision(tap->pcap, PCAP_TSTAMP_PRECISION_NANO);
	r = pcap_activate(tap->pcap);
	if (r < 0)
		return lh_fail(err, LH_ESYS, 0, "capture at eth0: %s: %s", pcap_statustostr(r),
			       pcap_geterr(tap->pcap));
	if (pcap_get_tstamp_precision(tap->pcap) != PCAP_TSTAMP_PRECISION_NANO)
		return lh_fail(err, LH_ESYS, 0, "capture at eth0: no stamps in nanoseconds");
	if (pcap_setnonblock(tap->pcap, 1, why) < 0)
		return lh_fail(err, LH_ESYS, 0, "capture at eth0: %s", why);
	if (set_kept_bytes(tap, snaplen) < 0)
		return lh_fail(err, LH_ESYS, errno, "capture %u bytes a packet", snaplen);
	return 0;
}

static int open_tap(struct lh_net *net, struct lh_tap *tap, const char *run_dir,
		    struct lh_error *err)
{
	const struct lh_plan_node *node = &tap->capture->plan->nodes[tap->node];
	lh_cleanup_free char *path = lh_path_join(run_dir, tap->file);
	struct lh_error ignored;
	int r;

	if (!path)
		return lh_fail(err, LH_ESYS, ENOMEM, "capture");
	r = lh_net_enter_card(net, tap->node, err);
	if (r == 0)
		r = open_link(tap, err);
	lh_net_leave(net, &ignored);
	if (r == 0 && !(tap->dumper = pcap_dump_open(tap->pcap, path)))
		r = lh_fail(err, LH_ESYS, 0, "capture: %s", pcap_geterr(tap->pcap));
	tap->tally.file_bytes = PCAP_HEADER_BYTES;
	return r < 0 ? lh_error_prefix(err, "node %s", node->name) : 0;
}

_Noreturn void lh_capture_become(struct lh_capture *c, struct lh_net *net, const char *run_dir,
				 int control_fd, int report_fd)
{
	struct pollfd *polled = calloc(c->n_taps + 1, sizeof(*polled));
	struct lh_error err = {0};
	int r = polled ? 0 : lh_fail(&err, LH_ESYS, ENOMEM, "capture");

	for (size_t i = 0; i < c->n_taps && r == 0; i++)
		r = open_tap(net, &c->taps[i], run_dir, &err);
	tell(report_fd, &err, sizeof(err));
	if (r < 0)
		_exit(1);
	capture_until_told(c, control_fd, polled);
	tell_tallies(c, report_fd);
	_exit(0);
}
