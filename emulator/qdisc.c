/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queueing disciplines through netlink. See qdisc.h.
 * Source of the formats: include/uapi/linux/pkt_sched.h and net/sched/sch_{netem,htb,tbf}.c.
 */
#include "emulator/qdisc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

enum {
	TICK_NS = 64, /* PSCHED_SHIFT 6 */
	HTB_VERSION = 3,
	HTB_QUANTUM_BYTES = 131072,
	HTB_UNUSED_R2Q = 10,
	ROOT_MAJOR = 1,
	FILTER_PRIORITY = 1,
	WAKE_BURST_BYTES = 1600,
	NETEM_PRNG_SEED = 14, /* Linux 6.6; not in the headers of Debian 12 */
	NS_PER_US = 1000,
};

/* A rate at which even a super-packet takes no time, in whole ns. */
#define SPLIT_BYTES_PER_S INT64_C(1000000000000000)
#define FQ_MEMORY_BYTES UINT32_MAX /* the limit in packets is the one that counts */

struct tbf {
	int64_t bytes_per_s;
	uint32_t burst_bytes;
	uint32_t limit_bytes;
};

int64_t lh_rate_to_kernel(int64_t rate_bps)
{
	int64_t v = rate_bps / 8 + (rate_bps % 8 >= 4);

	return v < 1 ? 1 : v;
}

/* The 32-bit form of a rate: all ones where the 64-bit attribute counts. */
static uint32_t rate_low(int64_t bytes_per_s)
{
	return bytes_per_s >= UINT32_MAX ? UINT32_MAX : (uint32_t)bytes_per_s;
}

/* Time to send bytes at a rate, in the kernel's ticks. */
static uint32_t ticks_of(uint32_t bytes, int64_t bytes_per_s)
{
	double ticks = (double)bytes / (double)bytes_per_s * 1e9 / TICK_NS;

	return ticks >= UINT32_MAX ? UINT32_MAX : (uint32_t)ticks + 1;
}

static struct tc_ratespec ratespec_of(int64_t bytes_per_s)
{
	/* the link layer is named so that the kernel wants no rate table */
	return (struct tc_ratespec){
		.linklayer = TC_LINKLAYER_ETHERNET,
		.rate = rate_low(bytes_per_s),
	};
}

/* A message about a qdisc, class or filter of the given kind. */
static struct nl_msg *tc_message(int type, int flags, int ifindex, uint32_t handle, uint32_t parent,
				 uint32_t info, const char *kind)
{
	struct tcmsg header = {
		.tcm_family = AF_UNSPEC,
		.tcm_ifindex = ifindex,
		.tcm_handle = handle,
		.tcm_parent = parent,
		.tcm_info = info,
	};
	struct nl_msg *msg = lh_nl_new(type, flags, &header, sizeof(header));

	if (msg && nla_put_string(msg, TCA_KIND, kind) < 0) {
		nlmsg_free(msg);
		return NULL;
	}
	return msg;
}

/* A request for a new one. */
static struct nl_msg *tc_new(int type, int ifindex, uint32_t handle, uint32_t parent, uint32_t info,
			     const char *kind)
{
	return tc_message(type, NLM_F_CREATE | NLM_F_EXCL, ifindex, handle, parent, info, kind);
}

/* Ends the options (failed: something did not fit) and sends the message. */
static int tc_send(struct lh_nl *nl, struct nl_msg *msg, struct nlattr *options, bool failed,
		   const char *what, int ifindex, struct lh_error *err)
{
	char text[96];

	snprintf(text, sizeof(text), "%s on link %d", what, ifindex);
	if (msg && (failed || !options)) {
		nlmsg_free(msg);
		msg = NULL;
	}
	if (msg)
		nla_nest_end(msg, options);
	return lh_nl_request(nl, msg, text, err);
}

static bool put_tbf(struct nl_msg *msg, const void *what)
{
	const struct tbf *t = what;
	struct tc_tbf_qopt opt = {
		.rate = ratespec_of(t->bytes_per_s),
		.limit = t->limit_bytes,
		.buffer = ticks_of(t->burst_bytes, t->bytes_per_s),
	};

	return nla_put(msg, TCA_TBF_PARMS, sizeof(opt), &opt) == 0 &&
	       nla_put_u32(msg, TCA_TBF_BURST, t->burst_bytes) == 0 &&
	       (t->bytes_per_s < UINT32_MAX ||
		nla_put_u64(msg, TCA_TBF_RATE64, (uint64_t)t->bytes_per_s) == 0);
}

