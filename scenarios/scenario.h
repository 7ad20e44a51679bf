/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scenario: what the user asks for, with every catalog value that it uses. Read from
 * YAML (or from the JSON that lh_scenario_dump writes, which is YAML too) and checked as
 * a whole; plain data afterwards. The keys are documented by the field tables in schema.c.
 */
#ifndef LH_SCENARIOS_SCENARIO_H
#define LH_SCENARIOS_SCENARIO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/units.h"
#include "scenarios/claims.h"

enum lh_clock { LH_CLOCK_VIRTUAL, LH_CLOCK_REAL };
enum lh_backend { LH_BACKEND_AUTO, LH_BACKEND_HOST, LH_BACKEND_GUEST };
enum lh_nodes { LH_NODES_GUEST, LH_NODES_HOST };

enum {
	LH_HOST_NODES_MAX = 64
}; /* with LH_NODES_HOST: a guest is told so many on its command line */
enum lh_segments { LH_SEGMENTS_MTU, LH_SEGMENTS_COARSE };
enum lh_probe { LH_PROBE_SHORT, LH_PROBE_FULL, LH_PROBE_NONE };
enum lh_vm_pricing { LH_VM_SPOT, LH_VM_ON_DEMAND };
enum lh_mode { LH_MODE_REPLAY, LH_MODE_TRAIN };

enum lh_continent {
	LH_AFRICA,
	LH_ASIA,
	LH_EUROPE,
	LH_NORTH_AMERICA,
	LH_OCEANIA,
	LH_SOUTH_AMERICA,
	LH_N_CONTINENTS,
};

enum lh_jitter_distribution {
	LH_JITTER_NORMAL,
	LH_JITTER_PARETO,
	LH_JITTER_PARETONORMAL,
	LH_JITTER_UNIFORM,
	LH_JITTER_EMPIRICAL, /* not a name that can be written: samples are given */
};

enum lh_queue_discipline { LH_DROP_TAIL, LH_CODEL, LH_FQ_CODEL };

struct lh_yaml;

/* What waits at a bottleneck, and which packets are dropped or marked. */
struct lh_queue_spec {
	struct lh_queue_size size;
	int discipline;	     /* enum lh_queue_discipline */
	int64_t target_ns;   /* of an AQM; -1: the kernel's, as for the next */
	int64_t interval_ns; /* of an AQM */
	bool ecn;	     /* an AQM marks packets that can be marked */
};

/* What others send through a bottleneck; absent where mean_bps is not above 0. */
struct lh_cross_spec {
	int64_t mean_bps;
	int64_t flow_bytes; /* mean of a flow */
	int64_t peak_bps;   /* of a flow; -1: the bottleneck's */
	struct lh_pos pos;
};

/* The link between a site and all others, in one direction, that its nodes share. */
struct lh_site_link {
	int64_t bandwidth_bps; /* 0: no limit */
	struct lh_queue_spec queue;
	struct lh_cross_spec cross;
	char *source;
	struct lh_pos pos;
};

/* A zone, region or on-premise room. Optional strings are NULL when absent. */
struct lh_site {
	char *name;
	char *provider;
	int continent; /* enum lh_continent */
	char *region;
	char *zone;
	struct lh_site_link uplink;
	struct lh_site_link downlink;
	char *source;
};

/* What was measured on a path, judged by the same measurement. */
struct lh_measured {
	char *from;
	char *to;
	int64_t streams;
	int64_t duration_ns;
	int64_t throughput_bps; /* mean goodput over the duration, all streams together */
	int64_t sd_bps;		/* between repetitions */
	char *source;
};

/* What of a path may change in time, as bits. */
enum lh_attribute {
	LH_DELAY = 1, /* rtt, too */
	LH_BANDWIDTH = 2,
	LH_QUEUE = 4,
	LH_JITTER = 8,
	LH_LOSS = 16,
	LH_LOSS_BURST = 32,
	LH_DUPLICATE = 64,
	LH_CORRUPT = 128,
	LH_REORDER = 256,
	LH_CUT = 512, /* all is lost, whatever stands elsewhere */
};

