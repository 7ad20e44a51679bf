/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic loss scaling for half precision: the loss is multiplied by a scale so that small
 * gradients do not vanish; where gradients overflow the step is left out and the scale halved;
 * after growth_steps good steps in a row it is doubled. Source: arXiv 1710.03740, section 3.2.
 *
 * Use: lh_graph_backward(..., scale.scale), lh_optimizer_step(..., divisor * scale.scale,
 * &norm), lh_loss_scale_update(&scale, isfinite(norm)).
 */
#ifndef LH_TRAINER_LOSS_SCALE_H
#define LH_TRAINER_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

struct lh_loss_scale {
	double scale;	       /* a power of two: dividing by it is exact */
	double min, max;       /* powers of two; min = max: static */
	uint32_t growth_steps; /* 0: never grows */
	uint32_t good_steps;   /* since the last change */
	uint64_t skipped_steps;
};

/* fp16's usual: begins at 2^16, within 2^0 ... 2^24, grows after 2,000 steps. */
void lh_loss_scale_init(struct lh_loss_scale *scale);

/* Scale 1 for good: of fp32 and bf16. */
void lh_loss_scale_init_none(struct lh_loss_scale *scale);

/* After a step whose gradients were finite or not. False: they are not though the scale is as small
 * as it may be, so training has diverged. */
bool lh_loss_scale_update(struct lh_loss_scale *scale, bool is_finite);

#endif