/* A tbf anywhere; rates in the kernel's bytes. */
static int tbf_new(struct lh_nl *nl, int ifindex, uint32_t handle, uint32_t parent,
		   const struct tbf *t, struct lh_error *err)
{
	struct nl_msg *msg = tc_new(RTM_NEWQDISC, ifindex, handle, parent, 0, "tbf");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || !put_tbf(msg, t);

	return tc_send(nl, msg, options, failed, "add tbf", ifindex, err);
}

int lh_tbf_add(struct lh_nl *nl, int ifindex, int64_t rate_bps, uint32_t burst_bytes,
	       uint32_t limit_bytes, struct lh_error *err)
{
	struct tbf t = {lh_rate_to_kernel(rate_bps), burst_bytes, limit_bytes};

	return tbf_new(nl, ifindex, ROOT_MAJOR << 16, TC_H_ROOT, &t, err);
}

static int class_add(struct lh_nl *nl, int ifindex, uint32_t minor, uint32_t parent,
		     int64_t share_bps, int64_t rate_bps, uint32_t burst_bytes,
		     struct lh_error *err)
{
	int64_t rate = lh_rate_to_kernel(share_bps);
	int64_t ceil = lh_rate_to_kernel(rate_bps);
	struct tc_htb_opt opt = {
		.rate = ratespec_of(rate),
		.ceil = ratespec_of(ceil),
		.buffer = ticks_of(burst_bytes, rate),
		.cbuffer = ticks_of(burst_bytes, ceil),
		.quantum = HTB_QUANTUM_BYTES,
	};
	struct nl_msg *msg = tc_new(RTM_NEWTCLASS, ifindex, TC_H_MAKE(ROOT_MAJOR << 16, minor),
				    parent, 0, "htb");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || nla_put(msg, TCA_HTB_PARMS, sizeof(opt), &opt) < 0 ||
		      nla_put_u64(msg, TCA_HTB_RATE64, (uint64_t)rate) < 0 ||
		      nla_put_u64(msg, TCA_HTB_CEIL64, (uint64_t)ceil) < 0;

	return tc_send(nl, msg, options, failed, "add an htb class", ifindex, err);
}

int lh_htb_add(struct lh_nl *nl, int ifindex, int64_t rate_bps, uint32_t burst_bytes,
	       struct lh_error *err)
{
	struct tc_htb_glob opt = {.version = HTB_VERSION, .rate2quantum = HTB_UNUSED_R2Q};
	struct nl_msg *msg = tc_new(RTM_NEWQDISC, ifindex, ROOT_MAJOR << 16, TC_H_ROOT, 0, "htb");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || nla_put(msg, TCA_HTB_INIT, sizeof(opt), &opt) < 0;
	int r = tc_send(nl, msg, options, failed, "add htb", ifindex, err);

	return r < 0 ? r
		     : class_add(nl, ifindex, LH_CLASS_NIC, ROOT_MAJOR << 16, rate_bps, rate_bps,
				 burst_bytes, err);
}

int lh_htb_class_add(struct lh_nl *nl, int ifindex, unsigned sender, int64_t share_bps,
		     int64_t rate_bps, uint32_t burst_bytes, struct lh_error *err)
{
	return class_add(nl, ifindex, LH_CLASS_FIRST + sender,
			 TC_H_MAKE(ROOT_MAJOR << 16, LH_CLASS_NIC), share_bps, rate_bps,
			 burst_bytes, err);
}

/*
 * Cuts super-packets: a tbf cuts what is longer than its burst as it comes in, and its rate is so
 * high that it holds nothing back, whatever its length.
 */
static int split_add(struct lh_nl *nl, int ifindex, uint32_t handle, uint32_t parent,
		     uint32_t uncut_bytes, struct lh_error *err)
{
	struct tbf t = {SPLIT_BYTES_PER_S, uncut_bytes, 0};

	return tbf_new(nl, ifindex, handle, parent, &t, err);
}

static uint32_t to_us(int64_t ns, int64_t otherwise_us)
{
	return (uint32_t)(ns > 0 ? ns / NS_PER_US : otherwise_us);
}