/* What a path has in place of what its network says. */
struct lh_path_change {
	unsigned sets;	  /* enum lh_attribute; what is not among them means nothing below */
	int64_t rtt_ns;	  /* half of it each way; -1: delay_ns stands in its stead */
	int64_t delay_ns; /* one way */
	int64_t bandwidth_bps;
	int64_t queue_bps; /* bandwidth at which a queue's time counts; 0: the present one */
	struct lh_queue_size queue;
	int64_t jitter_ns;
	double loss_ratio;
	double loss_burst_pkts;
	double duplicate_ratio;
	double corrupt_ratio;
	double reorder_ratio;
};

struct lh_trace_row {
	int64_t at_ns;
	int64_t delay_ns;
	int64_t bandwidth_bps; /* 0: nothing passes */
	double loss_ratio;
};

/* Values that follow each other, from a file. */
struct lh_trace {
	char *csv;	     /* what the table was read from; or */
	char *mahimahi;	     /* what it was computed from */
	int64_t interval_ns; /* of a Mahimahi trace */
	bool repeat;
	int64_t length_ns; /* after which it repeats */
	char *table;	   /* the values, as CSV */

	/* resolved from the table */
	unsigned sets; /* enum lh_attribute: its columns; 0: there is no trace */
	struct lh_trace_row *rows;
	size_t n_rows;
	int64_t mean_bps; /* over its length */
};

/* Why a node is away. */
enum lh_absence_cause { LH_AWAY_BY_TIMELINE, LH_AWAY_BY_SPOT, LH_AWAY_BY_LATE_START };

/* A node (its VM) that is away: not there yet, or taken away. Times count from the start of what
 * runs. */
struct lh_absence {
	size_t node;
	int64_t from_ns;   /* -1: it was not there at the start */
	int64_t to_ns;	   /* INT64_MAX: it stays away */
	int64_t notice_ns; /* before from_ns, in which it is told; 0: it is not */
	enum lh_absence_cause cause;
};

/* A node whose computing takes factor times as long, from from_ns until before to_ns. */
struct lh_slowdown {
	size_t node;
	int64_t from_ns;
	int64_t to_ns; /* INT64_MAX: to the end */
	double factor;
};

enum { LH_ABSENCES_MAX = 100000 };

/* Interruptions of spot VMs: drawn, or as a file has them. */
struct lh_spot_spec {
	int64_t mean_time_to_preemption_ns; /* -1: as the table has them */
	int64_t mean_return_ns;		    /* -1: none comes back */
	int64_t for_ns;			    /* how long they are drawn; -1: LH_SPOT_FOR_NS */
	int64_t notice_ns;		    /* -1: none */
	char **nodes;			    /* nodes and sites; none: all */
	size_t n_nodes;
	char *trace; /* what the table was read from */
	char *table; /* CSV */
	struct lh_pos pos;
};

#define LH_SPOT_FOR_NS INT64_C(86400000000000) /* a day */

/* A change at a time, counted from the start of what runs: of paths, or of nodes. */
struct lh_event {
	int64_t at_ns;
	int64_t for_ns; /* -1: until the next of its kind, or the end */
	char **path;	/* two sites, both directions; or */
	size_t n_path;
	char *from; /* one direction; or */
	char *to;
	char *site; /* all paths to and from it */
	bool cut_off;
	struct lh_path_change change; /* sets: what is written */
	struct lh_trace trace;
	/* of nodes; each word is a node or a site, whose nodes are all meant */
	char **preempt;
	size_t n_preempt;
	int64_t return_after_ns; /* -1: never */
	int64_t notice_ns;	 /* -1: none */
	char **slow;
	size_t n_slow;
	double factor; /* -1: not written */
	char **join;
	size_t n_join;
	struct lh_pos pos;
};

/* A path as written: between two sites (both directions) or from one to the other. */
struct lh_path_spec {
	char **between; /* two names, or none */
	size_t n_between;
	char *from;
	char *to;
	int64_t rtt_ns;	  /* with between; else -1 */
	int64_t delay_ns; /* one way, with from and to; else -1 */
	int64_t bandwidth_bps;
	struct lh_queue_spec queue;
	struct lh_cross_spec cross;
	int64_t stream_window_bytes; /* -1: the network's */
	int64_t jitter_ns;	     /* standard deviation; -1: none, or that of the samples */
	int jitter_distribution;     /* enum lh_jitter_distribution */
	char **jitter_samples;	     /* delays or deviations, in ms */
	size_t n_jitter_samples;
	double loss_ratio;	/* -1: none, as for the others */
	double loss_burst_pkts; /* mean length of a burst; -1: losses are independent */
	double duplicate_ratio;
	double corrupt_ratio;
	double reorder_ratio;
	struct lh_trace trace; /* from the start of what runs on */
	char *source;
	struct lh_measured *measured;
	size_t n_measured;
	struct lh_pos pos;
};

