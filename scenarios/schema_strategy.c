/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The field tables of strategies and compressors: every parameter, the kinds that have it and its
 * default for each. A kind is there once it stands among the choices. See docs/formats.md.
 */
#include "scenarios/schema_internal.h"
#include "scenarios/strategy_kinds.h"

/* clang-format off */

/* Those that a collective of another strategy may be, too. */
#define DENSE_KINDS \
	{"butterfly", LH_KIND_BUTTERFLY}, \
	{"ring", LH_KIND_RING}, \
	{"halving-doubling", LH_KIND_HALVING_DOUBLING}, \
	{"tree", LH_KIND_TREE}, \
	{"torus", LH_KIND_TORUS}, \
	{"hierarchical", LH_KIND_HIERARCHICAL}

/* A test holds this list and the trainer's table of strategies together. */
static const struct lh_choice strategies[] = {
	DENSE_KINDS,
	{"sparse-allgather", LH_KIND_SPARSE_ALLGATHER},
	{"hierarchical-topk", LH_KIND_HIERARCHICAL_TOPK},
	{"local-sgd", LH_KIND_LOCAL_SGD},
	{"diloco", LH_KIND_DILOCO},
	{"d-psgd", LH_KIND_D_PSGD},
	{"ad-psgd", LH_KIND_AD_PSGD},
	{"parameter-server", LH_KIND_PARAMETER_SERVER},
	{"hivemind", LH_KIND_HIVEMIND},
	{"moshpit", LH_KIND_MOSHPIT},
	{NULL, 0},
};

static const struct lh_choice collectives[] = {DENSE_KINDS, {NULL, 0}};

/* A test holds this list and the trainer's table of compressors together. */
static const struct lh_choice compressors[] = {
	{"fp16", LH_KIND_FP16},
	{"none", LH_KIND_NONE},
	{"bf16", LH_KIND_BF16},
	{"uniform8", LH_KIND_UNIFORM8},
	{"blockwise8", LH_KIND_BLOCKWISE8},
	{"onebit", LH_KIND_ONEBIT},
	{"topk", LH_KIND_TOPK},
	{"mstopk", LH_KIND_MSTOPK},
	{"dgc", LH_KIND_DGC},
	{"random-k", LH_KIND_RANDOM_K},
	{"powersgd", LH_KIND_POWERSGD},
	{NULL, 0},
};

static const struct lh_choice balances[] = {{"dynamic", 0}, {"fixed", 0}, {NULL, 0}};
static const struct lh_choice orders[] = {{"given", 0}, {"shortest", 0}, {NULL, 0}};
static const struct lh_choice shard_cuts[] = {{"equal", 0}, {"bandwidth", 0}, {NULL, 0}};
static const struct lh_choice levels[] = {{"node", 0}, {"site", 0}, {NULL, 0}};
static const struct lh_choice graphs[] = {
	{"ring", 0}, {"exponential", 0}, {"complete", 0}, {NULL, 0},
};
static const struct lh_choice exchanges[] = {
	{"asgd", 0}, {"asgd-ga", 0}, {"averaging", 0}, {NULL, 0},
};

static const struct lh_fallback balance_fallbacks[] = {
	{LH_KIND_TORUS | LH_KIND_HIERARCHICAL | LH_KINDS_SPARSE, NULL, NULL, "fixed"},
	{0, NULL, NULL, NULL},
};
static const struct lh_fallback matchmaking_fallbacks[] = {
	{LH_KINDS_AVERAGING, "balance", "fixed", "0 s"},
	{LH_KIND_BUTTERFLY | LH_KINDS_ELASTIC, NULL, NULL, "5 s"},
	{0, NULL, NULL, NULL},
};
static const struct lh_fallback delayed_update_fallbacks[] = {
	{LH_KIND_BUTTERFLY | LH_KIND_HIVEMIND, NULL, NULL, "true"},
	{0, NULL, NULL, NULL},
};
static const struct lh_fallback levels_fallbacks[] = {
	{LH_KINDS_LOCAL, "collective", "hierarchical", "[node, site]"},
	{LH_KINDS_LOCAL, NULL, NULL, NULL},
	{LH_KIND_HIERARCHICAL_TOPK, NULL, NULL, "[node]"},
	{0, NULL, NULL, NULL},
};
static const struct lh_fallback period_fallbacks[] = {
	{LH_KIND_PARAMETER_SERVER, "exchange", "asgd", "1"},
	{LH_KIND_DILOCO, NULL, NULL, "50"},
	{0, NULL, NULL, NULL},
};
/* Of groups that nobody can take a rank's place in; a long transfer is no failure. */
static const struct lh_fallback timeout_fallbacks[] = {
	{LH_KINDS_LOCAL | LH_KINDS_GOSSIP, NULL, NULL, "30 min"},
	{0, NULL, NULL, NULL},
};
static const struct lh_fallback segment_fallbacks[] = {
	{LH_KINDS_LOCAL, "collective", "tree", "1 MiB"},
	{LH_KINDS_LOCAL, NULL, NULL, NULL},
	{0, NULL, NULL, NULL},
};
static const struct lh_fallback asynchronous_fallbacks[] = {
	{LH_KIND_PARAMETER_SERVER, "exchange", "averaging", "false"},
	{0, NULL, NULL, NULL},
};

