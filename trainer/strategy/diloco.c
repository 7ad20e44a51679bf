/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy `diloco`: every rank steps by itself for `period` epochs; the mean of how far they went
 * is the gradient of an outer optimizer, SGD with Nesterov momentum. Streaming: the fragments of
 * the model take turns, travel beside computing and are mixed in late. See synchronise.h.
 *
 * Source: Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models",
 * arXiv 2311.08105, Algorithm 1; "Streaming DiLoCo with overlapping communication", arXiv
 * 2501.18512, Algorithm 2.
 */
#include "trainer/strategy/strategy.h"
#include "trainer/strategy/synchronise.h"

static struct lh_synchronise_config config_of(const struct lh_job *job)
{
	const struct lh_strategy_settings *settings = &job->settings;
	bool is_streaming = settings->fragments > 1 || settings->fragment_delay > 0;

	return (struct lh_synchronise_config){
		.period = settings->period,
		.n_fragments = settings->fragments,
		.delay = settings->fragment_delay,
		.mix = is_streaming ? settings->fragment_mix : 0,
		.lr = settings->outer_lr,
		.momentum = settings->outer_momentum,
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

const struct lh_strategy_ops lh_strategy_diloco = {
	.name = "diloco",
	.doc = "steps of their own, then an outer optimizer's with the mean of the ways (DiLoCo)",
	.check = check,
	.run = run,
};
