/* SPDX-License-Identifier: Apache-2.0 */
/* Adam with decoupled weight decay. Formula: trainer/device/update.h. */
#include "trainer/optim/optimizer_internal.h"

const char *const lh_optimizer_moment_names[] = {"exp_avg", "exp_avg_sq"};

int lh_optimizer_check_moments(const struct lh_optimizer_options *options, struct lh_error *err)
{
	int rc = lh_optimizer_check_range(options->kind, "beta1", options->beta1, 0, 1, err);

	if (rc == 0)
		rc = lh_optimizer_check_range(options->kind, "beta2", options->beta2, 0, 1, err);
	if (rc == 0)
		rc = lh_optimizer_check_positive(options->kind, "eps", options->eps, err);
	return rc;
}

const struct lh_optimizer_kind lh_optimizer_adamw = {
	.name = "adamw",
	.doc = "Adam with decoupled weight decay, as PyTorch's AdamW",
	.rule = LH_RULE_ADAMW,
	.defaults = {.kind = "adamw",
		     .lr = 1e-3,
		     .beta1 = 0.9,
		     .beta2 = 0.999,
		     .eps = 1e-8,
		     .weight_decay = 0.01},
	.n_states = 2,
	.state_names = lh_optimizer_moment_names,
	.check = lh_optimizer_check_moments,
};
