/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of network files: sites, paths, measurements. See docs/formats.md. */
#include "scenarios/schema_internal.h"

/* clang-format off */

static const struct lh_choice continents[] = {
	{"africa", LH_AFRICA},   {"asia", LH_ASIA},
	{"europe", LH_EUROPE},   {"north-america", LH_NORTH_AMERICA},
	{"oceania", LH_OCEANIA}, {"south-america", LH_SOUTH_AMERICA},
	{NULL, 0},
};

static const struct lh_choice queue_disciplines[] = {
	{"drop-tail", LH_DROP_TAIL},
	{"codel", LH_CODEL},
	{"fq_codel", LH_FQ_CODEL},
	{NULL, 0},
};

#define QUEUE_FIELDS(owner, length_doc)                                                       \
	{.key = "queue", .type = LH_FIELD_QUEUE, AT(owner, queue.size), .fallback = "200 ms",  \
	 .max = DELAY_MAX, .doc = length_doc},                                                \
	{.key = "queue_discipline", .type = LH_FIELD_CHOICE, AT(owner, queue.discipline),      \
	 .choices = queue_disciplines,                                                        \
	 .doc = "which packets are dropped: the last of a full queue, or those that an active " \
		"queue management of the kernel chooses"},                                    \
	{.key = "queue_target", .type = LH_FIELD_DURATION, AT(owner, queue.target_ns),         \
	 .min = 1000, .max = QUEUE_TARGET_MAX,                                                \
	 .doc = "with codel or fq_codel: the standing delay that is allowed; 5 ms where absent"}, \
	{.key = "queue_interval", .type = LH_FIELD_DURATION, AT(owner, queue.interval_ns),     \
	 .min = 1000, .max = QUEUE_TARGET_MAX,                                                \
	 .doc = "with codel or fq_codel: how long it may stand, about a round trip; 100 ms "    \
		"where absent"},                                                              \
	{.key = "ecn", .type = LH_FIELD_BOOLEAN, AT(owner, queue.ecn),                         \
	 .doc = "with codel or fq_codel: packets are marked in place of dropped; all nodes' "   \
		"TCP then asks for it"}

static const struct lh_field cross_fields[] = {
	{.key = "mean", .type = LH_FIELD_RATE, .flags = REQUIRED,
	 AT(struct lh_cross_spec, mean_bps), .min = 8, .max = RATE_MAX,
	 .doc = "of all that others send, on the wire"},
	{.key = "flow", .type = LH_FIELD_SIZE, AT(struct lh_cross_spec, flow_bytes),
	 .fallback = "1 MB", .min = 1000, .max = 1000000000000,
	 .doc = "mean size of a flow; sizes are exponentially distributed, flows begin independently"},
	{.key = "peak", .type = LH_FIELD_RATE, AT(struct lh_cross_spec, peak_bps),
	 .min = 8, .max = RATE_MAX, .doc = "rate of one flow; the bottleneck's where absent"},
	END,
};

static const struct lh_section cross_section = {
	"cross traffic", "What others send through a bottleneck, seeded; it does not react to losses.",
	sizeof(struct lh_cross_spec), LH_NO_OFFSET, NULL, offsetof(struct lh_cross_spec, pos),
	cross_fields,
};

#define CROSS_FIELD(owner)                                                                     \
	{.key = "cross_traffic", .type = LH_FIELD_SECTION, AT(owner, cross),                   \
	 .section = &cross_section,                                                            \
	 .doc = "what others send through it while something runs"}

static const struct lh_field site_link_fields[] = {
	{.key = "bandwidth", .type = LH_FIELD_RATE, .flags = REQUIRED,
	 AT(struct lh_site_link, bandwidth_bps), .min = 8, .max = RATE_MAX,
	 .doc = "of all nodes of the site together, on the wire"},
	QUEUE_FIELDS(struct lh_site_link,
		     "how much waits before the link: a time, bytes or packets"),
	CROSS_FIELD(struct lh_site_link),
	SOURCE(struct lh_site_link),
	END,
};

static const struct lh_section site_link_section = {
	"a site's link", "What the nodes of a site share on the way to or from all others.",
	sizeof(struct lh_site_link), LH_NO_OFFSET, NULL, offsetof(struct lh_site_link, pos),
	site_link_fields,
};

