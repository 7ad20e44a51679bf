/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queueing disciplines and classes as the kernel holds them. See qdisc.h.
 * Source of the formats: include/uapi/linux/pkt_sched.h and net/sched/.
 */
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "emulator/qdisc.h"

enum {
	TICK_NS = 64,	      /* PSCHED_SHIFT 6 */
	NETEM_PRNG_SEED = 14, /* Linux 6.6; not in the headers of Debian 12 */
	NETEM_ATTRIBUTES = 14,
};

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

static void parse_codel(struct nlattr *options, struct lh_qdisc_state *s)
{
	struct nlattr *tb[TCA_CODEL_MAX + 1] = {NULL};

	nla_parse_nested(tb, TCA_CODEL_MAX, options, NULL);
	if (tb[TCA_CODEL_LIMIT])
		s->limit = nla_get_u32(tb[TCA_CODEL_LIMIT]);
	if (tb[TCA_CODEL_TARGET])
		s->target_us = nla_get_u32(tb[TCA_CODEL_TARGET]);
	if (tb[TCA_CODEL_INTERVAL])
		s->interval_us = nla_get_u32(tb[TCA_CODEL_INTERVAL]);
	if (tb[TCA_CODEL_ECN])
		s->ecn = nla_get_u32(tb[TCA_CODEL_ECN]);
}

static void parse_fq_codel(struct nlattr *options, struct lh_qdisc_state *s)
{
	struct nlattr *tb[TCA_FQ_CODEL_MAX + 1] = {NULL};

	nla_parse_nested(tb, TCA_FQ_CODEL_MAX, options, NULL);
	if (tb[TCA_FQ_CODEL_LIMIT])
		s->limit = nla_get_u32(tb[TCA_FQ_CODEL_LIMIT]);
	if (tb[TCA_FQ_CODEL_TARGET])
		s->target_us = nla_get_u32(tb[TCA_FQ_CODEL_TARGET]);
	if (tb[TCA_FQ_CODEL_INTERVAL])
		s->interval_us = nla_get_u32(tb[TCA_FQ_CODEL_INTERVAL]);
	if (tb[TCA_FQ_CODEL_ECN])
		s->ecn = nla_get_u32(tb[TCA_FQ_CODEL_ECN]);
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

static const struct {
	const char *kind;
	void (*parse)(struct nlattr *options, struct lh_qdisc_state *s);
} parsers[] = {{"netem", parse_netem},
	       {"tbf", parse_tbf},
	       {"htb", parse_htb},
	       {"codel", parse_codel},
	       {"fq_codel", parse_fq_codel}};

static int qdisc_answer(const struct nlmsghdr *answer, void *context, struct lh_error *err)
{
	const struct qdisc_walk *walk = context;
	const struct tcmsg *header = nlmsg_data(answer);
	struct nlattr *tb[TCA_MAX + 1] = {NULL};
	struct lh_qdisc_state s = {.ifindex = header->tcm_ifindex,
				   .handle = header->tcm_handle,
				   .parent = header->tcm_parent};

	if (answer->nlmsg_type != RTM_NEWQDISC)
		return 0;
	nlmsg_parse((struct nlmsghdr *)answer, sizeof(*header), tb, TCA_MAX, NULL);
	if (!tb[TCA_KIND])
		return 0;
	nla_strlcpy(s.kind, tb[TCA_KIND], sizeof(s.kind));
	for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++)
		if (tb[TCA_OPTIONS] && strcmp(s.kind, parsers[i].kind) == 0)
			parsers[i].parse(tb[TCA_OPTIONS], &s);
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
