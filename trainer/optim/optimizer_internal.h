/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the optimizers share. */
#ifndef LH_TRAINER_OPTIMIZER_INTERNAL_H
#define LH_TRAINER_OPTIMIZER_INTERNAL_H

#include "trainer/optim/optimizer.h"

extern const struct lh_optimizer_kind lh_optimizer_sgd;
extern const struct lh_optimizer_kind lh_optimizer_adamw;
extern const struct lh_optimizer_kind lh_optimizer_lamb;
extern const struct lh_optimizer_kind lh_optimizer_lars;

/* LH_EINPUT unless value is in [min, below): of hyper-parameters; optimizer is its kind. */
int lh_optimizer_check_range(const char *optimizer, const char *name, double value, double min,
			     double below, struct lh_error *err);

/* The same for a value that must be greater than 0. */
int lh_optimizer_check_positive(const char *optimizer, const char *name, double value,
				struct lh_error *err);

/* beta1, beta2 and eps, and their state vectors: of AdamW and LAMB. */
int lh_optimizer_check_moments(const struct lh_optimizer_options *options, struct lh_error *err);
extern const char *const lh_optimizer_moment_names[];

#endif
