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
#include "emulator/cable.h"
#include "emulator/netns.h"
#include "emulator/network_internal.h"
#include "emulator/probe_internal.h"
#include "emulator/proc.h"
#include "emulator/qdisc.h"
#include "emulator/wan.h"

enum { PROC_FILE_MAX_BYTES = 1 << 20, LOSS_SDS = 6 };

/* The node behind a port of the router, or -1. */
static long node_of_port(const struct lh_net *net, int ifindex)
{
	for (size_t i = 0; i < net->plan->n_nodes; i++)
		if (net->port_ifindex[i] == ifindex)
			return (long)i;
	return -1;
}

/* The pair that a netem of the router serves; false where it is none of ours. */
static bool pair_of_netem(const struct lh_net *net, const struct lh_qdisc_state *s,
			  size_t *ret_from, size_t *ret_to)
{
	long to = node_of_port(net, s->ifindex);
	long from = (long)(TC_H_MAJ(s->handle) >> 16) - LH_NETEM_FIRST;

	if (strcmp(s->kind, "netem") != 0 || to < 0 || from < 0 ||
	    (size_t)from >= net->plan->n_nodes)
		return false;
	*ret_from = (size_t)from;
	*ret_to = (size_t)to;
	return true;
}

struct read_back {
	struct lh_net *net;
	size_t n_netem;
	size_t node; /* whose class or tbf is being read */
	size_t n_seen;
};

