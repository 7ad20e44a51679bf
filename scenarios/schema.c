/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables: every key of every YAML file, once. See docs/formats.md for examples. */
#include "scenarios/schema.h"

#include "scenarios/scenario.h"

#define REQUIRED LH_FIELD_REQUIRED
#define AT(owner, member) .offset = offsetof(owner, member)
#define COUNT(owner, member) .count_offset = offsetof(owner, member)
#define VERSION \
	{.key = "longhaul", .type = LH_FIELD_VERSION, .doc = "version of the file's format: 1"}
#define SOURCE(owner)                                                   \
	{.key = "source", .type = LH_FIELD_STRING, AT(owner, source),    \
	 .doc = "where the values come from"}
#define END {.key = NULL}

static const struct lh_choice continents[] = {
	{"africa", LH_AFRICA},   {"asia", LH_ASIA},
	{"europe", LH_EUROPE},   {"north-america", LH_NORTH_AMERICA},
	{"oceania", LH_OCEANIA}, {"south-america", LH_SOUTH_AMERICA},
	{NULL, 0},
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

#define RATE_MAX 1000000000000 /* 1 Tbit/s */
#define DELAY_MAX 3600000000000 /* 1 h */

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
	{.key = "queue", .type = LH_FIELD_DURATION, AT(struct lh_path_spec, queue_ns),
	 .fallback = "200 ms", .max = DELAY_MAX,
	 .doc = "longest time that a packet waits at the bottleneck before it is dropped"},
	{.key = "stream_window", .type = LH_FIELD_SIZE,
	 AT(struct lh_path_spec, stream_window_bytes), .min = 1,
	 .doc = "bytes in flight that one TCP stream reaches on this path"},
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
	 COUNT(struct lh_network, n_sites), .section = &site_section, .doc = "sites by name"},
	{.key = "paths", .type = LH_FIELD_LIST, .flags = REQUIRED, AT(struct lh_network, paths),
	 COUNT(struct lh_network, n_paths), .section = &path_section,
	 .doc = "paths between the sites"},
	END,
};

const struct lh_section lh_network_section = {
	"a network", "Sites and the paths between them.", sizeof(struct lh_network),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, network_fields,
};

static const struct lh_field nic_fields[] = {
	{.key = "up", .type = LH_FIELD_RATE, .flags = REQUIRED, AT(struct lh_nic, up_bps),
	 .min = 8, .max = RATE_MAX, .doc = "rate of sending, all paths together, on the wire"},
	{.key = "down", .type = LH_FIELD_RATE, .flags = REQUIRED, AT(struct lh_nic, down_bps),
	 .min = 8, .max = RATE_MAX, .doc = "rate of receiving"},
	SOURCE(struct lh_nic),
	END,
};

static const struct lh_section nic_section = {
	"a network card", "Rates of a node's network card.", sizeof(struct lh_nic),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, nic_fields,
};

static const struct lh_choice congestion_controls[] = {
	{"cubic", 0}, {"reno", 0}, {"bbr", 0}, {"dctcp", 0}, {NULL, 0},
};

static const struct lh_field tcp_fields[] = {
	{.key = "congestion_control", .type = LH_FIELD_WORD,
	 AT(struct lh_tcp, congestion_control), .fallback = "cubic",
	 .choices = congestion_controls, .doc = "congestion control of all connections"},
	{.key = "rmem_max", .type = LH_FIELD_SIZE, AT(struct lh_tcp, rmem_max_bytes),
	 .fallback = "6 MiB", .min = 4096, .max = INT32_MAX,
	 .doc = "largest receive buffer (third number of net.ipv4.tcp_rmem)"},
	{.key = "wmem_max", .type = LH_FIELD_SIZE, AT(struct lh_tcp, wmem_max_bytes),
	 .fallback = "16 MiB", .min = 4096, .max = INT32_MAX,
	 .doc = "largest send buffer (third number of net.ipv4.tcp_wmem)"},
	END,
};

