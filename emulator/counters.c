/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a running network: what was set, what it passed on, what it lost. See network.h. */
#include <errno.h>
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

static bool is_same(const struct lh_netdev *a, size_t router, int ifindex)
{
	return a->ifindex == ifindex && a->router == router;
}

/* The pair whose netem (with LH_NETEM_FIRST) or bottleneck (LH_STAGE_FIRST) a qdisc of a router
 * is; false where it is none. */
static bool pair_of(const struct lh_net *net, const struct lh_netdev *devices,
		    const struct lh_qdisc_state *s, size_t router, uint32_t first, size_t *ret_from,
		    size_t *ret_to)
{
	long from = (long)(TC_H_MAJ(s->handle) >> 16) - (long)first;
	size_t to;

	if (from < 0 || (size_t)from >= net->plan->n_nodes)
		return false;
	to = lh_net_owner(net, router, s->ifindex);
	if (to >= net->plan->n_nodes || !is_same(&devices[to], router, s->ifindex))
		return false;
	*ret_from = (size_t)from;
	*ret_to = to;
	return true;
}

bool lh_net_pair_of_netem(const struct lh_net *net, const struct lh_qdisc_state *s, size_t router,
			  size_t *ret_from, size_t *ret_to)
{
	return strcmp(s->kind, "netem") == 0 &&
	       (pair_of(net, net->ports, s, router, LH_NETEM_FIRST, ret_from, ret_to) ||
		pair_of(net, net->lines, s, router, LH_NETEM_FIRST, ret_from, ret_to));
}

bool lh_net_pair_of_stage(const struct lh_net *net, const struct lh_qdisc_state *s, size_t router,
			  size_t *ret_from, size_t *ret_to)
{
	return strcmp(s->kind, "tbf") == 0 &&
	       pair_of(net, net->stages, s, router, LH_STAGE_FIRST, ret_from, ret_to);
}

struct sample {
	struct lh_net *net;
	size_t router;
	struct lh_net_counter *counters;
	struct lh_site_counter *links; /* up and down of each access, in turn */
	uint64_t unclassified;
};

/* The link of a site that a qdisc is, or NULL. */
static struct lh_site_counter *link_of(const struct sample *sample, const struct lh_qdisc_state *s)
{
	const struct lh_net *net = sample->net;
	size_t access;

	if (strcmp(s->kind, "tbf") != 0 || TC_H_MAJ(s->handle) >> 16 != LH_LINK_MAJOR)
		return NULL;
	access = lh_net_owner(net, sample->router, s->ifindex);
	if (access >= net->plan->n_accesses)
		return NULL;
	if (is_same(&net->ups[access], sample->router, s->ifindex))
		return &sample->links[2 * access];
	return is_same(&net->downs[access], sample->router, s->ifindex)
		       ? &sample->links[2 * access + 1]
		       : NULL;
}

static int sample_qdisc(const struct lh_qdisc_state *s, void *context, struct lh_error *err)
{
	struct sample *sample = context;
	struct lh_site_counter *link = link_of(sample, s);
	size_t n = sample->net->plan->n_nodes, from, to;

	(void)err;
	if (strcmp(s->kind, "htb") == 0)
		sample->unclassified += s->direct_pkts;
	if (link)
		*link = (struct lh_site_counter){s->bytes, s->packets, s->drops};
	if (lh_net_pair_of_stage(sample->net, s, sample->router, &from, &to))
		sample->counters[from * n + to].dropped_packets += s->drops;
	if (lh_net_pair_of_netem(sample->net, s, sample->router, &from, &to)) {
		sample->counters[from * n + to].wire_bytes = s->bytes;
		sample->counters[from * n + to].wire_packets = s->packets;
		sample->counters[from * n + to].dropped_packets += s->drops;
	}
	return 0;
}

static int read_sample(struct sample *sample, struct lh_error *err)
{
	const struct lh_plan *plan = sample->net->plan;
	size_t n = plan->n_nodes;
	int r = 0;

	memset(sample->counters, 0, n * n * sizeof(*sample->counters));
	for (size_t i = 0; i < sample->net->n_routers && r == 0; i++) {
		sample->router = i;
		if (sample->net->routers[i].nl)
			r = lh_qdisc_dump(sample->net->routers[i].nl, sample_qdisc, sample, err);
	}
	for (size_t i = 0; i < n && r == 0; i++)
		if (plan->nodes[i].n_ranks > 1)
			r = lh_net_count_inner(sample->net, i, &sample->counters[i * n + i], err);
	for (size_t i = 0; i < n * n && r == 0; i++) {
		const struct lh_bpf *bpf = &sample->net->bpf;
		struct lh_net_counter *c = &sample->counters[i];
		struct lh_bpf_count crossed = bpf->cross[i];

		if (i / n == i % n || !c->wire_packets)
			continue;
		c->ack_bytes = bpf->acks[i].bytes;
		c->ack_packets = bpf->acks[i].packets;
		/* counted a moment later: one under way is in both */
		c->wire_bytes -= crossed.bytes < c->wire_bytes ? crossed.bytes : c->wire_bytes;
		c->wire_packets -=
			crossed.packets < c->wire_packets ? crossed.packets : c->wire_packets;
	}
	return r;
}

/* Reads all that the network's own kernel counts, there or here. */
static int read_all(struct lh_net *net, struct lh_net_counter *counters,
		    struct lh_site_counter *links, struct lh_net_faults *f, struct lh_error *err)
{
	struct sample sample = {.net = net, .counters = counters, .links = links};
	int64_t begin_ns = lh_now_ns();
	int r;

