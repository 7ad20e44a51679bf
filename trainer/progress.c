/* SPDX-License-Identifier: Apache-2.0 */
/* Progress towards the target batch. See progress.h. */
#include "trainer/progress.h"

#include <inttypes.h>
#include <string.h>

#include "trainer/compute/replay.h"

enum {
	TIE_SHARE = 32, /* of a step */
	/* No rank can have done so many; keeps sums of garbage from overflowing. */
	SAMPLES_MAX_LOG2 = 48,
};

static const double STEP_WEIGHT = 0.1;

void lh_progress_init(struct lh_progress *p, const struct lh_job *job, uint32_t self)
{
	int64_t least_ns = INT64_MAX;

	memset(p, 0, sizeof(*p));
	p->n = job->n_ranks;
	p->self = self;
	p->target = job->target_batch;
	for (uint32_t rank = 0; rank < p->n; rank++) {
		p->micro_batch[rank] = job->ranks[rank].micro_batch;
		p->step_ns[rank] = lh_replay_mean_ns(&job->ranks[rank]);
		if (p->step_ns[rank] < least_ns)
			least_ns = p->step_ns[rank];
	}
	for (uint32_t rank = 0; rank < p->n; rank++)
		p->is_fast[rank] = p->step_ns[rank] / 2 < least_ns;
}

void lh_progress_begin_epoch(struct lh_progress *p, uint32_t epoch, int64_t now_ns)
{
	p->epoch = epoch;
	memcpy(p->news, p->next, sizeof(p->news));
	memset(p->next, 0, sizeof(p->next));
	for (uint32_t rank = 0; rank < p->n; rank++)
		if (!p->news[rank].has_any)
			p->news[rank].at_ns = now_ns;
}

int lh_progress_note(struct lh_progress *p, uint32_t peer, uint32_t epoch,
		     const struct lh_progress_news *news, int64_t step_ns, int64_t now_ns,
		     struct lh_error *err)
{
	struct lh_progress_news *known = epoch == p->epoch ? &p->news[peer] : &p->next[peer];

	if (epoch != p->epoch && epoch != p->epoch + 1)
		return lh_fail(err, LH_ERUN, 0,
			       "news of epoch %" PRIu32 " while this rank is in epoch %" PRIu32,
			       epoch, p->epoch);
	if (news->samples < known->samples || news->samples >> SAMPLES_MAX_LOG2 || step_ns < 1)
		return lh_fail(err, LH_ERUN, 0,
			       "impossible news: %" PRIu64 " samples after %" PRIu64 ", %" PRId64
			       " ns a step",
			       news->samples, known->samples, step_ns);
	if (news->is_stopped && !known->is_stopped)
		known->samples_at_stop = news->samples;
	if (news->is_joined && !known->is_joined)
		known->joined_ns = now_ns;
	known->has_any = true;
	known->samples = news->samples;
	known->at_ns = news->at_ns;
	known->is_stopped = known->is_stopped || news->is_stopped;
	known->is_joined = known->is_joined || news->is_joined;
	p->step_ns[peer] = step_ns;
	return 0;
}

void lh_progress_advance(struct lh_progress *p, int64_t at_ns, int64_t step_ns)
{
	struct lh_progress_news *mine = &p->news[p->self];
	int64_t change_ns = step_ns - p->step_ns[p->self];

	mine->samples += p->micro_batch[p->self];
	mine->at_ns = at_ns;
	p->step_ns[p->self] += (int64_t)((double)change_ns * STEP_WEIGHT);
}

void lh_progress_stop(struct lh_progress *p)
{
	struct lh_progress_news *mine = &p->news[p->self];

	if (!mine->is_stopped)
		mine->samples_at_stop = mine->samples;
	mine->is_stopped = true;
}