static const struct lh_section tcp_section = {
	"TCP settings", "What a node's kernel is set to.", sizeof(struct lh_tcp), LH_NO_OFFSET,
	NULL, LH_NO_OFFSET, tcp_fields,
};

static const struct lh_field host_fields[] = {
	{.key = "accumulate", .type = LH_FIELD_DURATION, AT(struct lh_host_cost, accumulate_ns),
	 .fallback = "0 s", .max = DELAY_MAX,
	 .doc = "time per micro-batch to add its gradients to the sum, beside the profile's"},
	{.key = "averaging_rate", .type = LH_FIELD_RATE, .flags = REQUIRED,
	 AT(struct lh_host_cost, averaging_bps), .min = 1, .max = RATE_MAX,
	 .doc = "sent bits that the host serialises and reduces per second while averaging"},
	{.key = "apply", .type = LH_FIELD_DURATION, AT(struct lh_host_cost, apply_ns),
	 .fallback = "0 s", .max = DELAY_MAX, .doc = "time of the optimizer's step"},
	SOURCE(struct lh_host_cost),
	END,
};

static const struct lh_section host_section = {
	"host costs", "What the host itself costs when it trains a model.",
	sizeof(struct lh_host_cost), offsetof(struct lh_host_cost, name), NULL, LH_NO_OFFSET,
	host_fields,
};

static const struct lh_field machine_fields[] = {
	VERSION,
	{.key = "machine", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_machine, name), .doc = "name of the machine type"},
	{.key = "about", .type = LH_FIELD_STRING, AT(struct lh_machine, about),
	 .doc = "one line about it"},
	{.key = "provider", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_machine, provider), .doc = "who rents it out, or on-premise"},
	{.key = "vcpus", .type = LH_FIELD_INTEGER, AT(struct lh_machine, vcpus), .min = 1,
	 .doc = "virtual CPUs"},
	{.key = "memory", .type = LH_FIELD_SIZE, AT(struct lh_machine, memory_bytes), .min = 1,
	 .doc = "main memory"},
	{.key = "gpu", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_machine, gpu),
	 .doc = "its GPU (or GPUs as one rank): the name of a profile"},
	{.key = "gpus", .type = LH_FIELD_INTEGER, AT(struct lh_machine, gpus), .fallback = "1",
	 .min = 1, .max = 1024, .doc = "number of GPUs behind the one rank"},
	{.key = "nic", .type = LH_FIELD_SECTION, .flags = REQUIRED, AT(struct lh_machine, nic),
	 .section = &nic_section, .doc = "rates of its network card"},
	{.key = "tcp", .type = LH_FIELD_SECTION, AT(struct lh_machine, tcp),
	 .section = &tcp_section, .doc = "TCP settings of its kernel"},
	{.key = "host", .type = LH_FIELD_MAP, .flags = REQUIRED, AT(struct lh_machine, host),
	 COUNT(struct lh_machine, n_host), .section = &host_section,
	 .doc = "host costs by model; `default` for all others"},
	SOURCE(struct lh_machine),
	END,
};

const struct lh_section lh_machine_section = {
	"a machine", "A VM type or server.", sizeof(struct lh_machine),
	offsetof(struct lh_machine, name), "machine", LH_NO_OFFSET, machine_fields,
};

static const struct lh_choice domains[] = {
	{"vision", 0}, {"text", 0}, {"speech", 0}, {"recommendation", 0}, {NULL, 0},
};

