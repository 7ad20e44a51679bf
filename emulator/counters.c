/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a running network: what was set, what it passed on, what it lost. See network.h. */
#include <inttypes.h>
#include <linux/pkt_sched.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/file.h"
#include "emulator/netns.h"
#include "emulator/network_internal.h"
#include "emulator/probe_internal.h"
#include "emulator/proc.h"
#include "emulator/qdisc.h"

enum { PROC_FILE_MAX_BYTES = 1 << 20, LOSS_SDS = 6, TICK_NS = 64 };

/* The node behind a port of the router, or -1. */
static long node_of_port(const struct lh_net *net, int ifindex)
{
	for (size_t i = 0; i < net->plan->n_nodes; i++)
		if (net->port_ifindex[i] == ifindex)
			return (long)i;
	return -1;
}

/* The pair that a qdisc of the router serves, and as what: the first of its kind's majors. */
static bool find_pair(const struct lh_net *net, const struct lh_qdisc_state *s, int *ret_first,
		      size_t *ret_from, size_t *ret_to)
{
	int major = (int)(TC_H_MAJ(s->handle) >> 16);
	int first = strcmp(s->kind, "netem") == 0  ? LH_NETEM_FIRST
		    : major >= LH_BOTTLENECK_FIRST ? LH_BOTTLENECK_FIRST
						   : LH_SPLIT_FIRST;
	long to = node_of_port(net, s->ifindex);
	long from = (long)major - first;

	if ((strcmp(s->kind, "netem") != 0 && strcmp(s->kind, "tbf") != 0) || to < 0 || from < 0 ||
	    (size_t)from >= net->plan->n_nodes)
		return false;
	*ret_first = first;
	*ret_from = (size_t)from;
	*ret_to = (size_t)to;
	return true;
}

bool lh_net_pair_of(const struct lh_net *net, const struct lh_qdisc_state *s, size_t *ret_from,
		    size_t *ret_to)
{
	int first;

	return find_pair(net, s, &first, ret_from, ret_to);
}

struct read_back {
	struct lh_net *net;
	size_t n_netem;
	size_t n_bottlenecks;
	size_t node; /* whose class or tbf is being read */
	size_t n_seen;
};

static int compare_randomness(const struct lh_net *net, const struct lh_qdisc_state *s, size_t from,
			      size_t to, const struct lh_plan_path *p, struct lh_error *err)
{
	const struct lh_plan_chances *held = &s->chances, *asked = &p->chances;

	/* before Linux 6.6 the kernel takes a seed and forgets it: it does not say one then */
	if (held->loss == asked->loss && held->burst_in == asked->burst_in &&
	    held->burst_out == asked->burst_out && held->duplicate == asked->duplicate &&
	    held->corrupt == asked->corrupt && held->reorder == asked->reorder &&
	    s->gap == (asked->reorder ? 1 : 0) && !s->good_loss && !s->bad_pass &&
	    (!p->seed || s->seed == p->seed || (!s->seed && !net->owns_kernel)))
		return 0;
	return lh_fail(err, LH_ESYS, 0,
		       "netem from %s to %s holds chances of %" PRIu32 ", %" PRIu32 " and %" PRIu32
		       ", %" PRIu32 ", %" PRIu32 ", %" PRIu32 " in 2^32 (loss, bursts, duplicate, "
		       "corrupt, reorder) and the seed %" PRIu64 "; asked for %" PRIu32 ", %" PRIu32
		       " and %" PRIu32 ", %" PRIu32 ", %" PRIu32 ", %" PRIu32 ", %" PRIu64,
		       net->plan->nodes[from].name, net->plan->nodes[to].name, held->loss,
		       held->burst_in, held->burst_out, held->duplicate, held->corrupt,
		       held->reorder, s->seed, asked->loss, asked->burst_in, asked->burst_out,
		       asked->duplicate, asked->corrupt, asked->reorder, p->seed);
}

static int compare_netem(const struct lh_net *net, const struct lh_qdisc_state *s, size_t from,
			 size_t to, const struct lh_plan_path *p, struct lh_error *err)
{
	int64_t rate = lh_rate_to_kernel(lh_netem_bps(p));

	if (s->delay_ns == p->delay_ns && s->jitter_ns == (p->jitter ? p->jitter->sigma_ns : 0) &&
	    s->limit == p->limit_pkts && s->rate_bytes_per_s == rate)
		return compare_randomness(net, s, from, to, p, err);
	return lh_fail(err, LH_ESYS, 0,
		       "netem from %s to %s holds %" PRId64 " ns, %" PRId64 " B/s, %" PRIu32
		       " packets; asked for %" PRId64 ", %" PRId64 ", %" PRIu32,
		       net->plan->nodes[from].name, net->plan->nodes[to].name, s->delay_ns,
		       s->rate_bytes_per_s, s->limit, p->delay_ns, rate, p->limit_pkts);
}