/* The kernel's own queue management; its numbers are written although they are its defaults. */
static int aqm_add(struct lh_nl *nl, int ifindex, uint32_t parent,
		   const struct lh_plan_bottleneck *b, struct lh_error *err)
{
	static const struct {
		const char *kind;
		int target, limit, interval, ecn;
	} aqms[] = {
		[LH_CODEL] = {"codel", TCA_CODEL_TARGET, TCA_CODEL_LIMIT, TCA_CODEL_INTERVAL,
			      TCA_CODEL_ECN},
		[LH_FQ_CODEL] = {"fq_codel", TCA_FQ_CODEL_TARGET, TCA_FQ_CODEL_LIMIT,
				 TCA_FQ_CODEL_INTERVAL, TCA_FQ_CODEL_ECN},
	};
	int k = b->queue->discipline;
	struct nl_msg *msg = tc_new(RTM_NEWQDISC, ifindex, 0, parent, 0, aqms[k].kind);
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || nla_put_u32(msg, aqms[k].limit, b->limit_pkts) < 0 ||
		      nla_put_u32(msg, aqms[k].target,
				  to_us(b->queue->target_ns, LH_CODEL_TARGET_US)) < 0 ||
		      nla_put_u32(msg, aqms[k].interval,
				  to_us(b->queue->interval_ns, LH_CODEL_INTERVAL_US)) < 0 ||
		      nla_put_u32(msg, aqms[k].ecn, b->queue->ecn) < 0 ||
		      (k == LH_FQ_CODEL &&
		       nla_put_u32(msg, TCA_FQ_CODEL_MEMORY_LIMIT, FQ_MEMORY_BYTES) < 0);

	return tc_send(nl, msg, options, failed, "add an active queue management", ifindex, err);
}

/* Cuts super-packets, holds the rate, and queues. */
static int bottleneck_add(struct lh_nl *nl, int ifindex, const uint32_t handles[2], uint32_t parent,
			  const struct lh_plan_bottleneck *b, uint32_t uncut_bytes,
			  struct lh_error *err)
{
	struct tbf t = {lh_rate_to_kernel(b->bandwidth_bps), b->burst_bytes, b->limit_bytes};
	int r = split_add(nl, ifindex, handles[0], parent, uncut_bytes, err);

	if (r == 0)
		r = tbf_new(nl, ifindex, handles[1], handles[0] | 1, &t, err);
	if (r == 0 && b->queue->discipline != LH_DROP_TAIL)
		r = aqm_add(nl, ifindex, handles[1] | 1, b, err);
	return r;
}

int lh_bottleneck_add(struct lh_nl *nl, int ifindex, const struct lh_plan_bottleneck *b,
		      uint32_t frame_bytes, struct lh_error *err)
{
	const uint32_t handles[2] = {ROOT_MAJOR << 16, LH_LINK_MAJOR << 16};

	return bottleneck_add(nl, ifindex, handles, TC_H_ROOT, b, frame_bytes, err);
}

int lh_stage_add(struct lh_nl *nl, int ifindex, unsigned sender, const struct lh_plan_bottleneck *b,
		 uint32_t uncut_bytes, struct lh_error *err)
{
	const uint32_t handles[2] = {(LH_SPLIT_FIRST + sender) << 16, (LH_STAGE_FIRST + sender)
									      << 16};

	return bottleneck_add(nl, ifindex, handles,
			      TC_H_MAKE(ROOT_MAJOR << 16, LH_CLASS_FIRST + sender), b, uncut_bytes,
			      err);
}

/* Bursts of loss: the kernel's h is the chance to pass in the bad state, k1 to be lost in the
 * good one; both are 0 here. */
static bool put_bursts(struct nl_msg *msg, const struct lh_plan_chances *c)
{
	struct tc_netem_gemodel ge = {.p = c->burst_in, .r = c->burst_out};
	struct nlattr *loss;

	if (!c->burst_in)
		return true;
	loss = nla_nest_start(msg, TCA_NETEM_LOSS);
	if (!loss || nla_put(msg, NETEM_LOSS_GE, sizeof(ge), &ge) < 0)
		return false;
	nla_nest_end(msg, loss);
	return true;
}

/* What is random on a path; in a change, also what is not. */
static bool put_randomness(struct nl_msg *msg, const struct lh_plan_path *p, bool is_change)
{
	const struct lh_jitter_table *table = p->jitter ? p->jitter : p->late_table;
	struct tc_netem_reorder reorder = {.probability = p->chances.reorder};
	struct tc_netem_corrupt corrupt = {.probability = p->chances.corrupt};

	/* the shape stays as it is, and a generator that began anew would repeat itself */
	if (!is_change && ((table && nla_put(msg, TCA_NETEM_DELAY_DIST, sizeof(table->entries),
					     table->entries) < 0) ||
			   (p->seed && nla_put_u64(msg, NETEM_PRNG_SEED, p->seed) < 0)))
		return false;
	if ((is_change || p->chances.reorder) &&
	    nla_put(msg, TCA_NETEM_REORDER, sizeof(reorder), &reorder) < 0)
		return false;
	if ((is_change || p->chances.corrupt) &&
	    nla_put(msg, TCA_NETEM_CORRUPT, sizeof(corrupt), &corrupt) < 0)
		return false;
	return put_bursts(msg, &p->chances);
}