static const struct lh_field site_fields[] = {
	{.key = "provider", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_site, provider),
	 .doc = "who runs the site; prices are looked up by it; on-premise for one's own"},
	{.key = "continent", .type = LH_FIELD_CHOICE, .flags = REQUIRED,
	 AT(struct lh_site, continent), .choices = continents,
	 .doc = "the continent it stands on; decides the egress class"},
	{.key = "region", .type = LH_FIELD_STRING, AT(struct lh_site, region),
	 .doc = "the provider's region"},
	{.key = "zone", .type = LH_FIELD_STRING, AT(struct lh_site, zone),
	 .doc = "the zone in the region"},
	{.key = "uplink", .type = LH_FIELD_SECTION, AT(struct lh_site, uplink),
	 .section = &site_link_section,
	 .doc = "what the nodes of the site share towards all other sites"},
	{.key = "downlink", .type = LH_FIELD_SECTION, AT(struct lh_site, downlink),
	 .section = &site_link_section,
	 .doc = "what the nodes of the site share from all other sites"},
	SOURCE(struct lh_site),
	END,
};

static const struct lh_section site_section = {
	"a site", "A zone, region or on-premise room.", sizeof(struct lh_site),
	offsetof(struct lh_site, name), NULL, LH_NO_OFFSET, site_fields,
};

static const struct lh_field measured_fields[] = {
	{.key = "from", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_measured, from),
	 .doc = "sending site"},
	{.key = "to", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_measured, to),
	 .doc = "receiving site"},
	{.key = "streams", .type = LH_FIELD_INTEGER, AT(struct lh_measured, streams),
	 .fallback = "1", .min = 1, .max = 1000, .doc = "TCP connections at once"},
	{.key = "duration", .type = LH_FIELD_DURATION, AT(struct lh_measured, duration_ns),
	 .fallback = "10 s", .min = 1000000, .max = 3600000000000,
	 .doc = "how long it was measured, slow start included"},
	{.key = "throughput", .type = LH_FIELD_RATE, .flags = REQUIRED,
	 AT(struct lh_measured, throughput_bps), .min = 1,
	 .doc = "mean goodput of all streams together"},
	{.key = "sd", .type = LH_FIELD_RATE, AT(struct lh_measured, sd_bps), .fallback = "0 bit/s",
	 .doc = "standard deviation between repetitions"},
	SOURCE(struct lh_measured),
	END,
};

static const struct lh_section measured_section = {
	"a measurement", "A throughput that was measured on the path.",
	sizeof(struct lh_measured), LH_NO_OFFSET, NULL, LH_NO_OFFSET, measured_fields,
};

static const struct lh_choice jitter_distributions[] = {
	{"normal", LH_JITTER_NORMAL},
	{"pareto", LH_JITTER_PARETO},
	{"paretonormal", LH_JITTER_PARETONORMAL},
	{"uniform", LH_JITTER_UNIFORM},
	{NULL, 0},
};

