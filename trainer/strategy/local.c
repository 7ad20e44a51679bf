/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy `local-sgd`: every rank steps by itself for `period` epochs, then all go on from the
 * mean of their weights. See synchronise.h.
 *
 * Source: Yu, Yang, Zhu, "Parallel Restarted SGD with Faster Convergence and Less Communication",
 * AAAI 2019, arXiv 1807.06629, Algorithm 1; Stich, "Local SGD Converges Fast and Communicates
 * Little", ICLR 2019.
 */
#include "trainer/strategy/strategy.h"
#include "trainer/strategy/synchronise.h"

static struct lh_synchronise_config config_of(const struct lh_job *job)
{
	return (struct lh_synchronise_config){
		.period = job->settings.period,
		.n_fragments = 1,
		.lr = 1,
	};
}

static int check(const struct lh_job *job, struct lh_error *err)
{
	struct lh_synchronise_config config = config_of(job);

	return lh_synchronise_check(job, &config, err);
}

static int run(struct lh_rank *rank, struct lh_error *err)
{
	struct lh_synchronise_config config = config_of(rank->job);

	return lh_synchronise_run(rank, &config, err);
}

const struct lh_strategy_ops lh_strategy_local_sgd = {
	.name = "local-sgd",
	.doc = "steps of their own, then the mean of the weights (parallel restarted SGD)",
	.check = check,
	.run = run,
};