/* All of a netem's attributes; false where there is no room. */
static bool put_netem(struct nl_msg *msg, const struct lh_plan_path *p, bool is_change)
{
	int64_t bytes_per_s = lh_rate_to_kernel(lh_plan_netem_bps(p));
	struct tc_netem_qopt opt = {
		.limit = p->limit_pkts,
		.loss = p->chances.loss,
		.duplicate = p->chances.duplicate,
		.gap = p->chances.reorder ? 1 : 0, /* every packet may be the one */
	};
	struct tc_netem_rate rate = {.rate = rate_low(bytes_per_s)};

	/* netem's own structure stands in the options without an attribute header */
	return nlmsg_append(msg, &opt, sizeof(opt), NLMSG_ALIGNTO) == 0 &&
	       nla_put_u64(msg, TCA_NETEM_LATENCY64, (uint64_t)p->delay_ns) == 0 &&
	       nla_put_u64(msg, TCA_NETEM_JITTER64,
			   p->jitter ? (uint64_t)p->jitter->sigma_ns : 0) == 0 &&
	       nla_put(msg, TCA_NETEM_RATE, sizeof(rate), &rate) == 0 &&
	       (bytes_per_s < UINT32_MAX ||
		nla_put_u64(msg, TCA_NETEM_RATE64, (uint64_t)bytes_per_s) == 0) &&
	       put_randomness(msg, p, is_change);
}

/* Where a sender's netem stands. */
static uint32_t netem_parent(unsigned sender, const struct lh_plan_path *p)
{
	return p->splits_segments ? TC_H_MAKE((LH_SPLIT_FIRST + sender) << 16, 1)
				  : TC_H_MAKE(ROOT_MAJOR << 16, LH_CLASS_FIRST + sender);
}

int lh_netem_add(struct lh_nl *nl, int ifindex, unsigned sender, const struct lh_plan_path *p,
		 uint32_t frame_bytes, struct lh_error *err)
{
	struct nl_msg *msg;
	struct nlattr *options;
	bool failed;
	int r = 0;

	if (p->splits_segments)
		r = split_add(nl, ifindex, (LH_SPLIT_FIRST + sender) << 16,
			      TC_H_MAKE(ROOT_MAJOR << 16, LH_CLASS_FIRST + sender), frame_bytes,
			      err);
	if (r < 0)
		return r;
	msg = tc_new(RTM_NEWQDISC, ifindex, (LH_NETEM_FIRST + sender) << 16,
		     netem_parent(sender, p), 0, "netem");
	options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	failed = !options || !put_netem(msg, p, false);
	return tc_send(nl, msg, options, failed, "add netem", ifindex, err);
}

int lh_netem_root_add(struct lh_nl *nl, int ifindex, const struct lh_plan_path *p,
		      struct lh_error *err)
{
	struct nl_msg *msg = tc_new(RTM_NEWQDISC, ifindex, ROOT_MAJOR << 16, TC_H_ROOT, 0, "netem");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || !put_netem(msg, p, false);

	return tc_send(nl, msg, options, failed, "add netem", ifindex, err);
}

/* Where a qdisc of a link stands, and what it is. */
struct place {
	int ifindex;
	uint32_t handle;
	uint32_t parent;
	const char *kind;
};

/* Appends a message that changes a qdisc; put fills its options. */
static int add_change(const struct place *at, bool (*put)(struct nl_msg *, const void *),
		      const void *what, struct nl_msg **messages, size_t *n, struct lh_error *err)
{
	struct nl_msg *msg = tc_message(RTM_NEWQDISC, NLM_F_ECHO, at->ifindex, at->handle,
					at->parent, 0, at->kind);
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;

	if (!options || !put(msg, what)) {
		nlmsg_free(msg);
		return lh_fail(err, LH_ESYS, ENOMEM, "change a path");
	}
	nla_nest_end(msg, options);
	messages[(*n)++] = msg;
	return 0;
}

