/* SPDX-License-Identifier: Apache-2.0 */
/* The field tables of scenarios and suites. See docs/formats.md for examples. */
#include "scenarios/schema_internal.h"
#include "scenarios/strategy_kinds.h"
#include "scenarios/trace.h"

/* clang-format off */

static const struct lh_field node_fields[] = {
	{.key = "site", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_node_spec, site),
	 .doc = "where the nodes stand: a site of the network"},
	{.key = "count", .type = LH_FIELD_INTEGER, AT(struct lh_node_spec, count),
	 .fallback = "1", .min = 1, .max = 256, .doc = "how many"},
	{.key = "machine", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_node_spec, machine), .doc = "machine type"},
	{.key = "joins_at", .type = LH_FIELD_DURATION, AT(struct lh_node_spec, joins_at_ns),
	 .max = LH_TRACE_LENGTH_MAX_NS,
	 .doc = "when they are there, counted from the start of the others; from the start on where "
		"absent"},
	END,
};

static const struct lh_section node_section = {
	"nodes", "Nodes of one kind at one site.", sizeof(struct lh_node_spec), LH_NO_OFFSET, NULL,
	offsetof(struct lh_node_spec, pos), node_fields,
};

static const struct lh_choice modes[] = {
	{"replay", LH_MODE_REPLAY}, {"train", LH_MODE_TRAIN}, {NULL, 0},
};

static const struct lh_field speed_fields[] = {
	{.key = "samples_per_s", .type = LH_FIELD_NUMBER, .flags = REQUIRED,
	 AT(struct lh_profile_entry, samples_per_s),
	 .doc = "wall-clock speed of one node alone, the host's part in it"},
	{.key = "variation", .type = LH_FIELD_RATIO,
	 AT(struct lh_profile_entry, variation_ratio), .fallback = "1 %",
	 .doc = "relative standard deviation of a micro-batch's time, at most 33 %"},
	END,
};

static const struct lh_section speed_section = {
	"a speed", "How fast every node computes.", sizeof(struct lh_profile_entry), LH_NO_OFFSET,
	NULL, LH_NO_OFFSET, speed_fields,
};

static const struct lh_choice transports[] = {{"tcp", 0}, {"nccl", 0}, {NULL, 0}};

static const struct lh_field workload_fields[] = {
	{.key = "model", .type = LH_FIELD_STRING, .flags = REQUIRED,
	 AT(struct lh_workload, model), .doc = "what is trained: a model of the catalog"},
	{.key = "mode", .type = LH_FIELD_CHOICE, AT(struct lh_workload, mode),
	 .fallback = "replay", .choices = modes,
	 .doc = "replay: measured compute times and the model's true bytes; train: the same, and the "
		"model really learns"},
	{.key = "train", .type = LH_FIELD_SECTION, AT(struct lh_workload, train),
	 .section = &lh_train_section, .doc = "of mode train: what is learnt, from what, and how"},
	{.key = "compute", .type = LH_FIELD_SECTION, AT(struct lh_workload, speed),
	 .section = &speed_section,
	 .doc = "how fast every node computes, in place of profiles; needs micro_batch"},
	{.key = "target_batch", .type = LH_FIELD_INTEGER, .flags = REQUIRED,
	 AT(struct lh_workload, target_batch), .min = 1, .max = 1000000000,
	 .doc = "samples that all ranks accumulate before they average"},
	{.key = "micro_batch", .type = LH_FIELD_INTEGER, AT(struct lh_workload, micro_batch),
	 .min = 1, .max = 1000000,
	 .doc = "samples per pass; the profile's where absent"},
	{.key = "strategy", .type = LH_FIELD_SECTION, .flags = REQUIRED,
	 AT(struct lh_workload, strategy), .section = &lh_strategy_section,
	 .doc = "how the ranks synchronise"},
	{.key = "compress", .type = LH_FIELD_SECTION, .flags = LH_FIELD_OR_KIND,
	 AT(struct lh_workload, compress), .section = &lh_compress_section, .fallback = "fp16",
	 .doc = "form of the gradients on the wire: a kind, or a mapping with its parameters"},
	{.key = "transport", .type = LH_FIELD_WORD, AT(struct lh_workload, transport),
	 .fallback = "tcp", .choices = transports,
	 .doc = "what carries the gradients: TCP connections of the trainers' own, or NCCL between "
		"GPUs (strategy ring, compress none, train: {device: cuda})"},
	{.key = "epochs", .type = LH_FIELD_INTEGER, AT(struct lh_workload, epochs),
	 .fallback = "4", .min = 1, .max = 1000000, .doc = "rounds of target_batch samples"},
	{.key = "ranks_per_node", .type = LH_FIELD_INTEGER,
	 AT(struct lh_workload, ranks_per_node), .min = 1, .max = 512,
	 .doc = "trainers in a node, each with one of its GPUs; as many GPUs as a machine with an inner network has, "
		"else 1, if absent"},
	END,
};

