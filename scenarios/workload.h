/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes do: strategy, compressor, training, or a program. Plain data. */
#ifndef LH_SCENARIOS_WORKLOAD_H
#define LH_SCENARIOS_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scenarios/machine.h"

struct lh_yaml;

enum lh_mode { LH_MODE_REPLAY, LH_MODE_TRAIN };

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

#endif
