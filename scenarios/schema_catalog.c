/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of machines, models, profiles and prices. See docs/formats.md. */
#include "scenarios/schema_internal.h"

/* clang-format off */

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

static const struct lh_field inner_fields[] = {
	{.key = "bandwidth", .type = LH_FIELD_RATE, .flags = REQUIRED,
	 AT(struct lh_inner, bandwidth_bps), .min = 1000000, .max = INNER_RATE_MAX,
	 .doc = "of each GPU, in each direction, to all others together"},
	{.key = "delay", .type = LH_FIELD_DURATION, .flags = REQUIRED,
	 AT(struct lh_inner, delay_ns), .max = 1000000000,
	 .doc = "one way, from one GPU to another"},
	SOURCE(struct lh_inner),
	END,
};

static const struct lh_section inner_section = {
	"an inner network", "What connects the GPUs of one machine, such as NVLink.",
	sizeof(struct lh_inner), LH_NO_OFFSET, NULL, LH_NO_OFFSET, inner_fields,
};

static const struct lh_choice congestion_controls[] = {
	{"cubic", 0}, {"reno", 0}, {"bbr", 0}, {NULL, 0},
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
	 .fallback = "0 s", .max = DELAY_MAX, .doc = "time of the optimizer's step; with a delayed update it runs beside computing"},
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
	{.key = "gpu", .type = LH_FIELD_STRING, AT(struct lh_machine, gpu),
	 .doc = "its GPU (or GPUs as one rank): the name of a profile; needed to replay a model"},
	{.key = "gpus", .type = LH_FIELD_INTEGER, AT(struct lh_machine, gpus), .fallback = "1",
	 .min = 1, .max = 1024,
	 .doc = "number of GPUs: behind one rank or, with an inner network, a rank each"},
	{.key = "nic", .type = LH_FIELD_SECTION, .flags = REQUIRED, AT(struct lh_machine, nic),
	 .section = &nic_section, .doc = "rates of its network card"},
	{.key = "inner", .type = LH_FIELD_SECTION, AT(struct lh_machine, inner),
	 .section = &inner_section,
	 .doc = "the network between its GPUs; each of them is a rank then"},
	{.key = "tcp", .type = LH_FIELD_SECTION, AT(struct lh_machine, tcp),
	 .section = &tcp_section, .doc = "TCP settings of its kernel"},
	{.key = "host", .type = LH_FIELD_MAP, AT(struct lh_machine, host),
	 COUNT(struct lh_machine, n_host), .section = &host_section,
	 .doc = "host costs by model; `default` for all others; needed to replay a model"},
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
	 AT(struct lh_profile_entry, micro_batch), .min = 1, .max = 1000000,
	 .doc = "samples per forward and backward pass"},
	{.key = "samples_per_s", .type = LH_FIELD_NUMBER, .flags = REQUIRED,
	 AT(struct lh_profile_entry, samples_per_s), .doc = "wall-clock speed alone"},
	{.key = "variation", .type = LH_FIELD_RATIO,
	 AT(struct lh_profile_entry, variation_ratio), .fallback = "1 %",
	 .doc = "relative standard deviation of a micro-batch's time, at most 33 %"},
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
	 AT(struct lh_storage_price, storage_per_month), .doc = "for data kept, per month; recorded, not charged to a run"},
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