static const struct lh_field model_fields[] = {
	VERSION,
	{.key = "model", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_model, name),
	 .doc = "name of the model"},
	{.key = "about", .type = LH_FIELD_STRING, AT(struct lh_model, about),
	 .doc = "one line about it"},
	{.key = "domain", .type = LH_FIELD_WORD, .flags = REQUIRED, AT(struct lh_model, domain),
	 .choices = domains, .doc = "what it works on"},
	{.key = "parameters", .type = LH_FIELD_INTEGER, .flags = REQUIRED,
	 AT(struct lh_model, parameters), .min = 1, .max = 1000000000000,
	 .doc = "number of trained parameters, exact"},
	{.key = "bytes_per_sample", .type = LH_FIELD_SIZE, .flags = REQUIRED,
	 AT(struct lh_model, bytes_per_sample), .doc = "loaded from the data store per sample"},
	{.key = "dataset", .type = LH_FIELD_STRING, AT(struct lh_model, dataset),
	 .doc = "what it was trained on"},
	SOURCE(struct lh_model),
	END,
};

const struct lh_section lh_model_section = {
	"a model", "A neural network as the network sees it.", sizeof(struct lh_model),
	offsetof(struct lh_model, name), "model", LH_NO_OFFSET, model_fields,
};

static const struct lh_field profile_entry_fields[] = {
	{.key = "micro_batch", .type = LH_FIELD_INTEGER, .flags = REQUIRED,
	 AT(struct lh_profile_entry, micro_batch), .min = 1, .max = 1000000000,
	 .doc = "samples per forward and backward pass"},
	{.key = "samples_per_s", .type = LH_FIELD_NUMBER, .flags = REQUIRED,
	 AT(struct lh_profile_entry, samples_per_s), .doc = "wall-clock speed alone"},
	{.key = "variation", .type = LH_FIELD_RATIO,
	 AT(struct lh_profile_entry, variation_ratio), .fallback = "1 %",
	 .doc = "relative standard deviation of a micro-batch's time"},
	{.key = "paper_samples_per_s", .type = LH_FIELD_NUMBER,
	 AT(struct lh_profile_entry, paper_samples_per_s),
	 .doc = "the metric that the paper prints, which misses the wait for the GPU"},
	SOURCE(struct lh_profile_entry),
	END,
};

static const struct lh_section profile_entry_section = {
	"a profile", "Measured speed of one model.", sizeof(struct lh_profile_entry),
	offsetof(struct lh_profile_entry, name), NULL, LH_NO_OFFSET, profile_entry_fields,
};

static const struct lh_field profile_fields[] = {
	VERSION,
	{.key = "profile", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_profile, name), .doc = "name of the GPU"},
	{.key = "about", .type = LH_FIELD_STRING, AT(struct lh_profile, about),
	 .doc = "one line about it"},
	{.key = "models", .type = LH_FIELD_MAP, .flags = REQUIRED, AT(struct lh_profile, models),
	 COUNT(struct lh_profile, n_models), .section = &profile_entry_section,
	 .doc = "speeds by model"},
	END,
};

const struct lh_section lh_profile_section = {
	"a compute profile", "Measured speeds of models on a GPU.", sizeof(struct lh_profile),
	offsetof(struct lh_profile, name), "profile", LH_NO_OFFSET, profile_fields,
};

static const struct lh_field vm_price_fields[] = {
	{.key = "machine", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_vm_price, machine), .doc = "machine type"},
	{.key = "site", .type = LH_FIELD_STRING, AT(struct lh_vm_price, site),
	 .doc = "site where the price holds; everywhere without"},
	{.key = "spot", .type = LH_FIELD_USD_HOUR, AT(struct lh_vm_price, spot_usd_micro_per_h),
	 .doc = "spot price"},
	{.key = "on_demand", .type = LH_FIELD_USD_HOUR,
	 AT(struct lh_vm_price, on_demand_usd_micro_per_h), .doc = "on-demand price"},
	SOURCE(struct lh_vm_price),
	END,
};

static const struct lh_section vm_price_section = {
	"a VM price", "What an hour of a machine costs.", sizeof(struct lh_vm_price),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, vm_price_fields,
};

#define CONTINENT_PRICE(name, index)                                                       \
	{.key = name, .type = LH_FIELD_BYTE_PRICE,                                          \
	 AT(struct lh_inter_region_prices, by_continent[index]), .doc = "between regions of " name}