struct lh_network {
	char *name;
	char *about;
	char *source;
	int64_t mtu_bytes;
	int64_t stream_window_bytes; /* -1: no limit but the hosts' buffers */
	struct lh_site *sites;
	size_t n_sites;
	struct lh_path_spec *paths;
	size_t n_paths;
	const struct lh_path_spec **path_at; /* [from * n_sites + to], NULL: none */
};

struct lh_nic {
	int64_t up_bps;
	int64_t down_bps;
	char *source;
};

/* The network between the GPUs of one machine; absent where bandwidth_bps is not above 0. */
struct lh_inner {
	int64_t bandwidth_bps; /* of one GPU, in each direction */
	int64_t delay_ns;      /* one way, between any two */
	char *source;
};

struct lh_tcp {
	char *congestion_control;
	int64_t rmem_max_bytes;
	int64_t wmem_max_bytes;
};

/* What a host itself costs when it trains one model. */
struct lh_host_cost {
	char *name; /* model, or "default" */
	int64_t accumulate_ns;
	int64_t averaging_bps;
	int64_t apply_ns;
	char *source;
};

struct lh_machine {
	char *name;
	char *about;
	char *provider;
	int64_t vcpus;
	int64_t memory_bytes;
	char *gpu;
	int64_t gpus;
	struct lh_nic nic;
	struct lh_inner inner;
	struct lh_tcp tcp;
	struct lh_host_cost *host;
	size_t n_host;
	char *source;
};

struct lh_model {
	char *name;
	char *about;
	char *domain;
	int64_t parameters;
	int64_t bytes_per_sample;
	char *dataset;
	char *source;
};

struct lh_profile_entry {
	char *name; /* model */
	int64_t micro_batch;
	double samples_per_s; /* wall clock, one GPU (or rank) alone */
	double variation_ratio;
	double paper_samples_per_s; /* -1: unknown */
	char *source;
};

struct lh_profile {
	char *name; /* GPU */
	char *about;
	struct lh_profile_entry *models;
	size_t n_models;
};

struct lh_vm_price {
	char *machine;
	char *site;			   /* NULL: everywhere */
	int64_t spot_usd_micro_per_h;	   /* -1: not offered */
	int64_t on_demand_usd_micro_per_h; /* -1: not offered */
	char *source;
};

struct lh_inter_region_prices {
	struct lh_byte_price by_continent[LH_N_CONTINENTS]; /* per_bytes 0: not priced */
};

struct lh_egress_prices {
	char *name; /* provider of the sending site */
	struct lh_byte_price same_zone;
	struct lh_byte_price inter_zone;
	struct lh_inter_region_prices inter_region;
	struct lh_byte_price inter_continent;
	struct lh_byte_price oceania;
	char *source;
};

struct lh_storage_price {
	char *name;
	struct lh_byte_price egress;
	struct lh_byte_price storage_per_month;
	char *source;
};

struct lh_prices {
	char *name;
	char *date;
	char *source;
	struct lh_vm_price *vm;
	size_t n_vm;
	struct lh_egress_prices *egress;
	size_t n_egress;
	struct lh_storage_price *storage;
	size_t n_storage;
};

struct lh_node_spec {
	char *site;
	int64_t count;
	char *machine;
	int64_t joins_at_ns; /* -1: from the start on */
	struct lh_pos pos;
};

/* What the kind does not have is -1, false or NULL, as is what is absent and has no default. */
struct lh_strategy_spec {
	char *kind;
	char *balance;
	int64_t matchmaking_ns;
	bool delayed_update;
	int64_t streams;
	int64_t bucket_bytes;
	bool overlap;
	char *order;
	char *shards;
	int64_t segment_bytes;
	int64_t *dimensions;
	size_t n_dimensions;
	int64_t rounds;
	char **levels;
	size_t n_levels;
	char *collective;
	char *exchange;
	int64_t period; /* epochs */
	bool asynchronous;
	bool elastic;
	double outer_lr;
	double outer_momentum;
	int64_t fragments;
	int64_t fragment_delay; /* epochs */
	double fragment_mix;
	char *graph;
	int64_t min_group;
	int64_t timeout_ns;
	int64_t heartbeat_ns;
};

