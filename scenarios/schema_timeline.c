/* SPDX-License-Identifier: Apache-2.0 */
/* Field tables of what changes in time: events, traces, spot interruptions. See docs/formats.md. */
#include "scenarios/schema_internal.h"
#include "scenarios/trace.h"

/* clang-format off */

static const struct lh_field trace_fields[] = {
	{.key = "csv", .type = LH_FIELD_STRING, AT(struct lh_trace, csv),
	 .doc = "a CSV file with the column time_s and any of delay_ms, rate_mbps and loss_ratio"},
	{.key = "mahimahi", .type = LH_FIELD_STRING, AT(struct lh_trace, mahimahi),
	 .doc = "a packet-delivery trace: each line the millisecond at which a packet of 1500 bytes "
		"can pass; it repeats from its end"},
	{.key = "interval", .type = LH_FIELD_DURATION, AT(struct lh_trace, interval_ns),
	 .min = LH_TRACE_STEP_NS, .max = 60000000000,
	 .doc = "with mahimahi: over how long packets are counted as a rate, whole ms; 100 ms where "
		"absent"},
	{.key = "repeat", .type = LH_FIELD_BOOLEAN, AT(struct lh_trace, repeat),
	 .doc = "begins again at its end; otherwise the last values stay"},
	{.key = "length", .type = LH_FIELD_DURATION, AT(struct lh_trace, length_ns),
	 .min = LH_TRACE_STEP_NS, .max = LH_TRACE_LENGTH_MAX_NS,
	 .doc = "after which it repeats; where absent the last values last as long as those before "
		"them"},
	{.key = "table", .type = LH_FIELD_STRING, AT(struct lh_trace, table),
	 .doc = "the CSV itself, in place of a file; with csv or mahimahi, what was read from it"},
	END,
};

const struct lh_section lh_trace_section = {
	"a trace", "Values that follow each other.", sizeof(struct lh_trace), LH_NO_OFFSET, NULL,
	LH_NO_OFFSET, trace_fields,
};

#define SPOT_MEAN_MAX 315576000000000000 /* ten years */

#define CHANGE(member) .offset = offsetof(struct lh_event, change.member)

static const struct lh_field event_fields[] = {
	{.key = "at", .type = LH_FIELD_DURATION, .flags = REQUIRED, AT(struct lh_event, at_ns),
	 .max = LH_TRACE_LENGTH_MAX_NS,
	 .doc = "when, counted from the start of the trainers or the command"},
	{.key = "for", .type = LH_FIELD_DURATION, AT(struct lh_event, for_ns), .min = 1,
	 .max = LH_TRACE_LENGTH_MAX_NS,
	 .doc = "how long; then what was before comes back. Where absent the values stay, until "
		"the next event without `for` sets them"},
	{.key = "path", .type = LH_FIELD_STRINGS, AT(struct lh_event, path),
	 COUNT(struct lh_event, n_path),
	 .doc = "two sites, between which both directions change"},
	{.key = "from", .type = LH_FIELD_STRING, AT(struct lh_event, from),
	 .doc = "sending site, where one direction changes"},
	{.key = "to", .type = LH_FIELD_STRING, AT(struct lh_event, to),
	 .doc = "receiving site"},
	{.key = "site", .type = LH_FIELD_STRING, AT(struct lh_event, site),
	 .doc = "the site that is cut off"},
	{.key = "cut_off", .type = LH_FIELD_BOOLEAN, AT(struct lh_event, cut_off),
	 .doc = "true: everything between the site and all others is lost; what is under way "
		"arrives"},
	{.key = "rtt", .type = LH_FIELD_DURATION, CHANGE(rtt_ns), .max = DELAY_MAX,
	 .doc = "round-trip time, with `path`"},
	{.key = "delay", .type = LH_FIELD_DURATION, CHANGE(delay_ns), .max = DELAY_MAX,
	 .doc = "one-way delay, with `from` and `to`"},
	{.key = "bandwidth", .type = LH_FIELD_RATE, CHANGE(bandwidth_bps), .min = 8,
	 .max = RATE_MAX, .doc = "of one pair of nodes in each direction, on the wire"},
	{.key = "queue", .type = LH_FIELD_QUEUE, CHANGE(queue), .max = DELAY_MAX,
	 .doc = "how much waits at the bottleneck"},
	{.key = "jitter", .type = LH_FIELD_DURATION, CHANGE(jitter_ns), .max = JITTER_MAX,
	 .doc = "standard deviation of the one-way delay; the path's distribution, or normal"},
	{.key = "loss", .type = LH_FIELD_RATIO, CHANGE(loss_ratio),
	 .doc = "share of packets that are lost; up to 100 %"},
	{.key = "loss_burst", .type = LH_FIELD_NUMBER, CHANGE(loss_burst_pkts),
	 .doc = "mean number of packets that are lost in a row, at least 1"},
	{.key = "duplicate", .type = LH_FIELD_RATIO, CHANGE(duplicate_ratio),
	 .doc = "share of packets that arrive twice"},
	{.key = "corrupt", .type = LH_FIELD_RATIO, CHANGE(corrupt_ratio),
	 .doc = "share of packets in which one bit is flipped"},
	{.key = "reorder", .type = LH_FIELD_RATIO, CHANGE(reorder_ratio),
	 .doc = "share of packets that are sent without delay"},
	{.key = "trace", .type = LH_FIELD_SECTION, AT(struct lh_event, trace),
	 .section = &lh_trace_section, .doc = "delay, rate or loss that follow a file from here on"},
	{.key = "preempt", .type = LH_FIELD_STRINGS, .flags = LH_FIELD_OR_ONE,
	 AT(struct lh_event, preempt), COUNT(struct lh_event, n_preempt),
	 .doc = "nodes that are taken away: a node (SITE/N), a site (all of its nodes), or a list; the "
		"network is cut first, then everything that runs there is killed"},
	{.key = "return_after", .type = LH_FIELD_DURATION, AT(struct lh_event, return_after_ns),
	 .min = LH_TRACE_STEP_NS, .max = LH_TRACE_LENGTH_MAX_NS,
	 .doc = "with preempt: how long until they are back, as new; never where absent"},
	{.key = "notice", .type = LH_FIELD_DURATION, AT(struct lh_event, notice_ns),
	 .max = LH_TRACE_LENGTH_MAX_NS,
	 .doc = "with preempt: how long before it all that runs there gets SIGTERM; none where absent"},
	{.key = "slow", .type = LH_FIELD_STRINGS, .flags = LH_FIELD_OR_ONE,
	 AT(struct lh_event, slow), COUNT(struct lh_event, n_slow),
	 .doc = "nodes whose computing takes longer, for `for` or to the end; trainers only"},
	{.key = "factor", .type = LH_FIELD_NUMBER, AT(struct lh_event, factor),
	 .doc = "with slow: how many times as long, more than 1 to 1000"},
	{.key = "join", .type = LH_FIELD_STRINGS, .flags = LH_FIELD_OR_ONE,
	 AT(struct lh_event, join), COUNT(struct lh_event, n_join),
	 .doc = "nodes that are not there before"},
	END,
};