	if (net->wan)
		return lh_wan_read(net->wan, counters, links, f, &net->counted_ns, err);
	r = read_sample(&sample, err);
	net->counted_ns = (begin_ns + lh_now_ns()) / 2;
	f->unclassified_packets = sample.unclassified;
	return r;
}

int lh_net_read_counters(struct lh_net *net, struct lh_net_counter *counters, struct lh_error *err)
{
	lh_cleanup_free struct lh_site_counter *links =
		calloc(2 * net->plan->n_accesses + 1, sizeof(*links));
	struct lh_net_faults ignored;

	return links ? read_all(net, counters, links, &ignored, err)
		     : lh_fail(err, LH_ESYS, ENOMEM, "read the counters");
}

int lh_net_read_site_links(struct lh_net *net, struct lh_site_counter *links, struct lh_error *err)
{
	size_t n = net->plan->n_nodes;
	lh_cleanup_free struct lh_net_counter *counters = calloc(n * n, sizeof(*counters));
	struct lh_net_faults ignored;

	return counters ? read_all(net, counters, links, &ignored, err)
			: lh_fail(err, LH_ESYS, ENOMEM, "read the counters");
}

int64_t lh_net_counted_ns(const struct lh_net *net)
{
	return net->counted_ns;
}

/* Whether something on the way from or to a node explains that its TCP repeated itself or
 * timed out: what the path was asked to do to packets, a queue that overflowed or that can
 * more than double a round trip, a round trip beyond the longest time-out, or a node that was
 * away. */
static bool is_explained(const struct lh_net *net, const struct lh_net_counter *counters, size_t i)
{
	const struct lh_plan *plan = net->plan;

	for (size_t j = 0; j < plan->n_nodes; j++) {
		if (i == j)
			continue;
		if (plan->nodes[i].is_ever_away || plan->nodes[j].is_ever_away ||
		    lh_plan_has_cross(plan, i, j) || lh_plan_has_cross(plan, j, i) ||
		    lh_plan_shares_link(plan, i, j) || lh_plan_shares_link(plan, j, i) ||
		    lh_plan_may_ever_repeat(plan, i, j) || lh_plan_may_ever_repeat(plan, j, i) ||
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

/* Adds what a rank has counted since it was made. */
static int read_rank(const struct lh_net *net, size_t rank, struct lh_node_faults *ret,
		     struct lh_error *err)
{
	lh_cleanup_free char *snmp = NULL;
	lh_cleanup_free char *netstat = NULL;
	int r = lh_net_enter_rank(net, rank, err);

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
	ret->retransmits += lh_proc_value(snmp, "Tcp:", "RetransSegs");
	ret->timeouts += lh_proc_value(netstat, "TcpExt:", "TCPTimeouts");
	ret->receive_queue_drops += lh_proc_value(netstat, "TcpExt:", "TCPRcvQDrop") +
				    lh_proc_value(netstat, "TcpExt:", "TCPBacklogDrop") +
				    lh_proc_value(netstat, "TcpExt:", "RcvPruned");
	return 0;
}

/* What all ranks of node i have counted since they were made; into zeros. */
static int read_node(const struct lh_net *net, size_t i, struct lh_node_faults *ret,
		     struct lh_error *err)
{
	const struct lh_plan_node *n = &net->plan->nodes[i];
	int r = 0;

	for (size_t k = n->first_rank; k < n->first_rank + n->n_ranks && r == 0; k++)
		r = read_rank(net, k, ret, err);
	return r;
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

	for (size_t i = 0; i < n && r == 0; i++) {
		net->before[i] = (struct lh_node_faults){.softnet_drops = 0};
		r = read_node(net, i, &net->before[i], err);
	}
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
	if (lh_plan_may_ever_drop(plan, from, to) || lh_plan_has_cross(plan, from, to))
		f->path_drops += c->dropped_packets - lost;
	else
		f->qdisc_drops += c->dropped_packets - lost;
}

int lh_net_read_faults(struct lh_net *net, struct lh_net_faults *ret_faults, struct lh_error *err)
{
	size_t n = net->plan->n_nodes;
	lh_cleanup_free struct lh_net_counter *counters = calloc(n * n, sizeof(*counters));
	lh_cleanup_free struct lh_site_counter *links =
		calloc(2 * net->plan->n_accesses + 1, sizeof(*links));
	struct lh_net_faults f = {0};
	struct lh_error ignored;
	uint64_t softnet = 0;
	int r = counters && links ? read_all(net, counters, links, &f, err)
				  : lh_fail(err, LH_ESYS, ENOMEM, "read the counters");

	if (r < 0)
		return r;
	for (size_t i = 0; i < n * n && !net->wan; i++)
		if (i / n != i % n)
			sort_drops(net->plan, i / n, i % n, &counters[i], &f);
		else
			f.qdisc_drops += counters[i].dropped_packets;
	for (size_t i = 0; i < 2 * net->plan->n_accesses && !net->wan; i++)
		f.path_drops += links[i].dropped_packets;
	r = read_softnet(&softnet, err);
	f.softnet_drops += softnet - net->before[n].softnet_drops;
	for (size_t i = 0; i < n && r == 0; i++)
		r = add_node_faults(net, counters, i, &f, err);
	lh_net_leave(net, &ignored);
	if (r == 0)
		*ret_faults = f;
	return r;
}