struct lh_compress_spec {
	char *kind;
	double density_ratio;
	bool feedback;
	double momentum;
	bool nesterov;
	double clip_norm;
	int64_t warm_up_epochs;
	int64_t rank;
};

/* Whom a line of progress speaks for. */
enum lh_progress_of { LH_PROGRESS_OF_RANK, LH_PROGRESS_OF_GROUP };

/* How a program's progress is read. */
struct lh_progress_spec {
	char *pattern;	 /* of a line that it says; NULL: see file. Neither: not read */
	char *file;	 /* that it writes JSON Lines to */
	int64_t samples; /* that a line stands for which does not say; -1: unknown */
	int of;		 /* enum lh_progress_of */
	int64_t warm_up; /* epochs at the begin that do not count; -1: none */
};

/* Values that are -1 or NULL here are the engine's defaults. */
struct lh_train_data {
	char *kind; /* NULL: there is no training section */
	char *path; /* absolute, as vocabulary */
	char *vocabulary;
	int64_t samples; /* -1: all, as the next */
	int64_t test_samples;
	double skew; /* -1: none */
	bool augment;
};

struct lh_train_optimizer {
	char *kind;
	double lr, momentum, beta1, beta2, eps, weight_decay, trust, clip_norm;
	bool nesterov;
};

struct lh_train_schedule {
	char *kind; /* NULL: constant */
	int64_t warm_up;
	double final_ratio;
	double power;
};

struct lh_train_spec {
	struct lh_yaml *settings; /* borrowed from the tree; NULL: none */
	struct lh_train_data data;
	struct lh_train_optimizer optimizer;
	struct lh_train_schedule schedule;
	int64_t evaluate; /* epochs */
	char *device;
	char *precision;
	bool is_portable;
};

struct lh_workload {
	char *model;
	int mode; /* enum lh_mode */
	struct lh_train_spec train;
	struct lh_profile_entry speed; /* samples_per_s 0: by the machines' profiles */
	int64_t target_batch;
	int64_t micro_batch; /* -1: the profile's */
	struct lh_strategy_spec strategy;
	struct lh_compress_spec compress;
	char *transport;
	int64_t epochs;
	int64_t ranks_per_node; /* -1: one for each GPU of a machine with an inner network, else
				 * one; with a command, too */
	char **command;		/* a program in the trainers' stead; then nothing above is set, and
				 * without one nothing below */
	size_t n_command;
	char *folder; /* that it starts in, absolute; NULL: the current one */
	struct lh_progress_spec progress;
	int64_t bytes_per_sample; /* -1: unknown */
	int64_t stop_after_ns;	  /* its end, which is no failure; -1: none */
	int64_t time_limit_ns;	  /* its end, which is one; -1: none */
};

struct lh_pricing {
	struct lh_prices catalog;
	int vm; /* enum lh_vm_pricing: which one the summary shows */
};

/* Which packets are kept while the workload runs. */
struct lh_capture_spec {
	char **where; /* words of capture.h; none: nothing is captured, and the next two are -1 */
	size_t n_where;
	int64_t snaplen_bytes; /* of each packet */
	int64_t max_bytes;     /* of each file */
};

/* What a machine must reach for real time to be believed on it. */
struct lh_fitness_spec {
	int64_t timer_lateness_ns; /* at the 99th percentile, at most; 0: not judged */
	double rate_headroom;	   /* what it carries over what was asked; 0: not judged */
};

struct lh_run_spec {
	int clock;
	int backend;
	int nodes; /* enum lh_nodes */
	struct lh_fitness_spec fitness;
	int64_t seed;
	int segments;
	int probe;
	bool charge_cpu; /* CPU time passes in virtual time */
	int64_t guest_memory_bytes;
	struct lh_capture_spec capture;
};

struct lh_published {
	double throughput_sps; /* wall clock; -1: unknown, as for the next two */
	double granularity;
	double comm_s;
	char *source;
};

/* Data that lie at a site. */
struct lh_data_at {
	char *site;
	double share_ratio; /* of all samples */
	struct lh_pos pos;
};

struct lh_data_spec {
	char *store;	       /* NULL: loading is not priced */
	struct lh_data_at *at; /* none: ranks take them from anywhere */
	size_t n_at;
};