static const struct lh_field spot_fields[] = {
	{.key = "mean_time_to_preemption", .type = LH_FIELD_DURATION,
	 AT(struct lh_spot_spec, mean_time_to_preemption_ns), .min = LH_TRACE_STEP_NS,
	 .max = SPOT_MEAN_MAX,
	 .doc = "mean of the exponential times for which a node is there; each node has a stream of "
		"random numbers of its own from run.seed"},
	{.key = "mean_return", .type = LH_FIELD_DURATION, AT(struct lh_spot_spec, mean_return_ns),
	 .min = LH_TRACE_STEP_NS, .max = SPOT_MEAN_MAX,
	 .doc = "mean of the exponential times until it is back; none comes back where absent"},
	{.key = "for", .type = LH_FIELD_DURATION, AT(struct lh_spot_spec, for_ns),
	 .min = LH_TRACE_STEP_NS, .max = LH_TRACE_LENGTH_MAX_NS,
	 .doc = "for how long from the start on they are drawn; 24 h where absent"},
	{.key = "notice", .type = LH_FIELD_DURATION, AT(struct lh_spot_spec, notice_ns),
	 .max = LH_TRACE_LENGTH_MAX_NS,
	 .doc = "how long before it all that runs there gets SIGTERM; none where absent"},
	{.key = "nodes", .type = LH_FIELD_STRINGS, .flags = LH_FIELD_OR_ONE,
	 AT(struct lh_spot_spec, nodes), COUNT(struct lh_spot_spec, n_nodes),
	 .doc = "nodes and sites that are interrupted; all where absent"},
	{.key = "trace", .type = LH_FIELD_STRING, AT(struct lh_spot_spec, trace),
	 .doc = "a CSV file with the columns time_s, node and event (preempt or return), in the stead "
		"of means"},
	{.key = "table", .type = LH_FIELD_STRING, AT(struct lh_spot_spec, table),
	 .doc = "the CSV itself, in place of a file; with trace, what was read from it"},
	END,
};

const struct lh_section lh_spot_section = {
	"spot interruptions", "Nodes that are taken away and come back, at random or as recorded.",
	sizeof(struct lh_spot_spec), LH_NO_OFFSET, NULL, offsetof(struct lh_spot_spec, pos),
	spot_fields,
};

const struct lh_section lh_event_section = {
	"an event", "A change of a path or of nodes, or a site cut off, while it runs.", sizeof(struct lh_event),
	LH_NO_OFFSET, NULL, offsetof(struct lh_event, pos), event_fields,
};
