/* SPDX-License-Identifier: Apache-2.0 */
/* Replayed computing. See replay.h. */
#include "trainer/compute/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainer/clock.h"
#include "trainer/compute/compute.h"

static const double SIGMA_MAX = 3.0;

void lh_replay_init(struct lh_replay *replay, const struct lh_job *job, uint32_t rank)
{
	const struct lh_job_rank *me = &job->ranks[rank];
	char stream[32];

	snprintf(stream, sizeof(stream), "compute/%" PRIu32, rank);
	lh_rng_init(&replay->rng, job->seed, stream);
	replay->batch_ns = me->micro_batch / me->samples_per_s * (double)LH_NS_PER_S;
	replay->variation_ratio = me->variation_ratio;
	replay->accumulate_ns = me->accumulate_ns;
	replay->slow = me->slow;
	replay->n_slow = me->n_slow;
}

void lh_replay_renew(struct lh_replay *replay, uint64_t seed, uint32_t rank, uint32_t incarnation)
{
	char stream[48];

	snprintf(stream, sizeof(stream), "compute/%" PRIu32 "/%" PRIu32, rank, incarnation);
	lh_rng_init(&replay->rng, seed, stream);
}

int64_t lh_replay_stretch_ns(const struct lh_job_slow *slow, size_t n_slow, int64_t begin_ns,
			     int64_t work_ns)
{
	double at = 0, left = (double)work_ns; /* since begin_ns */

	for (size_t i = 0; i < n_slow; i++) {
		double from = (double)(slow[i].from_ns - begin_ns);
		double to = (double)(slow[i].to_ns - begin_ns);
		double begin = from > at ? from : at;

		if (to <= at)
			continue;
		if (begin - at >= left)
			break;
		left -= begin - at;
		at = begin;
		if (left * slow[i].factor <= to - at) {
			at += left * slow[i].factor;
			left = 0;
			break;
		}
		left -= (to - at) / slow[i].factor;
		at = to;
	}
	at += left;
	return at < (double)(INT64_MAX / 4) ? (int64_t)(at + 0.5) : INT64_MAX / 4;
}

int64_t lh_replay_next_ns(struct lh_replay *replay, int64_t begin_ns)
{
	double z = lh_rng_normal(&replay->rng);
	int64_t ns;

	if (z > SIGMA_MAX)
		z = SIGMA_MAX;
	if (z < -SIGMA_MAX)
		z = -SIGMA_MAX;
	ns = (int64_t)(replay->batch_ns * (1.0 + replay->variation_ratio * z) + 0.5);
	ns += replay->accumulate_ns;
	if (ns < 1)
		ns = 1;
	return replay->n_slow ? lh_replay_stretch_ns(replay->slow, replay->n_slow, begin_ns, ns)
			      : ns;
}

int64_t lh_replay_mean_ns(const struct lh_job_rank *rank)
{
	double batch_ns = rank->micro_batch / rank->samples_per_s * (double)LH_NS_PER_S;
	int64_t ns = (int64_t)(batch_ns + 0.5) + rank->accumulate_ns;

	return ns > 0 ? ns : 1;
}

/* ---- as computing ------------------------------------------------------------------------- */

struct replay {
	struct lh_replay times;
	uint64_t seed;
	uint32_t rank;
	uint64_t parameters;
};

static int open_replay(const struct lh_job *job, uint32_t rank, void **ret_state,
		       struct lh_error *err)
{
	struct replay *replay = calloc(1, sizeof(*replay));

	if (!replay)
		return lh_fail(err, LH_ESYS, ENOMEM, "replay");
	lh_replay_init(&replay->times, job, rank);
	replay->seed = job->seed;
	replay->rank = rank;
	replay->parameters = job->parameters;
	*ret_state = replay;
	return 0;
}

static struct lh_averaged replayed_vector(void *state)
{
	return (struct lh_averaged){.n = ((struct replay *)state)->parameters};
}

static int replay_micro_batch(void *state, int64_t *ret_ns, struct lh_error *err)
{
	(void)err;
	*ret_ns = lh_replay_next_ns(&((struct replay *)state)->times, lh_clock_now_ns());
	return 0;
}

static int nothing_to_average(void *state, uint64_t samples, struct lh_error *err)
{
	(void)state;
	(void)samples;
	(void)err;
	return 0;
}

static int no_weights_to_read(void *state, float *ret_weights, struct lh_error *err)
{
	(void)state;
	(void)ret_weights;
	(void)err;
	return 0;
}

static int no_weights_to_write(void *state, const float *weights, struct lh_error *err)
{
	(void)state;
	(void)weights;
	(void)err;
	return 0;
}

/* As an optimizer with two moments has it, in single precision. */
enum { STATE_BYTES_PER_PARAMETER = 3 * 4 };

static uint64_t replayed_state(void *state, uint64_t *ret_real_bytes)
{
	*ret_real_bytes = 0;
	return ((struct replay *)state)->parameters * STATE_BYTES_PER_PARAMETER;
}

static void renew_replay(void *state, uint32_t incarnation)
{
	struct replay *replay = state;

	lh_replay_renew(&replay->times, replay->seed, replay->rank, incarnation);
}

static int nothing_to_apply(void *state, struct lh_error *err)
{
	(void)state;
	(void)err;
	return 0;
}

static int nothing_learnt(void *state, uint32_t epoch, int64_t t_ns, struct lh_events *events,
			  struct lh_error *err)
{
	(void)state;
	(void)epoch;
	(void)t_ns;
	(void)events;
	(void)err;
	return 0;
}

static int nothing_left(void *state, int64_t t_ns, struct lh_events *events, struct lh_error *err)
{
	(void)state;
	(void)t_ns;
	(void)events;
	(void)err;
	return 0;
}

const struct lh_compute_ops lh_compute_replay = {
	.name = "replay",
	.doc = "measured compute times and the model's true bytes",
	.open = open_replay,
	.averaged = replayed_vector,
	.micro_batch = replay_micro_batch,
	.begin_average = nothing_to_average,
	.read_weights = no_weights_to_read,
	.write_weights = no_weights_to_write,
	.state_bytes = replayed_state,
	.renew = renew_replay,
	.apply = nothing_to_apply,
	.end_epoch = nothing_learnt,
	.finish = nothing_left,
	.close = free,
};