/* One node as resolved: names and indices of what it is made of. */
struct lh_node {
	char *name;  /* "gc-us/0" */
	size_t site; /* index into network.sites */
	const struct lh_machine *machine;
	const struct lh_profile_entry *profile; /* NULL, as the next, with a command */
	const struct lh_host_cost *host;
	int64_t micro_batch;
	int64_t accumulate_ns; /* of the host, per micro-batch; 0 where the workload says the speed
				*/
	int64_t apply_ns;      /* the same for the optimizer's step */
	double target_ratio;   /* of all its ranks: share of the target batch, by where the data lie; 0: not given */
	size_t first_rank;
	size_t n_ranks; /* that run in it: more than 1 only with an inner network */
	const struct lh_node_spec *spec; /* that asks for it */
};

/* A trainer or program: of a whole node, or of one GPU of a node with an inner network. */
struct lh_node_rank {
	char *name; /* the node's or, of one of several, "gc-us/0.3" */
	size_t node;
	size_t local; /* its number in the node, from 0 on */
};

struct lh_scenario {
	char *name;
	char *about;
	struct lh_network network;
	struct lh_node_spec *node_specs;
	size_t n_node_specs;
	struct lh_workload workload;
	struct lh_data_spec data;
	struct lh_pricing pricing;
	struct lh_run_spec run;
	struct lh_event *events; /* the timeline */
	size_t n_events;
	struct lh_spot_spec spot;
	struct lh_published published;
	struct lh_machine *machines;
	size_t n_machines;
	struct lh_model *models;
	size_t n_models;
	struct lh_profile *profiles;
	size_t n_profiles;

	/* resolved */
	struct lh_node *nodes; /* those of one site stand together */
	size_t n_nodes;
	struct lh_node *released; /* nodes of the specs that the control plane does without */
	size_t n_released;
	struct lh_node_rank *ranks; /* by rank: in the order of their nodes */
	size_t n_ranks;
	const struct lh_model *model; /* NULL with a command */
	struct lh_absence *absences;  /* in order of from_ns and node; those of a node are apart */
	size_t n_absences;
	struct lh_slowdown *slowdowns; /* in order of node and from_ns; the same */
	size_t n_slowdowns;
	json_t *resolved;     /* the whole document, every file replaced by its content */
	struct lh_yaml *tree; /* the same as read; positions in the structs point into it */
};

/* Payload that all ranks of trainers send in an epoch by the strategy's formula; -1: there is none.
 */
int64_t lh_scenario_payload_bytes(const struct lh_scenario *scenario, int64_t epoch);

/* Whose samples stand behind an averaging. */
enum lh_averaged_samples {
	LH_AVERAGED_EPOCH,  /* the epoch's */
	LH_AVERAGED_PERIOD, /* those of all epochs since the last one */
	LH_AVERAGED_SPAN,   /* of some span, alike at all ranks */
	LH_AVERAGED_OWN,    /* of the rank and its neighbours */
};

enum lh_averaged_samples lh_scenario_averaged_samples(const struct lh_scenario *scenario);

/* The node of a rank. */
static inline const struct lh_node *lh_node_of(const struct lh_scenario *scenario, size_t rank)
{
	return &scenario->nodes[scenario->ranks[rank].node];
}
/* "timeline", "spot" or "late-start". */
const char *lh_absence_cause_name(enum lh_absence_cause cause);

/* Whether a path holds from one site to another. */
bool lh_path_spec_matches(const struct lh_path_spec *path, const char *from, const char *to);

/* The path from one site to another (the same: inside it), or NULL; of a checked network. */
const struct lh_path_spec *lh_path_spec_at(const struct lh_network *network, size_t from,
					   size_t to);

/* The same by name. */
const struct lh_path_spec *lh_path_spec_find(const struct lh_network *network, const char *from,
					     const char *to);

/* How far data goes, for its price. */
enum lh_egress_class {
	LH_EGRESS_SAME_ZONE,
	LH_EGRESS_INTER_ZONE,
	LH_EGRESS_INTER_REGION,
	LH_EGRESS_INTER_CONTINENT,
	LH_EGRESS_OCEANIA,
	LH_EGRESS_ON_PREMISE,
	LH_EGRESS_INSIDE_NODE, /* between its ranks; no pair of sites has it */
	LH_N_EGRESS_CLASSES,
};

/* "same-zone" ... as in cost.csv. */
const char *lh_egress_class_name(enum lh_egress_class class);

/* The class of data sent from one site to another (docs/formats.md has the rule). */
enum lh_egress_class lh_egress_class_of(const struct lh_site *from, const struct lh_site *to);

