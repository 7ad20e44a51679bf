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
#include "scenarios/machine.h"
#include "scenarios/network.h"
#include "scenarios/workload.h"

enum lh_clock { LH_CLOCK_VIRTUAL, LH_CLOCK_REAL };
enum lh_backend { LH_BACKEND_AUTO, LH_BACKEND_HOST, LH_BACKEND_GUEST };
enum lh_nodes { LH_NODES_GUEST, LH_NODES_HOST };

enum {
	LH_HOST_NODES_MAX = 64
}; /* with LH_NODES_HOST: a guest is told so many on its command line */
enum lh_segments { LH_SEGMENTS_MTU, LH_SEGMENTS_COARSE };
enum lh_probe { LH_PROBE_SHORT, LH_PROBE_FULL, LH_PROBE_NONE };
enum lh_vm_pricing { LH_VM_SPOT, LH_VM_ON_DEMAND };

struct lh_node_spec {
	char *site;
	int64_t count;
	char *machine;
	int64_t joins_at_ns; /* -1: from the start on */
	struct lh_pos pos;
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
	double target_ratio; /* of all its ranks: share of the target batch, by where the data lie;
				0: not given */
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
