/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic loss scaling. See loss_scale.h. */
#include "trainer/optim/loss_scale.h"

void lh_loss_scale_init(struct lh_loss_scale *scale)
{
	*scale = (struct lh_loss_scale){
		.scale = 1 << 16, .min = 1, .max = 1 << 24, .growth_steps = 2000};
}

void lh_loss_scale_init_none(struct lh_loss_scale *scale)
{
	*scale = (struct lh_loss_scale){.scale = 1, .min = 1, .max = 1};
}

bool lh_loss_scale_update(struct lh_loss_scale *scale, bool is_finite)
{
	if (!is_finite) {
		scale->skipped_steps++;
		scale->good_steps = 0;
		if (scale->scale <= scale->min)
			return false;
		scale->scale /= 2;
		return true;
	}
	scale->good_steps++;
	if (scale->growth_steps && scale->good_steps >= scale->growth_steps) {
		scale->good_steps = 0;
		if (scale->scale < scale->max)
			scale->scale *= 2;
	}
	return true;
}