static bool put_changed_netem(struct nl_msg *msg, const void *path)
{
	return put_netem(msg, path, true);
}

int lh_netem_change(int ifindex, unsigned sender, const struct lh_plan_path *p,
		    struct nl_msg **messages, size_t *n, struct lh_error *err)
{
	const struct place at = {ifindex, (LH_NETEM_FIRST + sender) << 16, netem_parent(sender, p),
				 "netem"};

	return add_change(&at, put_changed_netem, p, messages, n, err);
}

int lh_stage_change(int ifindex, unsigned sender, const struct lh_plan_path *p,
		    struct nl_msg **messages, size_t *n, struct lh_error *err)
{
	uint32_t split = (LH_SPLIT_FIRST + sender) << 16;
	const struct place bottleneck = {ifindex, (LH_STAGE_FIRST + sender) << 16, split | 1,
					 "tbf"};
	const struct place cutter = {ifindex, split,
				     TC_H_MAKE(ROOT_MAJOR << 16, LH_CLASS_FIRST + sender), "tbf"};
	const struct tbf rate = {lh_rate_to_kernel(p->bottleneck.bandwidth_bps),
				 p->bottleneck.burst_bytes, p->bottleneck.limit_bytes};
	const struct tbf cut = {SPLIT_BYTES_PER_S, p->uncut_bytes, 0};
	int r = add_change(&bottleneck, put_tbf, &rate, messages, n, err);

	/* last, so that nothing longer comes before the bottleneck can let it pass */
	return r < 0 ? r : add_change(&cutter, put_tbf, &cut, messages, n, err);
}

int lh_wake_class_add(struct lh_nl *nl, int ifindex, int64_t rate_bps, struct lh_error *err)
{
	struct nl_msg *msg;
	int r = class_add(nl, ifindex, LH_CLASS_WAKE, ROOT_MAJOR << 16, rate_bps, rate_bps,
			  WAKE_BURST_BYTES, err);

	if (r < 0)
		return r;
	msg = tc_new(RTM_NEWQDISC, ifindex, 0, lh_wake_priority(), 0, "blackhole");
	return lh_nl_request(nl, msg, "add a blackhole", err);
}

uint32_t lh_wake_priority(void)
{
	return TC_H_MAKE(ROOT_MAJOR << 16, LH_CLASS_WAKE);
}

int lh_root_delete(struct lh_nl *nl, int ifindex, struct lh_error *err)
{
	struct tcmsg header = {
		.tcm_family = AF_UNSPEC, .tcm_ifindex = ifindex, .tcm_parent = TC_H_ROOT};

	return lh_nl_request(nl, lh_nl_new(RTM_DELQDISC, 0, &header, sizeof(header)),
			     "empty the queue of a link", err);
}

int lh_filter_add(struct lh_nl *nl, int ifindex, int prog_fd, struct lh_error *err)
{
	struct nl_msg *msg = tc_new(RTM_NEWTFILTER, ifindex, 0, ROOT_MAJOR << 16,
				    TC_H_MAKE(FILTER_PRIORITY << 16, htons(ETH_P_ALL)), "bpf");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || nla_put_u32(msg, TCA_BPF_FD, (uint32_t)prog_fd) < 0 ||
		      nla_put_string(msg, TCA_BPF_NAME, "longhaul-classify") < 0;

	return tc_send(nl, msg, options, failed, "add the classifier", ifindex, err);
}

int lh_ingress_add(struct lh_nl *nl, int ifindex, enum lh_ingress which, int prog_fd,
		   struct lh_error *err)
{
	struct nl_msg *msg =
		tc_new(RTM_NEWQDISC, ifindex, TC_H_MAKE(TC_H_CLSACT, 0), TC_H_CLSACT, 0, "clsact");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	int r = tc_send(nl, msg, options, !options, "add clsact", ifindex, err);
	bool failed;

	/* a program before this one has brought it */
	if (r < 0 && err->sys != EEXIST)
		return r;
	msg = tc_new(RTM_NEWTFILTER, ifindex, 0, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS),
		     TC_H_MAKE((uint32_t)which << 16, htons(ETH_P_ALL)), "bpf");
	options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	failed = !options || nla_put_u32(msg, TCA_BPF_FD, (uint32_t)prog_fd) < 0 ||
		 nla_put_string(msg, TCA_BPF_NAME, "longhaul-ingress") < 0 ||
		 nla_put_u32(msg, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT) < 0;
	return tc_send(nl, msg, options, failed, "add a program for what comes in", ifindex, err);
}