static const struct lh_field inter_region_fields[] = {
	CONTINENT_PRICE("africa", LH_AFRICA),
	CONTINENT_PRICE("asia", LH_ASIA),
	CONTINENT_PRICE("europe", LH_EUROPE),
	CONTINENT_PRICE("north-america", LH_NORTH_AMERICA),
	CONTINENT_PRICE("oceania", LH_OCEANIA),
	CONTINENT_PRICE("south-america", LH_SOUTH_AMERICA),
	END,
};

static const struct lh_section inter_region_section = {
	"inter-region prices", "Prices between regions of one continent.",
	sizeof(struct lh_inter_region_prices), LH_NO_OFFSET, NULL, LH_NO_OFFSET,
	inter_region_fields,
};

static const struct lh_field egress_fields[] = {
	{.key = "same_zone", .type = LH_FIELD_BYTE_PRICE, AT(struct lh_egress_prices, same_zone),
	 .fallback = "0 USD/GB", .doc = "inside a zone"},
	{.key = "inter_zone", .type = LH_FIELD_BYTE_PRICE,
	 AT(struct lh_egress_prices, inter_zone), .doc = "between zones of a region"},
	{.key = "inter_region", .type = LH_FIELD_SECTION,
	 AT(struct lh_egress_prices, inter_region), .section = &inter_region_section,
	 .doc = "between regions of a continent, by continent"},
	{.key = "inter_continent", .type = LH_FIELD_BYTE_PRICE,
	 AT(struct lh_egress_prices, inter_continent), .doc = "between continents"},
	{.key = "oceania", .type = LH_FIELD_BYTE_PRICE, AT(struct lh_egress_prices, oceania),
	 .doc = "between Oceania and any other continent"},
	SOURCE(struct lh_egress_prices),
	END,
};

static const struct lh_section egress_section = {
	"egress prices", "What a provider charges for data sent.", sizeof(struct lh_egress_prices),
	offsetof(struct lh_egress_prices, name), NULL, LH_NO_OFFSET, egress_fields,
};

static const struct lh_field storage_fields[] = {
	{.key = "egress", .type = LH_FIELD_BYTE_PRICE, .flags = REQUIRED,
	 AT(struct lh_storage_price, egress), .doc = "for data read"},
	{.key = "storage", .type = LH_FIELD_BYTE_PRICE,
	 AT(struct lh_storage_price, storage_per_month), .doc = "for data kept, per month"},
	SOURCE(struct lh_storage_price),
	END,
};

static const struct lh_section storage_section = {
	"a storage price", "What a data store charges.", sizeof(struct lh_storage_price),
	offsetof(struct lh_storage_price, name), NULL, LH_NO_OFFSET, storage_fields,
};

static const struct lh_field prices_fields[] = {
	VERSION,
	{.key = "prices", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_prices, name),
	 .doc = "name of the catalog"},
	{.key = "date", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_prices, date),
	 .doc = "when the prices held"},
	SOURCE(struct lh_prices),
	{.key = "vm", .type = LH_FIELD_LIST, AT(struct lh_prices, vm), COUNT(struct lh_prices, n_vm),
	 .section = &vm_price_section, .doc = "machines"},
	{.key = "egress", .type = LH_FIELD_MAP, AT(struct lh_prices, egress),
	 COUNT(struct lh_prices, n_egress), .section = &egress_section,
	 .doc = "data sent, by provider of the sending site"},
	{.key = "storage", .type = LH_FIELD_MAP, AT(struct lh_prices, storage),
	 COUNT(struct lh_prices, n_storage), .section = &storage_section, .doc = "data stores"},
	END,
};

const struct lh_section lh_prices_section = {
	"a price catalog", "Prices of a day.", sizeof(struct lh_prices), LH_NO_OFFSET, NULL,
	LH_NO_OFFSET, prices_fields,
};