static const struct lh_section workload_section = {
	"a workload without a command", "What the nodes do.", sizeof(struct lh_workload), LH_NO_OFFSET, NULL,
	LH_NO_OFFSET, workload_fields,
};

static const struct lh_choice progress_ofs[] = {
	{"rank", LH_PROGRESS_OF_RANK}, {"group", LH_PROGRESS_OF_GROUP}, {NULL, 0},
};

static const struct lh_field progress_fields[] = {
	{.key = "pattern", .type = LH_FIELD_STRING, AT(struct lh_progress_spec, pattern),
	 .doc = "regular expression (PCRE2) that finds a report in what the program says, such as "
		"'epoch (?<epoch>\\d+): (?<samples>\\d+) samples'"},
	{.key = "file", .type = LH_FIELD_STRING, AT(struct lh_progress_spec, file),
	 .doc = "the file, each node's own, to which the program appends reports as JSON Lines"},
	{.key = "samples", .type = LH_FIELD_INTEGER, AT(struct lh_progress_spec, samples),
	 .min = 1, .max = 1000000000000, .doc = "samples of a report that does not say"},
	{.key = "of", .type = LH_FIELD_CHOICE, AT(struct lh_progress_spec, of),
	 .choices = progress_ofs,
	 .doc = "rank (if absent): reports are of the rank that makes them; group: of all ranks, "
		"and those of the lowest rank that makes any count"},
	{.key = "warm_up", .type = LH_FIELD_INTEGER, AT(struct lh_progress_spec, warm_up),
	 .min = 0, .max = 1000000, .doc = "epochs at the begin that are left out of all tables; 0 "
		"if absent"},
	END,
};

static const struct lh_section progress_section = {
	"progress", "How a program's progress is read: pattern or file.",
	sizeof(struct lh_progress_spec), LH_NO_OFFSET, NULL, LH_NO_OFFSET, progress_fields,
};

static const struct lh_field command_fields[] = {
	{.key = "command", .type = LH_FIELD_STRINGS, .flags = REQUIRED,
	 AT(struct lh_workload, command), COUNT(struct lh_workload, n_command),
	 .doc = "a program and its arguments, which every node runs"},
	{.key = "folder", .type = LH_FIELD_STRING, AT(struct lh_workload, folder),
	 .doc = "the folder that it starts in, seen from this file; the current one if absent"},
	{.key = "progress", .type = LH_FIELD_SECTION, AT(struct lh_workload, progress),
	 .section = &progress_section, .doc = "how its progress is read"},
	{.key = "bytes_per_sample", .type = LH_FIELD_SIZE,
	 AT(struct lh_workload, bytes_per_sample), .min = 1,
	 .doc = "loaded from the data store; prices loading"},
	{.key = "stop_after", .type = LH_FIELD_DURATION, AT(struct lh_workload, stop_after_ns),
	 .min = 1, .doc = "the programs are ended then, by the run's clock: no failure"},
	{.key = "time_limit", .type = LH_FIELD_DURATION, AT(struct lh_workload, time_limit_ns),
	 .min = 1, .doc = "the run fails then, by the run's clock"},
	{.key = "ranks_per_node", .type = LH_FIELD_INTEGER,
	 AT(struct lh_workload, ranks_per_node), .min = 1, .max = 512,
	 .doc = "programs in a node, each with one of its GPUs; as many GPUs as a machine with an inner network has, "
		"else 1, if absent"},
	END,
};