#define OF(kind_bits) .kinds = (kind_bits)

/* A default may depend on a key that stands before. */
static const struct lh_field strategy_fields[] = {
	{.key = "kind", .type = LH_FIELD_WORD, .flags = REQUIRED,
	 AT(struct lh_strategy_spec, kind), .choices = strategies,
	 .doc = "how the ranks synchronise"},
	{.key = "balance", .type = LH_FIELD_WORD, OF(LH_KINDS_AVERAGING),
	 AT(struct lh_strategy_spec, balance), .choices = balances, .fallback = "dynamic",
	 .fallbacks = balance_fallbacks,
	 .doc = "dynamic: all ranks compute until they have the target batch together, and tell each "
		"other; fixed: each computes its share of it, without a word"},
	{.key = "matchmaking", .type = LH_FIELD_DURATION,
	 OF(LH_KINDS_AVERAGING | LH_KINDS_ELASTIC),
	 AT(struct lh_strategy_spec, matchmaking_ns), .max = DELAY_MAX, .fallback = "0 s",
	 .fallbacks = matchmaking_fallbacks,
	 .doc = "least time that forming a group takes, beside computing"},
	{.key = "delayed_update", .type = LH_FIELD_BOOLEAN,
	 OF(LH_KINDS_AVERAGING | LH_KIND_HIVEMIND),
	 AT(struct lh_strategy_spec, delayed_update), .fallback = "false",
	 .fallbacks = delayed_update_fallbacks,
	 .doc = "the optimizer's step runs beside the next epoch's computing, and so comes one epoch "
		"late"},
	{.key = "streams", .type = LH_FIELD_INTEGER, AT(struct lh_strategy_spec, streams),
	 .min = 1, .max = 64, .fallback = "1", .doc = "TCP connections to each peer"},
	{.key = "bucket", .type = LH_FIELD_SIZE, OF(LH_KINDS_DENSE),
	 AT(struct lh_strategy_spec, bucket_bytes), .min = 4, .max = SIZE_MAX_BYTES,
	 .doc = "fp32 gradients that are averaged together; all at once where absent"},
	{.key = "overlap", .type = LH_FIELD_BOOLEAN, OF(LH_KINDS_DENSE),
	 AT(struct lh_strategy_spec, overlap), .fallback = "false",
	 .doc = "buckets travel beside the backward pass; needs bucket and balance fixed"},
	{.key = "order", .type = LH_FIELD_WORD, OF(LH_KIND_RING),
	 AT(struct lh_strategy_spec, order), .choices = orders, .fallback = "given",
	 .doc = "given: by rank; shortest: the round trip that the paths make cheapest"},
	{.key = "shards", .type = LH_FIELD_WORD, OF(LH_KIND_BUTTERFLY),
	 AT(struct lh_strategy_spec, shards), .choices = shard_cuts, .fallback = "equal",
	 .doc = "sizes of the shares that ranks own: equal, or by their bandwidths"},
	{.key = "collective", .type = LH_FIELD_WORD, OF(LH_KINDS_LOCAL),
	 AT(struct lh_strategy_spec, collective), .choices = collectives, .fallback = "ring",
	 .doc = "how weights are averaged: as the dense strategy of that name averages gradients"},
	{.key = "segment", .type = LH_FIELD_SIZE, OF(LH_KIND_TREE | LH_KINDS_LOCAL),
	 AT(struct lh_strategy_spec, segment_bytes), .min = 4, .max = SIZE_MAX_BYTES,
	 .fallback = "1 MiB", .fallbacks = segment_fallbacks,
	 .doc = "what travels at a time; the next follows before it arrives"},
	{.key = "dimensions", .type = LH_FIELD_INTEGERS, OF(LH_KIND_TORUS | LH_KIND_MOSHPIT | LH_KINDS_LOCAL),
	 AT(struct lh_strategy_spec, dimensions), COUNT(struct lh_strategy_spec, n_dimensions),
	 .min = 2, .max = 1000000,
	 .doc = "the grid of ranks, the last the nearest; two, as square as can be, where absent. A "
		"torus is full; a grid of moshpit may have free places"},
	{.key = "rounds", .type = LH_FIELD_INTEGER, OF(LH_KIND_MOSHPIT),
	 AT(struct lh_strategy_spec, rounds), .min = 1, .max = 1000,
	 .doc = "averagings of an epoch, each along one dimension; as many as dimensions where absent"},
	{.key = "levels", .type = LH_FIELD_STRINGS,
	 OF(LH_KIND_HIERARCHICAL | LH_KIND_HIERARCHICAL_TOPK | LH_KINDS_LOCAL),
	 AT(struct lh_strategy_spec, levels), COUNT(struct lh_strategy_spec, n_levels),
	 .choices = levels, .fallback = "[node, site]", .fallbacks = levels_fallbacks,
	 .doc = "within what ranks are averaged before the whole: node, site; one of them for "
		"hierarchical-topk"},
	{.key = "exchange", .type = LH_FIELD_WORD, OF(LH_KIND_PARAMETER_SERVER),
	 AT(struct lh_strategy_spec, exchange), .choices = exchanges, .fallback = "asgd",
	 .doc = "what the sites' servers send: every gradient, gradients added up over a period, or "
		"weights after one"},
	{.key = "period", .type = LH_FIELD_INTEGER, OF(LH_KINDS_LOCAL | LH_KIND_PARAMETER_SERVER),
	 AT(struct lh_strategy_spec, period), .min = 1, .max = 1000000, .fallback = "8",
	 .fallbacks = period_fallbacks, .doc = "epochs from one synchronisation to the next"},
	{.key = "asynchronous", .type = LH_FIELD_BOOLEAN, OF(LH_KIND_PARAMETER_SERVER),
	 AT(struct lh_strategy_spec, asynchronous), .fallback = "true",
	 .fallbacks = asynchronous_fallbacks,
	 .doc = "servers do not wait for each other; averaging alone may be without"},
	{.key = "elastic", .type = LH_FIELD_BOOLEAN, .flags = LH_FIELD_NOT_IN_JOB,
	 OF(LH_KIND_PARAMETER_SERVER), AT(struct lh_strategy_spec, elastic), .fallback = "false",
	 .doc = "the control plane gives each site the workers that its share of the data needs"},
	{.key = "outer_lr", .type = LH_FIELD_NUMBER, .flags = LH_FIELD_ABOVE_0, OF(LH_KIND_DILOCO),
	 AT(struct lh_strategy_spec, outer_lr), .max = 1000, .fallback = "0.7",
	 .doc = "learning rate of the outer optimizer (SGD with Nesterov momentum)"},
	{.key = "outer_momentum", .type = LH_FIELD_NUMBER, .flags = LH_FIELD_BELOW_MAX,
	 OF(LH_KIND_DILOCO),
	 AT(struct lh_strategy_spec, outer_momentum), .max = 1, .fallback = "0.9",
	 .doc = "of the outer optimizer, less than 1"},
	{.key = "fragments", .type = LH_FIELD_INTEGER, OF(LH_KIND_DILOCO),
	 AT(struct lh_strategy_spec, fragments), .min = 1, .max = 1000000, .fallback = "1",
	 .doc = "parts of the model that are synchronised one after the other within a period"},
	{.key = "fragment_delay", .type = LH_FIELD_INTEGER, OF(LH_KIND_DILOCO),
	 AT(struct lh_strategy_spec, fragment_delay), .max = 1000000, .fallback = "0",
	 .doc = "epochs from sending a fragment to merging what came back"},
	{.key = "fragment_mix", .type = LH_FIELD_NUMBER, OF(LH_KIND_DILOCO),
	 AT(struct lh_strategy_spec, fragment_mix), .max = 1,
	 .doc = "weight of the local values in that merge, of streaming alone (fragments, "
		"fragment_delay); 0.5 there where absent"},
	{.key = "graph", .type = LH_FIELD_WORD, OF(LH_KINDS_GOSSIP),
	 AT(struct lh_strategy_spec, graph), .choices = graphs, .fallback = "ring",
	 .doc = "who may average with whom: neighbours, those 1, 2, 4 ... ranks away, all; in pairs "
		"(ad-psgd) even ranks with odd ones alone, 1, 3, 5, 9 ... away"},
	{.key = "min_group", .type = LH_FIELD_INTEGER, OF(LH_KINDS_ELASTIC),
	 AT(struct lh_strategy_spec, min_group), .min = 1, .max = 1000000, .fallback = "2",
	 .doc = "fewest ranks that average; fewer wait, for ten times `timeout` at most"},
	{.key = "timeout", .type = LH_FIELD_DURATION,
	 OF(LH_KINDS_LOCAL | LH_KINDS_GOSSIP | LH_KINDS_ELASTIC),
	 AT(struct lh_strategy_spec, timeout_ns), .min = 1000000, .max = DELAY_MAX,
	 .fallback = "60 s", .fallbacks = timeout_fallbacks,
	 .doc = "of one averaging, after which its group is formed anew; where groups are fixed, the run "
		"fails"},
	{.key = "heartbeat", .type = LH_FIELD_DURATION, OF(LH_KINDS_ELASTIC),
	 AT(struct lh_strategy_spec, heartbeat_ns), .min = 1000000, .max = DELAY_MAX,
	 .fallback = "1 s",
	 .doc = "between two signs of life; less than timeout. Whoever gives none for five of them is "
		"dropped"},
	END,
};