static const struct lh_field node_fields[] = {
	{.key = "site", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_node_spec, site),
	 .doc = "where the nodes stand: a site of the network"},
	{.key = "count", .type = LH_FIELD_INTEGER, AT(struct lh_node_spec, count),
	 .fallback = "1", .min = 1, .max = 256, .doc = "how many"},
	{.key = "machine", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_node_spec, machine), .doc = "machine type"},
	END,
};

static const struct lh_section node_section = {
	"nodes", "Nodes of one kind at one site.", sizeof(struct lh_node_spec), LH_NO_OFFSET, NULL,
	offsetof(struct lh_node_spec, pos), node_fields,
};

/* A test holds this list and the trainer's table of strategies together. */
static const struct lh_choice strategies[] = {
	{"butterfly", 0},
	{NULL, 0},
};

static const struct lh_field strategy_fields[] = {
	{.key = "kind", .type = LH_FIELD_WORD, .flags = REQUIRED,
	 AT(struct lh_strategy_spec, kind), .choices = strategies,
	 .doc = "how the ranks synchronise"},
	{.key = "matchmaking", .type = LH_FIELD_DURATION,
	 AT(struct lh_strategy_spec, matchmaking_ns), .fallback = "5 s", .max = DELAY_MAX,
	 .doc = "least time that forming a group takes, beside computing"},
	{.key = "delayed_update", .type = LH_FIELD_BOOLEAN,
	 AT(struct lh_strategy_spec, delayed_update), .fallback = "true",
	 .doc = "the optimizer's step runs beside the next epoch's computing"},
	END,
};

static const struct lh_section strategy_section = {
	"a strategy", "How the ranks synchronise.", sizeof(struct lh_strategy_spec), LH_NO_OFFSET,
	NULL, LH_NO_OFFSET, strategy_fields,
};

static const struct lh_choice modes[] = {{"replay", LH_MODE_REPLAY}, {NULL, 0}};

/* A test holds this list and the trainer's table of compressors together. */
static const struct lh_choice compressors[] = {{"fp16", 0}, {"none", 0}, {NULL, 0}};

static const struct lh_field workload_fields[] = {
	{.key = "model", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_workload, model), .doc = "what is trained: a model of the catalog"},
	{.key = "mode", .type = LH_FIELD_CHOICE, AT(struct lh_workload, mode),
	 .fallback = "replay", .choices = modes,
	 .doc = "replay: measured compute times and the model's true bytes"},
	{.key = "target_batch", .type = LH_FIELD_INTEGER, .flags = REQUIRED,
	 AT(struct lh_workload, target_batch), .min = 1, .max = 1000000000000,
	 .doc = "samples that all ranks accumulate before they average"},
	{.key = "micro_batch", .type = LH_FIELD_INTEGER, AT(struct lh_workload, micro_batch),
	 .min = 1, .max = 1000000000,
	 .doc = "samples per pass; the profile's where absent"},
	{.key = "strategy", .type = LH_FIELD_SECTION, .flags = REQUIRED,
	 AT(struct lh_workload, strategy), .section = &strategy_section,
	 .doc = "how the ranks synchronise"},
	{.key = "compress", .type = LH_FIELD_WORD, AT(struct lh_workload, compress),
	 .fallback = "fp16", .choices = compressors, .doc = "form of the gradients on the wire"},
	{.key = "epochs", .type = LH_FIELD_INTEGER, AT(struct lh_workload, epochs),
	 .fallback = "4", .min = 1, .max = 1000000, .doc = "rounds of target_batch samples"},
	END,
};

static const struct lh_section workload_section = {
	"a workload", "What the nodes do.", sizeof(struct lh_workload), LH_NO_OFFSET, NULL,
	LH_NO_OFFSET, workload_fields,
};

static const struct lh_field data_fields[] = {
	{.key = "store", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_data_spec, store),
	 .doc = "where samples are loaded from: a storage of the price catalog"},
	END,
};

static const struct lh_section data_section = {
	"data", "Where samples come from; priced, not emulated.", sizeof(struct lh_data_spec),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, data_fields,
};