static const struct lh_section command_section = {
	"a workload with a command", "A program that the nodes run.", sizeof(struct lh_workload),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, command_fields,
};

static const struct lh_field data_at_fields[] = {
	{.key = "site", .type = LH_FIELD_STRING, .flags = REQUIRED, AT(struct lh_data_at, site),
	 .doc = "where they lie: a site of the network with nodes"},
	{.key = "share", .type = LH_FIELD_RATIO, .flags = REQUIRED | LH_FIELD_ABOVE_0,
	 AT(struct lh_data_at, share_ratio), .doc = "of all samples; together 100 %"},
	END,
};

static const struct lh_section data_at_section = {
	"data.at", "Data that lie at a site.", sizeof(struct lh_data_at), LH_NO_OFFSET, NULL,
	offsetof(struct lh_data_at, pos), data_at_fields,
};

static const struct lh_field data_fields[] = {
	{.key = "store", .type = LH_FIELD_STRING, AT(struct lh_data_spec, store),
	 .doc = "where samples are loaded from: a storage of the price catalog; loading costs "
		"nothing where absent"},
	{.key = "at", .type = LH_FIELD_LIST, AT(struct lh_data_spec, at),
	 COUNT(struct lh_data_spec, n_at), .section = &data_at_section,
	 .doc = "where samples lie: each site computes on its own, so much of the target batch "
		"(strategy parameter-server)"},
	END,
};

