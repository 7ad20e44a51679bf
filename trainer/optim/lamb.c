/* SPDX-License-Identifier: Apache-2.0 */
/* Adam's direction with a step per tensor in proportion to its norm. Formula:
 * trainer/device/update.h. */
#include "trainer/optim/optimizer_internal.h"

const struct lh_optimizer_kind lh_optimizer_lamb = {
	.name = "lamb",
	.doc = "layer-wise adaptive moments for large batches",
	.rule = LH_RULE_LAMB,
	.defaults = {.kind = "lamb",
		     .lr = 1e-3,
		     .beta1 = 0.9,
		     .beta2 = 0.999,
		     .eps = 1e-6,
		     .weight_decay = 0.01,
		     .adapts_all = true},
	.n_states = 2,
	.state_names = lh_optimizer_moment_names,
	.check = lh_optimizer_check_moments,
};