static const struct lh_choice vm_pricings[] = {
	{"spot", LH_VM_SPOT}, {"on-demand", LH_VM_ON_DEMAND}, {NULL, 0},
};

static const struct lh_field pricing_fields[] = {
	{.key = "catalog", .type = LH_FIELD_SECTION, .flags = REQUIRED,
	 AT(struct lh_pricing, catalog), .section = &lh_prices_section,
	 .doc = "a price catalog: a file, or the mapping itself"},
	{.key = "vm", .type = LH_FIELD_CHOICE, AT(struct lh_pricing, vm), .fallback = "spot",
	 .choices = vm_pricings, .doc = "the VM price that summaries use"},
	END,
};

static const struct lh_section pricing_section = {
	"pricing", "What things cost.", sizeof(struct lh_pricing), LH_NO_OFFSET, NULL,
	LH_NO_OFFSET, pricing_fields,
};

static const struct lh_choice clocks[] = {
	{"virtual", LH_CLOCK_VIRTUAL}, {"real", LH_CLOCK_REAL}, {NULL, 0},
};
static const struct lh_choice backends[] = {
	{"auto", LH_BACKEND_AUTO}, {"host", LH_BACKEND_HOST}, {"guest", LH_BACKEND_GUEST},
	{NULL, 0},
};
static const struct lh_choice segment_kinds[] = {
	{"mtu", LH_SEGMENTS_MTU}, {"coarse", LH_SEGMENTS_COARSE}, {NULL, 0},
};
static const struct lh_choice probes[] = {
	{"short", LH_PROBE_SHORT}, {"full", LH_PROBE_FULL}, {NULL, 0},
};

static const struct lh_field run_fields[] = {
	{.key = "clock", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, clock),
	 .fallback = "virtual", .choices = clocks,
	 .doc = "virtual: faster than real time and repeatable; real: as it comes"},
	{.key = "backend", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, backend),
	 .fallback = "auto", .choices = backends,
	 .doc = "whose kernel: the host's (real clock only), the guest's, or what fits"},
	{.key = "seed", .type = LH_FIELD_INTEGER, AT(struct lh_run_spec, seed), .fallback = "1",
	 .doc = "seed of everything random"},
	{.key = "segments", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, segments),
	 .fallback = "mtu", .choices = segment_kinds,
	 .doc = "mtu: packets of the network's size; coarse: large ones, faster to emulate"},
	{.key = "probe", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, probe),
	 .fallback = "short", .choices = probes,
	 .doc = "short: as long as a verdict needs; full: as the figures were measured"},
	{.key = "guest_memory", .type = LH_FIELD_SIZE,
	 AT(struct lh_run_spec, guest_memory_bytes), .fallback = "8 GiB", .min = 268435456,
	 .max = 1099511627776, .doc = "memory of the guest, taken as it is touched"},
	END,
};

static const struct lh_section run_section = {
	"run", "How it is run.", sizeof(struct lh_run_spec), LH_NO_OFFSET, NULL, LH_NO_OFFSET,
	run_fields,
};

static const struct lh_field published_fields[] = {
	{.key = "throughput_sps", .type = LH_FIELD_NUMBER,
	 AT(struct lh_published, throughput_sps), .doc = "samples per second, wall clock"},
	{.key = "granularity", .type = LH_FIELD_NUMBER, AT(struct lh_published, granularity),
	 .doc = "(epoch wall - communication) / communication"},
	{.key = "comm_s", .type = LH_FIELD_NUMBER, AT(struct lh_published, comm_s),
	 .doc = "seconds of communication per epoch"},
	SOURCE(struct lh_published),
	END,
};

const struct lh_section lh_published_section = {
	"published figures", "What others measured; shown beside ours.",
	sizeof(struct lh_published), LH_NO_OFFSET, NULL, LH_NO_OFFSET, published_fields,
};