static const struct lh_section data_section = {
	"data", "Where samples come from.", sizeof(struct lh_data_spec),
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
static const struct lh_choice node_places[] = {
	{"guest", LH_NODES_GUEST}, {"host", LH_NODES_HOST}, {NULL, 0},
};
static const struct lh_choice segment_kinds[] = {
	{"mtu", LH_SEGMENTS_MTU}, {"coarse", LH_SEGMENTS_COARSE}, {NULL, 0},
};
static const struct lh_choice probes[] = {
	{"short", LH_PROBE_SHORT}, {"full", LH_PROBE_FULL}, {"none", LH_PROBE_NONE}, {NULL, 0},
};

static const struct lh_field capture_fields[] = {
	{.key = "where", .type = LH_FIELD_STRINGS, .flags = REQUIRED,
	 AT(struct lh_capture_spec, where), COUNT(struct lh_capture_spec, n_where),
	 .doc = "links and paths: a node (SITE/N), two sites or nodes with a comma between, or all"},
	{.key = "snaplen", .type = LH_FIELD_SIZE, AT(struct lh_capture_spec, snaplen_bytes),
	 .fallback = "128 B", .min = 64, .max = 262144,
	 .doc = "bytes kept of each packet; the default holds all headers of TCP over IP"},
	{.key = "max_bytes", .type = LH_FIELD_SIZE, AT(struct lh_capture_spec, max_bytes),
	 .fallback = "1 GiB", .min = 1000, .max = 1099511627776,
	 .doc = "bound on each file; what comes after is counted, not kept"},
	END,
};

static const struct lh_section capture_section = {
	"a capture", "Packets to keep, in files that tcpdump and Wireshark read.",
	sizeof(struct lh_capture_spec), LH_NO_OFFSET, NULL, LH_NO_OFFSET, capture_fields,
};

static const struct lh_field fitness_fields[] = {
	{.key = "timer_lateness", .type = LH_FIELD_DURATION,
	 AT(struct lh_fitness_spec, timer_lateness_ns), .fallback = "1 ms", .max = 3600000000000,
	 .doc = "how late one in a hundred sleeps may end; 0 s: any"},
	{.key = "rate_headroom", .type = LH_FIELD_NUMBER,
	 AT(struct lh_fitness_spec, rate_headroom), .fallback = "2",
	 .doc = "how many times the largest rate asked for the machine must carry; 0: any"},
	END,
};

static const struct lh_section fitness_section = {
	"fitness", "What the machine must reach for its real clock to be believed.",
	sizeof(struct lh_fitness_spec), LH_NO_OFFSET, NULL, LH_NO_OFFSET, fitness_fields,
};

static const struct lh_field run_fields[] = {
	{.key = "clock", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, clock),
	 .fallback = "virtual", .choices = clocks,
	 .doc = "virtual: faster than real time and repeatable; real: as it comes"},
	{.key = "backend", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, backend),
	 .fallback = "auto", .choices = backends,
	 .doc = "whose kernel: the host's (real clock only), the guest's, or what fits"},
	{.key = "nodes", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, nodes),
	 .fallback = "guest", .choices = node_places,
	 .doc = "where nodes and their programs are: in the kernel that emulates the network, or "
		"on the host (real clock only), the guest being the network alone"},
	{.key = "fitness", .type = LH_FIELD_SECTION, AT(struct lh_run_spec, fitness),
	 .section = &fitness_section,
	 .doc = "what the machine must reach for its real clock to be believed"},
	{.key = "seed", .type = LH_FIELD_INTEGER, AT(struct lh_run_spec, seed), .fallback = "1",
	 .doc = "seed of everything random"},
	{.key = "segments", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, segments),
	 .fallback = "mtu", .choices = segment_kinds,
	 .doc = "mtu: packets of the network's size; coarse: large ones, faster to emulate"},
	{.key = "probe", .type = LH_FIELD_CHOICE, AT(struct lh_run_spec, probe),
	 .fallback = "short", .choices = probes,
	 .doc = "short: as long as a verdict needs; full: as the figures were measured; none: "
		"not at all, where the workload is a command"},
	{.key = "charge_cpu", .type = LH_FIELD_BOOLEAN, AT(struct lh_run_spec, charge_cpu),
	 .doc = "true: CPU time passes in virtual time, and runs do not repeat exactly; false if "
		"absent"},
	{.key = "guest_memory", .type = LH_FIELD_SIZE,
	 AT(struct lh_run_spec, guest_memory_bytes), .fallback = "8 GiB", .min = 268435456,
	 .max = 1099511627776, .doc = "memory of the guest, taken as it is touched"},
	{.key = "capture", .type = LH_FIELD_SECTION, AT(struct lh_run_spec, capture),
	 .section = &capture_section, .doc = "packets to keep; none without"},
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
	 AT(struct lh_scenario, node_specs), COUNT(struct lh_scenario, n_node_specs), .max = 1000,
	 .section = &node_section, .doc = "what stands where"},
	{.key = "workload", .type = LH_FIELD_SECTION, .flags = REQUIRED,
	 AT(struct lh_scenario, workload), .section = &workload_section,
	 .other = &command_section, .other_key = "command", .doc = "what the nodes do"},
	{.key = "data", .type = LH_FIELD_SECTION, AT(struct lh_scenario, data),
	 .section = &data_section, .doc = "where samples come from"},
	{.key = "pricing", .type = LH_FIELD_SECTION, AT(struct lh_scenario, pricing),
	 .section = &pricing_section, .doc = "what things cost; no costs without"},
	{.key = "run", .type = LH_FIELD_SECTION, AT(struct lh_scenario, run),
	 .section = &run_section, .doc = "how it is run"},
	{.key = "timeline", .type = LH_FIELD_LIST, AT(struct lh_scenario, events),
	 COUNT(struct lh_scenario, n_events), .max = 1000, .section = &lh_event_section,
	 .doc = "what changes while it runs"},
	{.key = "spot", .type = LH_FIELD_SECTION, AT(struct lh_scenario, spot),
	 .section = &lh_spot_section, .doc = "interruptions of spot VMs; none without"},
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
	{.key = "claims", .type = LH_FIELD_LIST, AT(struct lh_suite_file, claims),
	 COUNT(struct lh_suite_file, n_claims), .max = 100, .section = &lh_claim_section,
	 .doc = "what a paper claims, and the experiments that speak to it"},
	{.key = "unknown", .type = LH_FIELD_LIST, AT(struct lh_suite_file, unknown),
	 COUNT(struct lh_suite_file, n_unknown), .max = 100, .section = &lh_unknown_section,
	 .doc = "settings that are not known"},
	{.key = "sweep", .type = LH_FIELD_SECTION, AT(struct lh_suite_file, sweep),
	 .section = &lh_sweep_section, .doc = "a figure of experiments"},
	END,
};

const struct lh_section lh_suite_section = {
	"a suite", "Experiments as placements x workloads.", sizeof(struct lh_suite_file),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, suite_fields,
};
