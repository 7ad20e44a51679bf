/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronisation strategies: the loop of one rank, from its first connection to its last event.
 * The table below is the only list, and feeds the job reader, the help and the scenario schema's
 * enum.
 */
#ifndef LH_TRAINER_STRATEGY_H
#define LH_TRAINER_STRATEGY_H

#include "core/error.h"
#include "trainer/rank.h"

struct lh_averaging_ops;

struct lh_strategy_ops {
	const char *name;
	const char *doc; /* one line */
	/* What the job says that this strategy cannot do. LH_EINPUT. NULL: nothing to check. */
	int (*check)(const struct lh_job *job, struct lh_error *err);
	/* All epochs of a rank whose computing is open. LH_ESYS, LH_ERUN; what it opened is closed.
	 */
	int (*run)(struct lh_rank *rank, struct lh_error *err);
	const struct lh_averaging_ops *averaging; /* of gradients, or NULL */
	/* Steps of a rank's optimizer in all, which the schedule of its learning rate spans. NULL:
	 * one an epoch. */
	uint64_t (*count_steps)(const struct lh_job *job);
	bool is_elastic;   /* ranks may be lost, come late and come back */
	bool takes_sparse; /* gradients may be sent in part: compressors of sparse_form.h */
};

/* All strategies, the default first, NULL at the end. */
extern const struct lh_strategy_ops *const lh_strategies[];

extern const struct lh_strategy_ops lh_strategy_parameter_server;

/* `ring` with the transport nccl, which is none of them. */
extern const struct lh_strategy_ops lh_strategy_nccl;

extern const struct lh_strategy_ops lh_strategy_local_sgd;
extern const struct lh_strategy_ops lh_strategy_diloco;
extern const struct lh_strategy_ops lh_strategy_d_psgd;
extern const struct lh_strategy_ops lh_strategy_ad_psgd;

/* The strategy of that name, or NULL. */
const struct lh_strategy_ops *lh_strategy_find(const char *name);

/* The loop of strategies that average gradients: see target_batch.c. */
int lh_target_batch_run(struct lh_rank *rank, struct lh_error *err);

/* The loop of strategies whose groups change: see elastic.c; and what it cannot do. */
int lh_elastic_check(const struct lh_job *job, struct lh_error *err);
int lh_elastic_run(struct lh_rank *rank, struct lh_error *err);

#endif