static const struct lh_field path_fields[] = {
	{.key = "between", .type = LH_FIELD_STRINGS, AT(struct lh_path_spec, between),
	 COUNT(struct lh_path_spec, n_between),
	 .doc = "two sites; the path holds in both directions (twice the same: inside the site)"},
	{.key = "from", .type = LH_FIELD_STRING, AT(struct lh_path_spec, from),
	 .doc = "sending site, where the path holds in one direction"},
	{.key = "to", .type = LH_FIELD_STRING, AT(struct lh_path_spec, to),
	 .doc = "receiving site"},
	{.key = "rtt", .type = LH_FIELD_DURATION, AT(struct lh_path_spec, rtt_ns),
	 .max = DELAY_MAX, .doc = "round-trip time, with `between`"},
	{.key = "delay", .type = LH_FIELD_DURATION, AT(struct lh_path_spec, delay_ns),
	 .max = DELAY_MAX, .doc = "one-way delay, with `from` and `to`"},
	{.key = "bandwidth", .type = LH_FIELD_RATE, .flags = REQUIRED,
	 AT(struct lh_path_spec, bandwidth_bps), .min = 8, .max = RATE_MAX,
	 .doc = "of one pair of nodes in each direction, on the wire"},
	QUEUE_FIELDS(struct lh_path_spec,
		     "how much waits at the bottleneck before packets are dropped: a time, bytes, "
		     "packets, or BDP (bandwidth times round-trip time)"),
	CROSS_FIELD(struct lh_path_spec),
	{.key = "jitter", .type = LH_FIELD_DURATION, AT(struct lh_path_spec, jitter_ns),
	 .max = JITTER_MAX,
	 .doc = "standard deviation of the one-way delay from packet to packet; order is kept"},
	{.key = "jitter_distribution", .type = LH_FIELD_CHOICE,
	 AT(struct lh_path_spec, jitter_distribution), .choices = jitter_distributions,
	 .doc = "how the delay is distributed around its mean; normal where absent"},
	{.key = "jitter_samples", .type = LH_FIELD_STRINGS, .flags = LH_FIELD_OR_FILE,
	 AT(struct lh_path_spec, jitter_samples), COUNT(struct lh_path_spec, n_jitter_samples),
	 .doc = "measured delays, or deviations from their mean, in ms: a CSV file, or the "
		"numbers themselves; their distribution is taken and, without `jitter`, their "
		"standard deviation"},
	{.key = "loss", .type = LH_FIELD_RATIO, AT(struct lh_path_spec, loss_ratio),
	 .doc = "share of packets that are lost on the way, in each direction"},
	{.key = "loss_burst", .type = LH_FIELD_NUMBER, AT(struct lh_path_spec, loss_burst_pkts),
	 .doc = "mean number of packets that are lost in a row, at least 1; without it losses "
		"are independent"},
	{.key = "duplicate", .type = LH_FIELD_RATIO, AT(struct lh_path_spec, duplicate_ratio),
	 .doc = "share of packets that arrive twice"},
	{.key = "corrupt", .type = LH_FIELD_RATIO, AT(struct lh_path_spec, corrupt_ratio),
	 .doc = "share of packets in which one bit is flipped"},
	{.key = "reorder", .type = LH_FIELD_RATIO, AT(struct lh_path_spec, reorder_ratio),
	 .doc = "share of packets that are sent without delay, past all that are on their way"},
	{.key = "stream_window", .type = LH_FIELD_SIZE,
	 AT(struct lh_path_spec, stream_window_bytes), .min = 1,
	 .doc = "bytes in flight that one TCP stream reaches on this path"},
	{.key = "trace", .type = LH_FIELD_SECTION, AT(struct lh_path_spec, trace),
	 .section = &lh_trace_section,
	 .doc = "delay, rate or loss that follow a file, from the start of what runs"},
	SOURCE(struct lh_path_spec),
	{.key = "measured", .type = LH_FIELD_LIST, AT(struct lh_path_spec, measured),
	 COUNT(struct lh_path_spec, n_measured), .section = &measured_section,
	 .doc = "what was measured on the path"},
	END,
};

static const struct lh_section path_section = {
	"a path", "How two sites are connected.", sizeof(struct lh_path_spec), LH_NO_OFFSET, NULL,
	offsetof(struct lh_path_spec, pos), path_fields,
};

static const struct lh_field network_fields[] = {
	VERSION,
	{.key = "network", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_network, name), .doc = "name of the network"},
	{.key = "about", .type = LH_FIELD_STRING, AT(struct lh_network, about),
	 .doc = "one line about it"},
	SOURCE(struct lh_network),
	{.key = "mtu", .type = LH_FIELD_SIZE, AT(struct lh_network, mtu_bytes),
	 .fallback = "1500 B", .min = 576, .max = 65535, .doc = "largest IP packet"},
	{.key = "stream_window", .type = LH_FIELD_SIZE,
	 AT(struct lh_network, stream_window_bytes), .min = 1,
	 .doc = "bytes in flight that one TCP stream reaches, on all paths"},
	{.key = "sites", .type = LH_FIELD_MAP, .flags = REQUIRED, AT(struct lh_network, sites),
	 COUNT(struct lh_network, n_sites), .max = 1000, .section = &site_section, .doc = "sites by name"},
	{.key = "paths", .type = LH_FIELD_LIST, .flags = REQUIRED, AT(struct lh_network, paths),
	 COUNT(struct lh_network, n_paths), .max = 4096, .section = &path_section,
	 .doc = "paths between the sites"},
	END,
};

const struct lh_section lh_network_section = {
	"a network", "Sites and the paths between them.", sizeof(struct lh_network),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, network_fields,
};
