/* SPDX-License-Identifier: Apache-2.0 */
/* Momentum with a learning rate per tensor in proportion to its norm over its gradient's. Formula:
 * trainer/device/update.h. */
#include "trainer/optim/optimizer_internal.h"

static const char *const state_names[] = {"momentum"};

static int check(const struct lh_optimizer_options *options, struct lh_error *err)
{
	int rc = lh_optimizer_check_range(options->kind, "momentum", options->momentum, 0, 1, err);

	return rc ? rc : lh_optimizer_check_positive(options->kind, "trust", options->trust, err);
}

const struct lh_optimizer_kind lh_optimizer_lars = {
	.name = "lars",
	.doc = "layer-wise adaptive rates for large batches",
	.rule = LH_RULE_LARS,
	.defaults = {.kind = "lars", .lr = 1, .momentum = 0.9, .trust = 0.001, .adapts_all = true},
	.n_states = 1,
	.state_names = state_names,
	.check = check,
};
