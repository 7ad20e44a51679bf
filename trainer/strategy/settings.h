/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of strategies and compressors, as the job file has them. Which belong to which
 * kind is checked where scenarios are read; here each has its bounds, and what is absent its
 * default. Pure data.
 */
#ifndef LH_TRAINER_STRATEGY_SETTINGS_H
#define LH_TRAINER_STRATEGY_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

enum {
	LH_STRATEGY_DIMENSIONS_MAX = 8,
	LH_STRATEGY_WORD_MAX = 32, /* bytes of a word, with the NUL */
	LH_COMPRESS_RANK_MAX = 64, /* of powersgd */
};

/* Who computes how much of the target batch. */
enum lh_balance {
	LH_BALANCE_DYNAMIC, /* all compute until it is reached together, and tell each other */
	LH_BALANCE_FIXED,   /* each its share, without a word */
};

/* The order of a ring. */
enum lh_ring_order {
	LH_ORDER_GIVEN,	   /* by rank */
	LH_ORDER_SHORTEST, /* the cheapest round trip by the job's paths */
};

/* How a butterfly's shards are cut. */
enum lh_shards {
	LH_SHARDS_EQUAL,
	LH_SHARDS_BANDWIDTH, /* by the ranks' bandwidths */
};

/* What parameter servers exchange. */
enum lh_exchange {
	LH_EXCHANGE_ASGD,      /* the gradient of every update */
	LH_EXCHANGE_ASGD_GA,   /* gradients added up over `period` updates */
	LH_EXCHANGE_AVERAGING, /* the weights, after `period` updates */
};

/* Who gossips with whom. */
enum lh_gossip_graph {
	LH_GRAPH_RING,
	LH_GRAPH_EXPONENTIAL, /* rank + 2^k */
	LH_GRAPH_COMPLETE,
};

struct lh_strategy_settings {
	int64_t matchmaking_ns;
	bool delayed_update;
	enum lh_balance balance;
	uint32_t streams;      /* TCP connections per peer, 1..LH_COMM_STREAMS_MAX */
	uint64_t bucket_bytes; /* of fp32 gradients; 0: the whole vector at once */
	bool overlap;	       /* buckets travel beside the backward pass */
	enum lh_ring_order order;
	enum lh_shards shards;
	uint64_t segment_bytes;				 /* of a tree's pipeline */
	uint32_t dimensions[LH_STRATEGY_DIMENSIONS_MAX]; /* torus, moshpit's grid */
	uint32_t n_dimensions;
	bool has_node_level;		       /* hierarchical: inside the node first, */
	bool has_site_level;		       /* inside the site next */
	char collective[LH_STRATEGY_WORD_MAX]; /* which all-reduce averages weights, by kind */
	uint32_t period;		       /* epochs from one synchronisation to the next */
	double outer_lr;
	double outer_momentum;
	uint32_t fragments;
	uint32_t fragment_delay; /* epochs from sending a fragment to merging it */
	double fragment_mix;	 /* weight of the local values in the merge */
	enum lh_gossip_graph graph;
	enum lh_exchange exchange;
	bool asynchronous;
	uint32_t min_group;
	uint32_t rounds;    /* moshpit: averaging rounds per epoch */
	int64_t timeout_ns; /* of one averaging; then its group is formed anew */
	int64_t heartbeat_ns;
};

struct lh_compress_settings {
	char kind[LH_STRATEGY_WORD_MAX];
	double density_ratio;	 /* of sparsifiers */
	bool feedback;		 /* keeps what was not sent */
	double momentum;	 /* dgc */
	bool nesterov;		 /* dgc */
	double clip_norm;	 /* dgc; 0: none */
	uint32_t warm_up_epochs; /* dgc: each step of its warm-up of density lasts as long */
	uint32_t rank;		 /* powersgd */
};

/* Reads the job's `strategy` but for its `kind`, which is the caller's; name: its path in messages,
 * "strategy". LH_EINPUT with the key, what stands there and what is expected. */
int lh_strategy_settings_read(const json_t *object, const char *name,
			      struct lh_strategy_settings *ret_settings, struct lh_error *err);

/* Reads the job's `compress`, `kind` included, which is not looked up. */
int lh_compress_settings_read(const json_t *object, const char *name,
			      struct lh_compress_settings *ret_settings, struct lh_error *err);

#endif