const struct lh_section lh_strategy_section = {
	"a strategy", "How the ranks synchronise.", sizeof(struct lh_strategy_spec), LH_NO_OFFSET,
	NULL, LH_NO_OFFSET, strategy_fields,
};

static const struct lh_field compress_fields[] = {
	{.key = "kind", .type = LH_FIELD_WORD, .flags = REQUIRED,
	 AT(struct lh_compress_spec, kind), .choices = compressors,
	 .doc = "form of the gradients on the wire"},
	{.key = "density", .type = LH_FIELD_RATIO, .flags = LH_FIELD_ABOVE_0, OF(LH_KINDS_SPARSIFIERS),
	 AT(struct lh_compress_spec, density_ratio), .fallback = "0.1 %",
	 .doc = "share of the elements that is sent"},
	{.key = "feedback", .type = LH_FIELD_BOOLEAN, OF(LH_KINDS_SPARSIFIERS | LH_KIND_POWERSGD),
	 AT(struct lh_compress_spec, feedback), .fallback = "true",
	 .doc = "what was not sent is kept and added to what is sent next"},
	{.key = "momentum", .type = LH_FIELD_NUMBER, .flags = LH_FIELD_BELOW_MAX, OF(LH_KIND_DGC),
	 AT(struct lh_compress_spec, momentum), .max = 1, .fallback = "0.9",
	 .doc = "of the momentum that is corrected, less than 1"},
	{.key = "nesterov", .type = LH_FIELD_BOOLEAN, OF(LH_KIND_DGC),
	 AT(struct lh_compress_spec, nesterov), .fallback = "false",
	 .doc = "look ahead along that momentum"},
	{.key = "clip_norm", .type = LH_FIELD_NUMBER, .flags = LH_FIELD_ABOVE_0, OF(LH_KIND_DGC),
	 AT(struct lh_compress_spec, clip_norm), .max = 1000000000,
	 .doc = "largest norm of a rank's own gradient; any where absent"},
	{.key = "warm_up", .type = LH_FIELD_INTEGER, OF(LH_KIND_DGC),
	 AT(struct lh_compress_spec, warm_up_epochs), .max = 1000000, .fallback = "0",
	 .doc = "epochs of each step in which the density falls to what it is to be"},
	{.key = "rank", .type = LH_FIELD_INTEGER, OF(LH_KIND_POWERSGD),
	 AT(struct lh_compress_spec, rank), .min = 1, .max = 64, .fallback = "2",
	 .doc = "of the matrices that stand for a gradient"},
	END,
};

const struct lh_section lh_compress_section = {
	"a compressor", "Form of the gradients on the wire.", sizeof(struct lh_compress_spec),
	LH_NO_OFFSET, NULL, LH_NO_OFFSET, compress_fields,
};

/* clang-format on */