/* Whether a tbf has a burst, as the kernel counts it: in time at its rate. */
static bool has_burst(const struct lh_qdisc_state *s, uint32_t bytes)
{
	double asked_ns = (double)bytes / (double)s->rate_bytes_per_s * LH_NS_PER_S;

	return fabs((double)s->burst_ns - asked_ns) <= TICK_NS + asked_ns / 1000 ||
	       asked_ns > UINT32_MAX;
}

int lh_net_compare(const struct lh_net *net, const struct lh_qdisc_state *s, size_t from, size_t to,
		   const struct lh_plan_path *p, struct lh_error *err)
{
	int64_t rate = lh_rate_to_kernel(p->bandwidth_bps);

	if (strcmp(s->kind, "netem") == 0)
		return compare_netem(net, s, from, to, p, err);
	/* what cuts super-packets: the kernel does not tell at which length */
	if ((int)(TC_H_MAJ(s->handle) >> 16) < LH_BOTTLENECK_FIRST)
		return 0;
	if (p->varies && s->rate_bytes_per_s == rate && s->limit == p->queue_bytes &&
	    has_burst(s, p->burst_bytes))
		return 0;
	return lh_fail(err, LH_ESYS, 0,
		       "the bottleneck from %s to %s holds %" PRId64 " B/s, %" PRIu32
		       " bytes, a burst of %" PRId64 " ns; asked for %" PRId64 ", %" PRIu32
		       ", %" PRIu32 " bytes",
		       net->plan->nodes[from].name, net->plan->nodes[to].name, s->rate_bytes_per_s,
		       s->limit, s->burst_ns, rate, p->queue_bytes, p->burst_bytes);
}

static int compare_path(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct read_back *rb = context;
	size_t from, to;
	int first;

	if (!find_pair(rb->net, s, &first, &from, &to))
		return 0;
	rb->n_netem += first == LH_NETEM_FIRST;
	rb->n_bottlenecks += first == LH_BOTTLENECK_FIRST;
	return lh_net_compare(rb->net, s, from, to, lh_plan_path_at(rb->net->plan, from, to), err);
}

static int compare_class(const struct lh_class_state *s, void *context, struct lh_error *err)
{
	struct read_back *rb = context;
	int64_t ceil = lh_rate_to_kernel(rb->net->plan->nodes[rb->node].nic_down_bps);

	rb->n_seen++;
	if (s->ceil_bytes_per_s == ceil)
		return 0;
	return lh_fail(err, LH_ESYS, 0,
		       "htb class %x of %s holds %" PRId64 " B/s; asked for %" PRId64, s->minor,
		       rb->net->plan->nodes[rb->node].name, s->ceil_bytes_per_s, ceil);
}

static int compare_tbf(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct read_back *rb = context;
	const struct lh_plan_node *n = &rb->net->plan->nodes[rb->node];

	if (strcmp(s->kind, "tbf") != 0)
		return 0;
	rb->n_seen++;
	if (s->rate_bytes_per_s == lh_rate_to_kernel(n->nic_up_bps) &&
	    s->limit == n->nic_limit_bytes)
		return 0;
	return lh_fail(err, LH_ESYS, 0, "tbf of %s holds %" PRId64 " B/s; asked for %" PRId64,
		       n->name, s->rate_bytes_per_s, lh_rate_to_kernel(n->nic_up_bps));
}

static int read_back_node(struct read_back *rb, struct lh_error *err)
{
	struct lh_nl *nl = NULL;
	int r = lh_net_enter(rb->net, rb->node, err);

	rb->n_seen = 0;
	if (r == 0)
		r = lh_nl_open(&nl, err);
	if (r == 0)
		r = lh_qdisc_dump(nl, compare_tbf, rb, err);
	lh_nl_close(nl);
	if (r == 0 && rb->n_seen != 1)
		r = lh_fail(err, LH_ESYS, 0, "node %s has %zu tbf; asked for 1",
			    rb->net->plan->nodes[rb->node].name, rb->n_seen);
	return r;
}

