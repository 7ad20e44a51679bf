/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queueing disciplines through netlink. See qdisc.h.
 * Source of the formats: include/uapi/linux/pkt_sched.h and net/sched/sch_{netem,htb,tbf}.c.
 */
#include "emulator/qdisc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/gen_stats.h>
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
	NETEM_ATTRIBUTES = 14,
};

/* A rate at which even a super-packet takes no time, in whole ns; and one that is only large. */
#define SPLIT_BYTES_PER_S UINT64_C(1000000000000000)
#define ORDER_BYTES_PER_S INT64_C(1000000000000)

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

int lh_tbf_add(struct lh_nl *nl, int ifindex, int64_t rate_bps, uint32_t burst_bytes,
	       uint32_t limit_bytes, struct lh_error *err)
{
	int64_t rate = lh_rate_to_kernel(rate_bps);
	struct tc_tbf_qopt opt = {
		.rate = ratespec_of(rate),
		.limit = limit_bytes,
		.buffer = ticks_of(burst_bytes, rate),
	};
	struct nl_msg *msg = tc_new(RTM_NEWQDISC, ifindex, ROOT_MAJOR << 16, TC_H_ROOT, 0, "tbf");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || nla_put(msg, TCA_TBF_PARMS, sizeof(opt), &opt) < 0 ||
		      nla_put_u32(msg, TCA_TBF_BURST, burst_bytes) < 0 ||
		      (rate >= UINT32_MAX && nla_put_u64(msg, TCA_TBF_RATE64, (uint64_t)rate) < 0);

	return tc_send(nl, msg, options, failed, "add tbf", ifindex, err);
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
static bool put_split(struct nl_msg *msg, uint32_t uncut_bytes)
{
	struct tc_tbf_qopt opt = {
		.rate = ratespec_of(SPLIT_BYTES_PER_S),
		.buffer = ticks_of(uncut_bytes, (int64_t)SPLIT_BYTES_PER_S),
	};

	return nla_put(msg, TCA_TBF_PARMS, sizeof(opt), &opt) == 0 &&
	       nla_put_u32(msg, TCA_TBF_BURST, uncut_bytes) == 0 &&
	       nla_put_u64(msg, TCA_TBF_RATE64, SPLIT_BYTES_PER_S) == 0;
}

static int split_add(struct lh_nl *nl, int ifindex, unsigned sender, uint32_t uncut_bytes,
		     struct lh_error *err)
{
	struct nl_msg *msg = tc_new(RTM_NEWQDISC, ifindex, (LH_SPLIT_FIRST + sender) << 16,
				    TC_H_MAKE(ROOT_MAJOR << 16, LH_CLASS_FIRST + sender), 0, "tbf");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || !put_split(msg, uncut_bytes);

	return tc_send(nl, msg, options, failed, "add what cuts super-packets", ifindex, err);
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

int64_t lh_netem_bps(const struct lh_plan_path *p)
{
	/* with a rate, any rate, netem keeps the order */
	return p->varies ? 8 * ORDER_BYTES_PER_S : p->bandwidth_bps;
}

/* All of a netem's attributes; false where there is no room. */
static bool put_netem(struct nl_msg *msg, const struct lh_plan_path *p, bool is_change)
{
	int64_t bytes_per_s = lh_rate_to_kernel(lh_netem_bps(p));
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

static bool put_bottleneck(struct nl_msg *msg, const struct lh_plan_path *p)
{
	int64_t rate = lh_rate_to_kernel(p->bandwidth_bps);
	struct tc_tbf_qopt opt = {
		.rate = ratespec_of(rate),
		.limit = p->queue_bytes,
		.buffer = ticks_of(p->burst_bytes, rate),
	};

	return nla_put(msg, TCA_TBF_PARMS, sizeof(opt), &opt) == 0 &&
	       nla_put_u32(msg, TCA_TBF_BURST, p->burst_bytes) == 0 &&
	       (rate < UINT32_MAX || nla_put_u64(msg, TCA_TBF_RATE64, (uint64_t)rate) == 0);
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
	uint32_t netem = (LH_NETEM_FIRST + sender) << 16;
	struct nl_msg *msg;
	struct nlattr *options;
	bool failed;
	uint32_t uncut = p->varies ? p->uncut_bytes : frame_bytes;
	int r = p->splits_segments ? split_add(nl, ifindex, sender, uncut, err) : 0;

	if (r < 0)
		return r;
	msg = tc_new(RTM_NEWQDISC, ifindex, netem, netem_parent(sender, p), 0, "netem");
	options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	failed = !options || !put_netem(msg, p, false);
	r = tc_send(nl, msg, options, failed, "add netem", ifindex, err);
	if (r < 0 || !p->varies)
		return r;
	msg = tc_new(RTM_NEWQDISC, ifindex, (LH_BOTTLENECK_FIRST + sender) << 16,
		     TC_H_MAKE(netem, 1), 0, "tbf");
	options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	failed = !options || !put_bottleneck(msg, p);
	return tc_send(nl, msg, options, failed, "add a bottleneck", ifindex, err);
}

/* Appends a message that changes a qdisc; put fills its options. */
static int add_change(struct nl_msg *msg, bool (*put)(struct nl_msg *, const struct lh_plan_path *),
		      const struct lh_plan_path *p, struct nl_msg **messages, size_t *n,
		      struct lh_error *err)
{
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;

	if (!options || !put(msg, p)) {
		nlmsg_free(msg);
		return lh_fail(err, LH_ESYS, ENOMEM, "change a path");
	}
	nla_nest_end(msg, options);
	messages[(*n)++] = msg;
	return 0;
}

static bool put_changed_netem(struct nl_msg *msg, const struct lh_plan_path *p)
{
	return put_netem(msg, p, true);
}

static bool put_changed_split(struct nl_msg *msg, const struct lh_plan_path *p)
{
	return put_split(msg, p->uncut_bytes);
}

int lh_netem_change(int ifindex, unsigned sender, const struct lh_plan_path *p,
		    struct nl_msg **messages, size_t *n, struct lh_error *err)
{
	uint32_t netem = (LH_NETEM_FIRST + sender) << 16;
	int r = add_change(tc_message(RTM_NEWQDISC, NLM_F_ECHO, ifindex, netem,
				      netem_parent(sender, p), 0, "netem"),
			   put_changed_netem, p, messages, n, err);

	if (r == 0 && p->varies)
		r = add_change(tc_message(RTM_NEWQDISC, NLM_F_ECHO, ifindex,
					  (LH_BOTTLENECK_FIRST + sender) << 16, TC_H_MAKE(netem, 1),
					  0, "tbf"),
			       put_bottleneck, p, messages, n, err);
	/* last, so that nothing longer comes before the bottleneck can let it pass */
	if (r == 0 && p->varies && p->splits_segments)
		r = add_change(tc_message(RTM_NEWQDISC, NLM_F_ECHO, ifindex,
					  (LH_SPLIT_FIRST + sender) << 16,
					  TC_H_MAKE(ROOT_MAJOR << 16, LH_CLASS_FIRST + sender), 0,
					  "tbf"),
			       put_changed_split, p, messages, n, err);
	return r;
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

int lh_filter_add(struct lh_nl *nl, int ifindex, int prog_fd, struct lh_error *err)
{
	struct nl_msg *msg = tc_new(RTM_NEWTFILTER, ifindex, 0, ROOT_MAJOR << 16,
				    TC_H_MAKE(FILTER_PRIORITY << 16, htons(ETH_P_ALL)), "bpf");
	struct nlattr *options = msg ? nla_nest_start(msg, TCA_OPTIONS) : NULL;
	bool failed = !options || nla_put_u32(msg, TCA_BPF_FD, (uint32_t)prog_fd) < 0 ||
		      nla_put_string(msg, TCA_BPF_NAME, "longhaul-classify") < 0;

	return tc_send(nl, msg, options, failed, "add the classifier", ifindex, err);
}

static void parse_bursts(struct nlattr *loss, struct lh_qdisc_state *s)
{
	struct nlattr *tb[NETEM_LOSS_MAX + 1] = {NULL};
	const struct tc_netem_gemodel *ge;

	nla_parse_nested(tb, NETEM_LOSS_MAX, loss, NULL);
	if (!tb[NETEM_LOSS_GE])
		return;
	ge = nla_data(tb[NETEM_LOSS_GE]);
	s->chances.burst_in = ge->p;
	s->chances.burst_out = ge->r;
	s->bad_pass = ge->h;
	s->good_loss = ge->k1;
}

static void parse_netem(struct nlattr *options, struct lh_qdisc_state *s)
{
	const struct tc_netem_qopt *opt = nla_data(options);
	struct nlattr *tb[NETEM_ATTRIBUTES + 1] = {NULL};
	int skip = NLMSG_ALIGN((int)sizeof(*opt));

	if (nla_len(options) < skip)
		return;
	s->limit = opt->limit;
	s->gap = opt->gap;
	s->chances.loss = opt->loss;
	s->chances.duplicate = opt->duplicate;
	nla_parse(tb, NETEM_ATTRIBUTES, (struct nlattr *)((char *)nla_data(options) + skip),
		  nla_len(options) - skip, NULL);
	if (tb[TCA_NETEM_LATENCY64])
		s->delay_ns = (int64_t)nla_get_u64(tb[TCA_NETEM_LATENCY64]);
	if (tb[TCA_NETEM_JITTER64])
		s->jitter_ns = (int64_t)nla_get_u64(tb[TCA_NETEM_JITTER64]);
	if (tb[TCA_NETEM_REORDER]) {
		const struct tc_netem_reorder *reorder = nla_data(tb[TCA_NETEM_REORDER]);

		s->chances.reorder = reorder->probability;
	}
	if (tb[TCA_NETEM_CORRUPT]) {
		const struct tc_netem_corrupt *corrupt = nla_data(tb[TCA_NETEM_CORRUPT]);

		s->chances.corrupt = corrupt->probability;
	}
	if (tb[TCA_NETEM_LOSS])
		parse_bursts(tb[TCA_NETEM_LOSS], s);
	if (tb[NETEM_PRNG_SEED])
		s->seed = nla_get_u64(tb[NETEM_PRNG_SEED]);
	if (tb[TCA_NETEM_RATE]) {
		const struct tc_netem_rate *rate = nla_data(tb[TCA_NETEM_RATE]);

		s->rate_bytes_per_s = rate->rate;
	}
	if (tb[TCA_NETEM_RATE64])
		s->rate_bytes_per_s = (int64_t)nla_get_u64(tb[TCA_NETEM_RATE64]);
}

static void parse_tbf(struct nlattr *options, struct lh_qdisc_state *s)
{
	struct nlattr *tb[TCA_TBF_MAX + 1] = {NULL};

	nla_parse_nested(tb, TCA_TBF_MAX, options, NULL);
	if (tb[TCA_TBF_PARMS]) {
		const struct tc_tbf_qopt *opt = nla_data(tb[TCA_TBF_PARMS]);

		s->rate_bytes_per_s = opt->rate.rate;
		s->limit = opt->limit;
		s->burst_ns = (int64_t)opt->buffer * TICK_NS;
	}
	if (tb[TCA_TBF_RATE64])
		s->rate_bytes_per_s = (int64_t)nla_get_u64(tb[TCA_TBF_RATE64]);
}

static void parse_htb(struct nlattr *options, struct lh_qdisc_state *s)
{
	struct nlattr *tb[TCA_HTB_MAX + 1] = {NULL};

	nla_parse_nested(tb, TCA_HTB_MAX, options, NULL);
	if (tb[TCA_HTB_INIT]) {
		const struct tc_htb_glob *glob = nla_data(tb[TCA_HTB_INIT]);

		s->direct_pkts = glob->direct_pkts;
	}
}

static void parse_stats(struct nlattr *stats, struct lh_qdisc_state *s)
{
	struct nlattr *tb[TCA_STATS_MAX + 1] = {NULL};

	nla_parse_nested(tb, TCA_STATS_MAX, stats, NULL);
	if (tb[TCA_STATS_BASIC]) {
		struct gnet_stats_basic basic;

		memcpy(&basic, nla_data(tb[TCA_STATS_BASIC]), sizeof(basic));
		s->bytes = basic.bytes;
		s->packets = basic.packets;
	}
	if (tb[TCA_STATS_PKT64])
		s->packets = nla_get_u64(tb[TCA_STATS_PKT64]);
	if (tb[TCA_STATS_QUEUE]) {
		const struct gnet_stats_queue *queue = nla_data(tb[TCA_STATS_QUEUE]);

		s->drops = queue->drops;
	}
}

struct qdisc_walk {
	int (*each)(const struct lh_qdisc_state *, void *, struct lh_error *);
	void *context;
};

static int qdisc_answer(const struct nlmsghdr *answer, void *context, struct lh_error *err)
{
	const struct qdisc_walk *walk = context;
	const struct tcmsg *header = nlmsg_data(answer);
	struct nlattr *tb[TCA_MAX + 1] = {NULL};
	struct lh_qdisc_state s = {.ifindex = header->tcm_ifindex, .handle = header->tcm_handle};

	if (answer->nlmsg_type != RTM_NEWQDISC)
		return 0;
	nlmsg_parse((struct nlmsghdr *)answer, sizeof(*header), tb, TCA_MAX, NULL);
	if (!tb[TCA_KIND])
		return 0;
	nla_strlcpy(s.kind, tb[TCA_KIND], sizeof(s.kind));
	if (tb[TCA_OPTIONS] && strcmp(s.kind, "netem") == 0)
		parse_netem(tb[TCA_OPTIONS], &s);
	else if (tb[TCA_OPTIONS] && strcmp(s.kind, "tbf") == 0)
		parse_tbf(tb[TCA_OPTIONS], &s);
	else if (tb[TCA_OPTIONS] && strcmp(s.kind, "htb") == 0)
		parse_htb(tb[TCA_OPTIONS], &s);
	if (tb[TCA_STATS2])
		parse_stats(tb[TCA_STATS2], &s);
	return walk->each(&s, walk->context, err);
}

int lh_qdisc_dump(struct lh_nl *nl,
		  int (*each)(const struct lh_qdisc_state *state, void *context,
			      struct lh_error *err),
		  void *context, struct lh_error *err)
{
	struct tcmsg header = {.tcm_family = AF_UNSPEC};
	struct qdisc_walk walk = {each, context};

	return lh_nl_dump(nl, lh_nl_new(RTM_GETQDISC, 0, &header, sizeof(header)), "read qdiscs",
			  qdisc_answer, &walk, err);
}

int lh_qdisc_change(struct lh_nl *nl, struct nl_msg **messages, size_t n,
		    int (*each)(const struct lh_qdisc_state *state, void *context,
				struct lh_error *err),
		    void *context, struct lh_error *err)
{
	struct qdisc_walk walk = {each, context};

	return lh_nl_batch(nl, messages, n, "change paths", qdisc_answer, &walk, err);
}

struct class_walk {
	int (*each)(const struct lh_class_state *, void *, struct lh_error *);
	void *context;
};

static int class_answer(const struct nlmsghdr *answer, void *context, struct lh_error *err)
{
	const struct class_walk *walk = context;
	const struct tcmsg *header = nlmsg_data(answer);
	struct nlattr *tb[TCA_MAX + 1] = {NULL}, *htb[TCA_HTB_MAX + 1] = {NULL};
	struct lh_class_state s = {.minor = TC_H_MIN(header->tcm_handle)};

	if (answer->nlmsg_type != RTM_NEWTCLASS)
		return 0;
	nlmsg_parse((struct nlmsghdr *)answer, sizeof(*header), tb, TCA_MAX, NULL);
	if (!tb[TCA_OPTIONS])
		return 0;
	nla_parse_nested(htb, TCA_HTB_MAX, tb[TCA_OPTIONS], NULL);
	if (htb[TCA_HTB_PARMS]) {
		const struct tc_htb_opt *opt = nla_data(htb[TCA_HTB_PARMS]);

		s.rate_bytes_per_s = opt->rate.rate;
		s.ceil_bytes_per_s = opt->ceil.rate;
	}
	if (htb[TCA_HTB_RATE64])
		s.rate_bytes_per_s = (int64_t)nla_get_u64(htb[TCA_HTB_RATE64]);
	if (htb[TCA_HTB_CEIL64])
		s.ceil_bytes_per_s = (int64_t)nla_get_u64(htb[TCA_HTB_CEIL64]);
	return walk->each(&s, walk->context, err);
}

int lh_class_dump(struct lh_nl *nl, int ifindex,
		  int (*each)(const struct lh_class_state *state, void *context,
			      struct lh_error *err),
		  void *context, struct lh_error *err)
{
	struct tcmsg header = {.tcm_family = AF_UNSPEC, .tcm_ifindex = ifindex};
	struct class_walk walk = {each, context};

	return lh_nl_dump(nl, lh_nl_new(RTM_GETTCLASS, 0, &header, sizeof(header)),
			  "read htb classes", class_answer, &walk, err);
}