static int compare_randomness(const struct lh_net *net, const struct lh_qdisc_state *s, size_t from,
			      size_t to, struct lh_error *err)
{
	const struct lh_plan_path *p = lh_plan_path_at(net->plan, from, to);
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

static int compare_netem(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct read_back *rb = context;
	const struct lh_plan_path *p;
	size_t from, to;

	if (!pair_of_netem(rb->net, s, &from, &to))
		return 0;
	rb->n_netem++;
	p = lh_plan_path_at(rb->net->plan, from, to);
	if (s->delay_ns == p->delay_ns && s->jitter_ns == (p->jitter ? p->jitter->sigma_ns : 0) &&
	    s->limit == p->limit_pkts && s->rate_bytes_per_s == lh_rate_to_kernel(p->bandwidth_bps))
		return compare_randomness(rb->net, s, from, to, err);
	return lh_fail(err, LH_ESYS, 0,
		       "netem from %s to %s holds %" PRId64 " ns, %" PRId64 " B/s, %" PRIu32
		       " packets; asked for %" PRId64 ", %" PRId64 ", %" PRIu32,
		       rb->net->plan->nodes[from].name, rb->net->plan->nodes[to].name, s->delay_ns,
		       s->rate_bytes_per_s, s->limit, p->delay_ns,
		       lh_rate_to_kernel(p->bandwidth_bps), p->limit_pkts);
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
	size_t n = net->plan->n_nodes;
	struct read_back rb = {.net = net};
	int r = lh_qdisc_dump(net->router, compare_netem, &rb, err);

	if (r == 0 && rb.n_netem != n * (n - 1))
		r = lh_fail(err, LH_ESYS, 0, "the router holds %zu netem; asked for %zu",
			    rb.n_netem, n * (n - 1));
	for (rb.node = 0; rb.node < n && r == 0; rb.node++) {
		rb.n_seen = 0;
		r = lh_class_dump(net->router, net->port_ifindex[rb.node], compare_class, &rb, err);
		if (r == 0 && n > 1 && rb.n_seen != n)
			r = lh_fail(err, LH_ESYS, 0,
				    "the port of %s has %zu classes; asked for %zu",
				    net->plan->nodes[rb.node].name, rb.n_seen, n);
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

	(void)err;
	if (strcmp(s->kind, "htb") == 0)
		sample->unclassified += s->direct_pkts;
	if (!pair_of_netem(sample->net, s, &from, &to))
		return 0;
	c = &sample->counters[from * sample->net->plan->n_nodes + to];
	c->wire_bytes = s->bytes;
	c->wire_packets = s->packets;
	c->dropped_packets = s->drops;
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
	struct lh_net_faults ignored;
	int64_t begin_ns = lh_now_ns();
	int r = net->wan ? lh_wan_read(net->wan, counters, &ignored, &net->counted_ns, err)
			 : read_sample(&sample, err);

	if (!net->wan)
		net->counted_ns = (begin_ns + lh_now_ns()) / 2;
	return r;
}

int64_t lh_net_counted_ns(const struct lh_net *net)
{
	return net->counted_ns;
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
		if (lh_plan_may_queue(plan, i, j) || lh_plan_may_queue(plan, j, i) ||
		    lh_plan_rtt_ns(plan, i, j) >= LH_TCP_RTO_MAX_NS ||
		    lh_plan_is_rough(lh_plan_path_at(plan, i, j)) ||
		    lh_plan_is_rough(lh_plan_path_at(plan, j, i)) ||
		    lh_plan_may_mislead(plan, i, j) || lh_plan_may_mislead(plan, j, i))
			return true;
		if ((lh_plan_may_drop(plan, i, j) &&
		     counters[i * plan->n_nodes + j].dropped_packets) ||
		    (lh_plan_may_drop(plan, j, i) &&
		     counters[j * plan->n_nodes + i].dropped_packets))
			return true;
	}
	return false;
}

/* What node i has counted since it was made. */
static int read_node(const struct lh_net *net, size_t i, struct lh_node_faults *ret,
		     struct lh_error *err)
{
	lh_cleanup_free char *snmp = NULL;
	lh_cleanup_free char *netstat = NULL;
	int r = lh_net_enter(net, i, err);

	if (r == 0)
		r = lh_file_read("/proc/thread-self/net/snmp", PROC_FILE_MAX_BYTES, &snmp, NULL,
				 err);
	if (r == 0)
		r = lh_file_read("/proc/thread-self/net/netstat", PROC_FILE_MAX_BYTES, &netstat,
				 NULL, err);
	if (r == 0 && net->part != LH_NET_ALL)
		r = lh_cable_read_drops(&ret->link_drops, err);
	if (r < 0)
		return r;
	ret->retransmits = lh_proc_value(snmp, "Tcp:", "RetransSegs");
	ret->timeouts = lh_proc_value(netstat, "TcpExt:", "TCPTimeouts");
	ret->receive_queue_drops = lh_proc_value(netstat, "TcpExt:", "TCPRcvQDrop") +
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

int lh_net_forget_faults(struct lh_net *net, struct lh_error *err)
{
	size_t n = net->plan->n_nodes;
	struct lh_error ignored;
	int r = read_softnet(&net->before[n].softnet_drops, err);

	for (size_t i = 0; i < n && r == 0; i++)
		r = read_node(net, i, &net->before[i], err);
	lh_net_leave(net, &ignored);
	return r;
}

static int add_node_faults(const struct lh_net *net, const struct lh_net_counter *counters,
			   size_t i, struct lh_net_faults *f, struct lh_error *err)
{
	bool explained = is_explained(net, counters, i);
	const struct lh_node_faults *before = &net->before[i];
	struct lh_node_faults now = {0};
	int r = read_node(net, i, &now, err);

	if (r < 0)
		return r;
	*(explained ? &f->path_retransmits : &f->retransmits) +=
		now.retransmits - before->retransmits;
	*(explained ? &f->path_timeouts : &f->timeouts) += now.timeouts - before->timeouts;
	f->receive_queue_drops += now.receive_queue_drops - before->receive_queue_drops;
	f->link_drops += now.link_drops - before->link_drops;
	return 0;
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
 * are losses; beyond, what was asked for is.
 */
static void sort_drops(const struct lh_plan *plan, size_t from, size_t to,
		       const struct lh_net_counter *c, struct lh_net_faults *f)
{
	const struct lh_plan_path *p = lh_plan_path_at(plan, from, to);
	double offered = (double)(c->wire_packets + c->dropped_packets);
	double spread, ratio = loss_ratio(&p->chances, &spread);
	double sd = sqrt(offered * ratio * (1 - ratio) * spread) + (ratio > 0 ? spread : 0);
	uint64_t lost = c->dropped_packets;

	if ((double)lost > offered * ratio + LOSS_SDS * sd)
		lost = (uint64_t)(offered * ratio);
	f->path_losses += lost;
	if (lh_plan_may_drop(plan, from, to))
		f->path_drops += c->dropped_packets - lost;
	else
		f->qdisc_drops += c->dropped_packets - lost;
}

/* What the network's own kernel sees. */
static int read_network_faults(struct lh_net *net, struct lh_net_counter *counters,
			       struct lh_net_faults *f, struct lh_error *err)
{
	size_t n = net->plan->n_nodes;
	struct sample sample = {.net = net, .counters = counters};
	int64_t ignored;
	int r = net->wan ? lh_wan_read(net->wan, counters, f, &ignored, err)
			 : read_sample(&sample, err);

	if (r < 0 || net->wan)
		return r;
	for (size_t i = 0; i < n * n; i++)
		if (i / n != i % n)
			sort_drops(net->plan, i / n, i % n, &counters[i], f);
	f->unclassified_packets = sample.unclassified;
	return 0;
}

int lh_net_read_faults(struct lh_net *net, struct lh_net_faults *ret_faults, struct lh_error *err)
{
	size_t n = net->plan->n_nodes;
	lh_cleanup_free struct lh_net_counter *counters = calloc(n * n, sizeof(*counters));
	struct lh_net_faults f = {0};
	struct lh_error ignored;
	uint64_t softnet = 0;
	int r = counters ? read_network_faults(net, counters, &f, err)
			 : lh_fail(err, LH_ESYS, 0, "out of memory");

	if (r == 0)
		r = read_softnet(&softnet, err);
	f.softnet_drops += softnet - net->before[n].softnet_drops;
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_node_faults(net, counters, i, &f, err);
	lh_net_leave(net, &ignored);
	if (r == 0)
		*ret_faults = f;
	return r;
}