int lh_net_read_back(struct lh_net *net, struct lh_error *err)
{
	size_t n = net->plan->n_nodes, n_varying = 0;
	struct read_back rb = {.net = net};
	int r = lh_qdisc_dump(net->router, compare_path, &rb, err);

	if (r == 0 && rb.n_netem != n * (n - 1))
		r = lh_fail(err, LH_ESYS, 0, "the router holds %zu netem; asked for %zu",
			    rb.n_netem, n * (n - 1));
	for (size_t i = 0; i < n * n; i++)
		n_varying += net->plan->paths[i].varies;
	if (r == 0 && rb.n_bottlenecks != n_varying)
		r = lh_fail(err, LH_ESYS, 0, "the router holds %zu bottlenecks; asked for %zu",
			    rb.n_bottlenecks, n_varying);
	for (rb.node = 0; rb.node < n && r == 0; rb.node++) {
		size_t n_classes;

		rb.n_seen = 0;
		r = lh_class_dump(net->router, net->port_ifindex[rb.node], compare_class, &rb, err);
		n_classes = n + lh_net_port_varies(net, rb.node);
		if (r == 0 && n > 1 && rb.n_seen != n_classes)
			r = lh_fail(err, LH_ESYS, 0,
				    "the port of %s has %zu classes; asked for %zu",
				    net->plan->nodes[rb.node].name, rb.n_seen, n_classes);
		if (r == 0)
			r = read_back_node(&rb, err);
	}
	return r;
}

struct sample {
	struct lh_net *net;
	struct lh_net_counter *counters;
	uint64_t unclassified;
};

static int sample_qdisc(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct sample *sample = context;
	struct lh_net_counter *c;
	size_t from, to;
	int first;

	(void)err;
	if (strcmp(s->kind, "htb") == 0)
		sample->unclassified += s->direct_pkts;
	if (!find_pair(sample->net, s, &first, &from, &to) || first == LH_SPLIT_FIRST)
		return 0;
	c = &sample->counters[from * sample->net->plan->n_nodes + to];
	/* netem counts what the tbf behind it drops, too, but a super-packet as one */
	if (s->drops > c->dropped_packets)
		c->dropped_packets = s->drops;
	if (first != LH_NETEM_FIRST)
		return 0;
	c->wire_bytes = s->bytes;
	c->wire_packets = s->packets;
	return 0;
}

static int read_sample(struct sample *sample, struct lh_error *err)
{
	const struct lh_plan *plan = sample->net->plan;
	int r = lh_qdisc_dump(sample->net->router, sample_qdisc, sample, err);

	for (size_t from = 0; from < plan->n_nodes && r == 0; from++)
		for (size_t to = 0; to < plan->n_nodes && r == 0; to++) {
			struct lh_net_counter *c = &sample->counters[from * plan->n_nodes + to];
			struct lh_ack_count acks;

			if (from == to || !c->wire_packets)
				continue;
			r = lh_bpf_read_acks(&sample->net->bpf, plan, from, to, &acks, err);
			c->ack_bytes = acks.bytes;
			c->ack_packets = acks.packets;
		}
	return r;
}

int lh_net_read_counters(struct lh_net *net, struct lh_net_counter *counters, struct lh_error *err)
{
	struct sample sample = {.net = net, .counters = counters};

	return read_sample(&sample, err);
}

/* Whether something on the way from or to a node explains that its TCP repeated itself or
 * timed out: what the path was asked to do to packets, a queue that overflowed or that can
 * more than double a round trip, or a round trip beyond the longest time-out. */
static bool is_explained(const struct lh_net *net, const struct lh_net_counter *counters, size_t i)
{
	const struct lh_plan *plan = net->plan;

	for (size_t j = 0; j < plan->n_nodes; j++) {
		if (i == j)
			continue;
		if (lh_plan_may_ever_repeat(plan, i, j) || lh_plan_may_ever_repeat(plan, j, i) ||
		    lh_plan_may_queue(plan, i, j) || lh_plan_may_queue(plan, j, i) ||
		    lh_plan_rtt_ns(plan, i, j) >= LH_TCP_RTO_MAX_NS ||
		    lh_plan_is_rough(lh_plan_path_at(plan, i, j)) ||
		    lh_plan_is_rough(lh_plan_path_at(plan, j, i)) ||
		    lh_plan_may_mislead(plan, i, j) || lh_plan_may_mislead(plan, j, i))
			return true;
		if ((lh_plan_may_ever_drop(plan, i, j) &&
		     counters[i * plan->n_nodes + j].dropped_packets) ||
		    (lh_plan_may_ever_drop(plan, j, i) &&
		     counters[j * plan->n_nodes + i].dropped_packets))
			return true;
	}
	return false;
}

