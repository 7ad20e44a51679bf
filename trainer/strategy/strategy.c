/* SPDX-License-Identifier: Apache-2.0 */
/* The table of strategies. See strategy.h. */
#include "trainer/strategy/strategy.h"

#include <string.h>

#include "trainer/strategy/averaging.h"
#include "trainer/strategy/hierarchical_topk.h"
#include "trainer/strategy/sparse.h"
#include "trainer/strategy/sparse_form.h"

static const struct lh_strategy_ops butterfly = {
	.name = "butterfly",
	.doc = "all to all: reduce-scatter, then all-gather (Hivemind)",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_dense,
};

static const struct lh_strategy_ops ring = {
	.name = "ring",
	.doc = "all-reduce around a ring, as data-parallel training does it",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_dense,
};

static const struct lh_strategy_ops halving_doubling = {
	.name = "halving-doubling",
	.doc = "all-reduce by recursive halving and doubling: few delays",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_dense,
};

static const struct lh_strategy_ops tree = {
	.name = "tree",
	.doc = "all-reduce up and down two binary trees, in segments",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_dense,
};

static const struct lh_strategy_ops torus = {
	.name = "torus",
	.doc = "all-reduce by rings along the dimensions of a grid",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_dense,
};

static const struct lh_strategy_ops hierarchical = {
	.name = "hierarchical",
	.doc = "all-reduce inside nodes, inside sites, then across",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_dense,
};

static const struct lh_strategy_ops hivemind = {
	.name = "hivemind",
	.doc = "target batch by whoever is there: ranks may be lost, come late and come back",
	.is_elastic = true,
	.check = lh_elastic_check,
	.run = lh_elastic_run,
};

static const struct lh_strategy_ops moshpit = {
	.name = "moshpit",
	.doc = "weights averaged in small groups on a grid; ranks as with hivemind",
	.is_elastic = true,
	.check = lh_elastic_check,
	.run = lh_elastic_run,
};

const struct lh_strategy_ops lh_strategy_nccl = {
	.name = "ring",
	.doc = "all-reduce around a ring, by NCCL between GPUs",
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_nccl,
};

static const struct lh_strategy_ops sparse_allgather = {
	.name = "sparse-allgather",
	.doc = "every rank sends all others its largest gradients",
	.check = lh_sparse_form_check,
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_sparse_allgather,
	.takes_sparse = true,
};

static const struct lh_strategy_ops hierarchical_topk = {
	.name = "hierarchical-topk",
	.doc = "whole gradients inside nodes or sites, the largest of each share across",
	.check = lh_hierarchical_topk_check,
	.run = lh_target_batch_run,
	.averaging = &lh_averaging_hierarchical_topk,
	.takes_sparse = true,
};

const struct lh_strategy_ops *const lh_strategies[] = {
	&butterfly,
	&ring,
	&halving_doubling,
	&tree,
	&torus,
	&hierarchical,
	&sparse_allgather,
	&hierarchical_topk,
	&lh_strategy_local_sgd,
	&lh_strategy_diloco,
	&lh_strategy_d_psgd,
	&lh_strategy_ad_psgd,
	&lh_strategy_parameter_server,
	&hivemind,
	&moshpit,
	NULL,
};

const struct lh_strategy_ops *lh_strategy_find(const char *name)
{
	for (size_t i = 0; lh_strategies[i]; i++)
		if (strcmp(lh_strategies[i]->name, name) == 0)
			return lh_strategies[i];
	return NULL;
}