static const struct lh_field scenario_fields[] = {
	{.key = "longhaul", .type = LH_FIELD_VERSION, .flags = REQUIRED,
	 .doc = "version of the file's format: 1"},
	{.key = "name", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_scenario, name),
	 .doc = "name of the scenario"},
	{.key = "about", .type = LH_FIELD_STRING, AT(struct lh_scenario, about),
	 .doc = "one line about it"},
	{.key = "network", .type = LH_FIELD_SECTION, .flags = REQUIRED,
	 AT(struct lh_scenario, network), .section = &lh_network_section,
	 .doc = "sites and paths: a file, or the mapping itself"},
	{.key = "nodes", .type = LH_FIELD_LIST, .flags = REQUIRED,
	 AT(struct lh_scenario, node_specs), COUNT(struct lh_scenario, n_node_specs),
	 .section = &node_section, .doc = "what stands where"},
	{.key = "workload", .type = LH_FIELD_SECTION, .flags = REQUIRED,
	 AT(struct lh_scenario, workload), .section = &workload_section,
	 .doc = "what the nodes do"},
	{.key = "data", .type = LH_FIELD_SECTION, AT(struct lh_scenario, data),
	 .section = &data_section, .doc = "where samples come from"},
	{.key = "pricing", .type = LH_FIELD_SECTION, AT(struct lh_scenario, pricing),
	 .section = &pricing_section, .doc = "what things cost; no costs without"},
	{.key = "run", .type = LH_FIELD_SECTION, AT(struct lh_scenario, run),
	 .section = &run_section, .doc = "how it is run"},
	{.key = "published", .type = LH_FIELD_SECTION, AT(struct lh_scenario, published),
	 .section = &lh_published_section, .doc = "what others measured"},
	{.key = "machines", .type = LH_FIELD_MAP, AT(struct lh_scenario, machines),
	 COUNT(struct lh_scenario, n_machines), .section = &lh_machine_section,
	 .doc = "machine types by name, beside those of the catalog"},
	{.key = "models", .type = LH_FIELD_MAP, AT(struct lh_scenario, models),
	 COUNT(struct lh_scenario, n_models), .section = &lh_model_section,
	 .doc = "models by name, beside those of the catalog"},
	{.key = "profiles", .type = LH_FIELD_MAP, AT(struct lh_scenario, profiles),
	 COUNT(struct lh_scenario, n_profiles), .section = &lh_profile_section,
	 .doc = "compute profiles by GPU, beside those of the catalog"},
	END,
};

const struct lh_section lh_scenario_section = {
	"a scenario", "A network, the nodes in it, and what they do.",
	sizeof(struct lh_scenario), LH_NO_OFFSET, NULL, LH_NO_OFFSET, scenario_fields,
};

static const struct lh_field suite_fields[] = {
	{.key = "longhaul", .type = LH_FIELD_VERSION, .flags = REQUIRED,
	 .doc = "version of the file's format: 1"},
	{.key = "suite", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_suite_file, name), .doc = "name of the suite"},
	{.key = "about", .type = LH_FIELD_STRING, AT(struct lh_suite_file, about),
	 .doc = "one line about it"},
	SOURCE(struct lh_suite_file),
	{.key = "base", .type = LH_FIELD_TREE, AT(struct lh_suite_file, base),
	 .doc = "keys of a scenario, merged under every experiment"},
	{.key = "workloads", .type = LH_FIELD_TREE, .flags = REQUIRED,
	 AT(struct lh_suite_file, workloads), .doc = "workloads by name"},
	{.key = "groups", .type = LH_FIELD_TREE, .flags = REQUIRED,
	 AT(struct lh_suite_file, groups),
	 .doc = "list of {workloads, placements}: each with each is an experiment"},
	{.key = "published", .type = LH_FIELD_TREE, AT(struct lh_suite_file, published),
	 .doc = "published figures by experiment"},
	END,
};

const struct lh_section lh_suite_section = {
	"a suite", "Experiments as placements x workloads.", sizeof(struct lh_suite_file),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, suite_fields,
};