static int add_node_faults(const struct lh_net *net, const struct lh_net_counter *counters,
			   size_t i, struct lh_net_faults *f, struct lh_error *err)
{
	bool explained = is_explained(net, counters, i);
	lh_cleanup_free char *snmp = NULL;
	lh_cleanup_free char *netstat = NULL;
	int r = lh_net_enter(net, i, err);

	if (r == 0)
		r = lh_file_read("/proc/thread-self/net/snmp", PROC_FILE_MAX_BYTES, &snmp, NULL,
				 err);
	if (r == 0)
		r = lh_file_read("/proc/thread-self/net/netstat", PROC_FILE_MAX_BYTES, &netstat,
				 NULL, err);
	if (r < 0)
		return r;
	*(explained ? &f->path_retransmits : &f->retransmits) +=
		lh_proc_value(snmp, "Tcp:", "RetransSegs");
	*(explained ? &f->path_timeouts : &f->timeouts) +=
		lh_proc_value(netstat, "TcpExt:", "TCPTimeouts");
	f->receive_queue_drops += lh_proc_value(netstat, "TcpExt:", "TCPRcvQDrop") +
				  lh_proc_value(netstat, "TcpExt:", "TCPBacklogDrop") +
				  lh_proc_value(netstat, "TcpExt:", "RcvPruned");
	return 0;
}

static int read_softnet(uint64_t *ret_drops, struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	int r = lh_file_read("/proc/thread-self/net/softnet_stat", PROC_FILE_MAX_BYTES, &text, NULL,
			     err);

	if (r == 0)
		*ret_drops = lh_proc_softnet_drops(text);
	return r;
}

/* Share of packets that a path loses by itself, and how much more its number varies than that
 * of independent losses. */
static double loss_ratio(const struct lh_plan_chances *c, double *ret_spread)
{
	double in = c->burst_in / 0x1p32, out = c->burst_out / 0x1p32;

	*ret_spread = 1;
	if (!c->burst_in)
		return c->loss / 0x1p32;
	*ret_spread = (2 - in - out) / (in + out);
	return in / (in + out);
}

/*
 * Takes the drops of one path apart. netem counts what it loses by chance and what its queue
 * has no room for in one number: up to six standard deviations above what was asked for, all
 * are losses; beyond, what was asked for is. Where that changed in time the most counts, and
 * where all was lost for a while, every drop is a loss.
 */
static void sort_drops(const struct lh_plan *plan, size_t from, size_t to,
		       const struct lh_net_counter *c, struct lh_net_faults *f)
{
	bool loses_all;
	struct lh_plan_chances worst =
		lh_plan_worst_chances(lh_plan_path_at(plan, from, to), &loses_all);
	double offered = (double)(c->wire_packets + c->dropped_packets);
	double spread, ratio = loss_ratio(&worst, &spread);
	double sd = sqrt(offered * ratio * (1 - ratio) * spread) + (ratio > 0 ? spread : 0);
	uint64_t lost = c->dropped_packets;

	if (!loses_all && (double)lost > offered * ratio + LOSS_SDS * sd)
		lost = (uint64_t)(offered * ratio);
	f->path_losses += lost;
	if (lh_plan_may_ever_drop(plan, from, to))
		f->path_drops += c->dropped_packets - lost;
	else
		f->qdisc_drops += c->dropped_packets - lost;
}

int lh_net_read_faults(struct lh_net *net, struct lh_net_faults *ret_faults, struct lh_error *err)
{
	size_t n = net->plan->n_nodes;
	lh_cleanup_free struct lh_net_counter *counters = calloc(n * n, sizeof(*counters));
	struct sample sample = {.net = net, .counters = counters};
	struct lh_net_faults f = {0};
	struct lh_error ignored;
	int r = counters ? read_sample(&sample, err) : lh_fail(err, LH_ESYS, 0, "out of memory");

	if (r < 0)
		return r;
	for (size_t i = 0; i < n * n; i++)
		if (i / n != i % n)
			sort_drops(net->plan, i / n, i % n, &counters[i], &f);
	f.unclassified_packets = sample.unclassified;
	r = read_softnet(&f.softnet_drops, err);
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_node_faults(net, counters, i, &f, err);
	lh_net_leave(net, &ignored);
	if (r == 0)
		*ret_faults = f;
	return r;
}