/*
 * The price of data from one site to another in a catalog: *ret_price and, borrowed, its
 * source. An absent price of an on-premise sender is 0. LH_EINPUT where the provider or
 * the class has no price.
 */
int lh_egress_price_find(const struct lh_prices *prices, const struct lh_site *from,
			 const struct lh_site *to, struct lh_byte_price *ret_price,
			 const char **ret_source, struct lh_error *err);

/* The VM price of a machine at a site: the entry for that site, else the one for all sites,
 * else NULL. */
const struct lh_vm_price *lh_vm_price_find(const struct lh_prices *prices, const char *machine,
					   const char *site);

/* The storage price called name, or NULL. */
const struct lh_storage_price *lh_storage_price_find(const struct lh_prices *prices,
						     const char *name);

/* A change to a scenario from the command line: `workload.epochs=2`, in order given. */
struct lh_override {
	const char *path;
	const char *value;
};

/*
 * Reads a scenario: file is a path, or the id of an experiment of a suite in the
 * catalog ("A-8-cv"). catalog_dir is the installed catalog folder. All that is wrong goes to diag
 * (LH_EINPUT then); a file that cannot be read gives LH_EINPUT too, in err.
 * *ret_scenario is owned by the caller.
 */
int lh_scenario_read(const char *file, const char *catalog_dir, const struct lh_override *overrides,
		     size_t n_overrides, struct lh_scenario **ret_scenario, struct lh_diag *diag,
		     struct lh_error *err);

/* What a network file becomes where one is given in place of a scenario. */
enum lh_network_as {
	LH_NETWORK_REFUSED,
	LH_NETWORK_AS_HOSTS, /* a node of machine `generic` at each site */
	/* a node at each site, two where it has a path inside it, whose cards limit nothing */
	LH_NETWORK_AS_PATHS,
};

/* What a scenario is read from. */
struct lh_scenario_source {
	const char *file; /* a path, or the id of an experiment of a suite in the catalog; where
			   * networks are taken also one of those, or its name in the catalog */
	const char *catalog_dir;
	const struct lh_override *overrides;
	size_t n_overrides;
	char *const *command; /* in the workload's stead, ends with NULL; NULL: as written */
	bool needs_command;   /* LH_EUSAGE where there is none */
	enum lh_network_as network_as;
};

/* The same as lh_scenario_read, from a source. */
int lh_scenario_read_from(const struct lh_scenario_source *source,
			  struct lh_scenario **ret_scenario, struct lh_diag *diag,
			  struct lh_error *err);

/* Whether the workload is a program in the trainers' stead. */
bool lh_scenario_has_command(const struct lh_scenario *scenario);

/* Whether time passes by the network and by waiting alone, so that a run repeats exactly. */
bool lh_run_is_exact(const struct lh_run_spec *run);

/* The same from a resolved document (run.json's "scenario"); file names it in messages. */
int lh_scenario_from_json(const char *file, json_t *resolved, struct lh_scenario **ret_scenario,
			  struct lh_diag *diag, struct lh_error *err);

void lh_scenario_free(struct lh_scenario *scenario);

/* Changes the seed, in the resolved document too, and draws anew what is drawn from it. LH_EINPUT
 * where that comes to more interruptions than there may be. */
int lh_scenario_set_seed(struct lh_scenario *scenario, int64_t seed, struct lh_error *err);

/* Changes the number of the model's parameters, in the resolved document too. */
void lh_scenario_set_parameters(struct lh_scenario *scenario, int64_t parameters);

/* One experiment of a suite. */
struct lh_experiment {
	char *id;
	char *about;
	struct lh_published published;
};

struct lh_suite {
	char *name;
	char *about;
	struct lh_experiment *experiments;
	size_t n_experiments;
	struct lh_claim *claims;
	size_t n_claims;
	struct lh_unknown_setting *unknown;
	size_t n_unknown;
	struct lh_sweep sweep;
};

/* Reads the suite experiments/NAME.yaml of the catalog: ids in the file's order. */
int lh_suite_read(const char *name, const char *catalog_dir, struct lh_suite **ret_suite,
		  struct lh_diag *diag, struct lh_error *err);
void lh_suite_free(struct lh_suite *suite);

/* The JSON Schema (draft-07) of a scenario file, from the field tables; owned by the caller. */
json_t *lh_scenario_schema(void);

#endif
