/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic gradient descent with momentum. Formula: trainer/device/update.h. */
#include "trainer/optim/optimizer_internal.h"

static const char *const state_names[] = {"momentum"};

static uint32_t count_states(const struct lh_optimizer_options *options)
{
	return options->momentum > 0;
}

static int check(const struct lh_optimizer_options *options, struct lh_error *err)
{
	if (options->nesterov && options->momentum == 0)
		return lh_fail(err, LH_EINPUT, 0,
			       "optimizer sgd: nesterov without momentum; expected a momentum "
			       "greater than 0");
	return lh_optimizer_check_range(options->kind, "momentum", options->momentum, 0, 1, err);
}

const struct lh_optimizer_kind lh_optimizer_sgd = {
	.name = "sgd",
	.doc = "gradient descent with momentum, or Nesterov's, as PyTorch's SGD",
	.rule = LH_RULE_SGD,
	.defaults = {.kind = "sgd", .lr = 0.1},
	.n_states = 1,
	.state_names = state_names,
	.count_states = count_states,
	.check = check,
};
