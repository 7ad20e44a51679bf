/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of what changes in time: events and traces. See docs/formats.md. */
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
	END,
};

const struct lh_section lh_event_section = {
	"an event", "A change of a path, or a site cut off, while it runs.", sizeof(struct lh_event),
	LH_NO_OFFSET, NULL, offsetof(struct lh_event, pos), event_fields,
};