/* Samples that a peer has done or under way at now_ns, left_ns before the target. */
static uint64_t committed(const struct lh_progress *p, uint32_t peer, int64_t now_ns,
			  int64_t left_ns)
{
	const struct lh_progress_news *news = &p->news[peer];
	int64_t step_ns = p->step_ns[peer], tie_ns = step_ns / TIE_SHARE;
	int64_t sure_ns = now_ns - tie_ns - news->at_ns;
	uint64_t n_begun = 1;

	if (news->is_stopped)
		return news->samples;
	if (sure_ns > 0)
		n_begun += (uint64_t)((sure_ns - 1) / step_ns);
	if (peer < p->self && news->at_ns + (int64_t)n_begun * step_ns <= now_ns + tie_ns)
		n_begun++;
	/* The last begin may have been too late to be worth it. */
	if (n_begun > 1 && !p->is_fast[peer] &&
	    now_ns + left_ns - (news->at_ns + (int64_t)(n_begun - 1) * step_ns) < step_ns / 2)
		n_begun--;
	return news->samples + n_begun * p->micro_batch[peer];
}

/* Fast ranks that have stopped, had counted all: what is missing is theirs to fill in. */
static bool has_fast_at_work(const struct lh_progress *p)
{
	for (uint32_t rank = 0; rank < p->n; rank++)
		if (p->is_fast[rank] && !p->news[rank].is_stopped)
			return true;
	return false;
}

bool lh_progress_should_begin(const struct lh_progress *p, int64_t now_ns)
{
	uint64_t sum = p->news[p->self].samples;
	int64_t left_ns = lh_progress_left_ns(p, now_ns);

	if (!p->is_fast[p->self] && (left_ns < p->step_ns[p->self] / 2 || !has_fast_at_work(p)))
		return false;
	for (uint32_t peer = 0; peer < p->n; peer++)
		if (peer != p->self)
			sum += committed(p, peer, now_ns, left_ns);
	return sum < p->target;
}

int64_t lh_progress_left_ns(const struct lh_progress *p, int64_t now_ns)
{
	double done = 0, per_ns = 0, left;

	for (uint32_t rank = 0; rank < p->n; rank++) {
		const struct lh_progress_news *news = &p->news[rank];
		double rate = (double)p->micro_batch[rank] / (double)p->step_ns[rank];

		done += (double)news->samples;
		if (news->is_stopped)
			continue;
		if (now_ns > news->at_ns)
			done += rate * (double)(now_ns - news->at_ns);
		per_ns += rate;
	}
	left = (double)p->target - done;
	return left > 0 && per_ns > 0 ? (int64_t)(left / per_ns) : 0;
}

bool lh_progress_has_all_stopped(const struct lh_progress *p)
{
	for (uint32_t rank = 0; rank < p->n; rank++)
		if (!p->news[rank].is_stopped)
			return false;
	return true;
}

/* Micro-batches that rank has yet to do where all together have done sum. */
static uint64_t owed_after(const struct lh_progress *p, uint32_t rank, uint64_t sum)
{
	uint64_t round = 0, owed;

	for (uint32_t i = 0; i < p->n; i++)
		round += p->is_fast[i] ? p->micro_batch[i] : 0;
	if (sum >= p->target)
		return 0;
	owed = (p->target - sum) / round;
	sum += owed * round;
	if (!p->is_fast[rank])
		return 0;
	for (uint32_t i = 0; i < p->n && sum < p->target; i++) {
		uint32_t turn = (p->epoch + i) % p->n;

		if (!p->is_fast[turn])
			continue;
		sum += p->micro_batch[turn];
		if (turn == rank)
			owed++;
	}
	return owed;
}

uint64_t lh_progress_owed(const struct lh_progress *p, uint32_t rank)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->n; i++)
		sum += p->news[i].samples_at_stop;
	return owed_after(p, rank, sum);
}

uint64_t lh_progress_share(const struct lh_progress *p, uint32_t rank)
{
	return owed_after(p, rank, 0);
}

bool lh_progress_is_complete(const struct lh_progress *p)
{
	if (!lh_progress_has_all_stopped(p))
		return false;
	for (uint32_t rank = 0; rank < p->n; rank++) {
		const struct lh_progress_news *news = &p->news[rank];
		uint64_t owed = lh_progress_owed(p, rank) * p->micro_batch[rank];

		if (news->samples < news->samples_at_stop + owed)
			return false;
	}
	return true;
}

bool lh_progress_has_all_joined(const struct lh_progress *p)
{
	for (uint32_t rank = 0; rank < p->n; rank++)
		if (!p->news[rank].is_joined)
			return false;
	return true;
}
