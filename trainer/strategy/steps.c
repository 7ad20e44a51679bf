/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of a rank that steps by itself. See steps.h. */
#include "trainer/strategy/steps.h"

#include <errno.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "trainer/clock.h"
#include "trainer/compute/compute.h"

int lh_steps_init(struct lh_steps *ret_steps, struct lh_rank *rank, struct lh_error *err)
{
	*ret_steps = (struct lh_steps){.rank = rank};
	lh_progress_init(&ret_steps->progress, rank->job, rank->self);
	ret_steps->samples = calloc(rank->n, sizeof(*ret_steps->samples));
	return ret_steps->samples ? 0 : lh_fail(err, LH_ESYS, ENOMEM, "start a rank");
}

void lh_steps_done(struct lh_steps *steps)
{
	free(steps->samples);
	steps->samples = NULL;
}

void lh_steps_begin(struct lh_steps *steps, uint32_t epoch)
{
	struct lh_progress *p = &steps->progress;

	lh_progress_begin_epoch(p, epoch, steps->rank->epoch_begin_ns);
	steps->total = 0;
	for (uint32_t rank = 0; rank < p->n; rank++) {
		steps->samples[rank] = lh_progress_share(p, rank) * p->micro_batch[rank];
		steps->total += steps->samples[rank];
	}
}

/* One micro-batch from *at_ns on, which becomes its end. */
static int compute_one(struct lh_steps *steps, int64_t *at_ns, struct lh_error *err)
{
	const struct lh_rank *rank = steps->rank;
	int64_t step_ns, end_ns;
	int rc = rank->compute->micro_batch(rank->computing, &step_ns, err);

	if (rc)
		return rc;
	/* in real time the arithmetic may take longer than the profile says */
	end_ns = *at_ns + step_ns;
	if (end_ns < lh_clock_now_ns())
		end_ns = lh_clock_now_ns();
	lh_clock_sleep_until(end_ns);
	*at_ns = end_ns;
	return steps->check ? steps->check(steps->checked, err) : 0;
}

int lh_steps_compute(struct lh_steps *steps, struct lh_error *err)
{
	struct lh_rank *rank = steps->rank;
	uint64_t own = steps->samples[rank->self];
	uint64_t n = own / steps->progress.micro_batch[rank->self];
	int64_t at_ns = rank->epoch_begin_ns;
	int rc = 0;

	rank->doing = "computing";
	for (uint64_t i = 0; rc == 0 && i < n; i++)
		rc = compute_one(steps, &at_ns, err);
	steps->compute_end_ns = at_ns;
	if (rc == 0 && n)
		rc = rank->compute->begin_average(rank->computing, own, err);
	return rc ? rc
		  : lh_rank_write_compute(rank, steps->progress.epoch, at_ns, own, n,
					  lh_clock_now_ns(), err);
}

int lh_steps_apply(struct lh_steps *steps, struct lh_error *err)
{
	struct lh_rank *rank = steps->rank;
	int64_t begin_ns = lh_clock_now_ns(), end_ns;
	int rc;

	if (!steps->samples[rank->self])
		return 0;
	rank->doing = "applying";
	rc = steps->apply ? steps->apply(steps->applied, err)
			  : rank->compute->apply(rank->computing, err);
	if (rc)
		return rc;
	lh_clock_sleep_until(begin_ns + rank->me->apply_ns);
	end_ns = lh_clock_now_ns();
	return lh_rank_write_apply(rank, steps->progress.epoch, begin_ns, end_ns, true, end_ns,
				   err);
}

int lh_steps_end(struct lh_steps *steps, struct lh_error *err)
{
	return lh_rank_end_epoch(steps->rank, steps->progress.epoch, steps->total, err);
}

int lh_steps_want(const struct lh_rank *rank, const struct lh_averaging_ops *averaging,
		  uint64_t n_values, uint8_t *wanted, struct lh_error *err)
{
	lh_cleanup_free bool *has_data = calloc(rank->n, sizeof(*has_data));
	int rc = 0;

	if (!has_data)
		return lh_fail(err, LH_ESYS, ENOMEM, "list peers");
	if (averaging->peers)
		rc = averaging->peers(rank, n_values, has_data, err);
	for (uint32_t peer = 0; rc == 0 && peer < rank->n; peer++)
		if (!averaging->peers || has_data[peer])
			wanted[peer] |= LH_MESH_DATA;
	return rc;
}
