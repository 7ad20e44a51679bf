/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent and what is remembered. See sparsifier.h. */
#include "trainer/compress/sparsifier.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainer/compress/kernels_sparse_internal.h"

enum { WARM_UP_SHRINKS = 4 }; /* from step to step, and to the first */

struct lh_sparsifier {
	struct lh_sparsifier_settings settings;
	float *residual; /* n; NULL without memory */
	float *velocity; /* n, with DGC's memory */
	void *scratch;
	struct lh_sparse message;
};

static int check(const struct lh_sparsifier_settings *s, struct lh_error *err)
{
	if (s->n < 1 || s->n > LH_SPARSE_ELEMENTS_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " elements; expected 1 to %d", s->n,
			       LH_SPARSE_ELEMENTS_MAX);
	if (!(s->density > 0 && s->density <= 1))
		return lh_fail(err, LH_EINPUT, 0, "density %g; expected above 0, up to 1",
			       s->density);
	if (!(s->momentum >= 0 && s->momentum < 1))
		return lh_fail(err, LH_EINPUT, 0, "momentum %g; expected 0 to below 1",
			       s->momentum);
	if (!(s->clip_norm >= 0 && isfinite(s->clip_norm)))
		return lh_fail(err, LH_EINPUT, 0, "clip_norm %g; expected 0 or more", s->clip_norm);
	if (s->warm_up_steps > LH_SPARSE_WARM_UP_MAX)
		return lh_fail(err, LH_EINPUT, 0, "%" PRIu32 " steps of warm-up; expected up to %d",
			       s->warm_up_steps, LH_SPARSE_WARM_UP_MAX);
	if (!s->n_ranks || !s->warm_up_rounds)
		return lh_fail(err, LH_EINPUT, 0, "%s is 0; expected 1 or more",
			       s->n_ranks ? "warm_up_rounds" : "n_ranks");
	if (s->memory != LH_MEMORY_DGC && (s->momentum > 0 || s->is_nesterov || s->clip_norm > 0))
		return lh_fail(err, LH_EINPUT, 0,
			       "momentum and clip_norm belong to the memory of DGC");
	return 0;
}

static double density_at(const struct lh_sparsifier_settings *s, uint32_t epoch)
{
	uint32_t step = epoch / s->warm_up_rounds;
	double warm;

	if (step >= s->warm_up_steps)
		return s->density;
	warm = pow(1.0 / WARM_UP_SHRINKS, step + 1);
	return warm > s->density ? warm : s->density;
}

uint32_t lh_sparsifier_count_by(const struct lh_sparsifier_settings *settings, uint32_t epoch)
{
	double count = round(density_at(settings, epoch) * settings->n);

	return count > 1 ? (uint32_t)count : 1;
}

uint32_t lh_sparsifier_count(const struct lh_sparsifier *s, uint32_t epoch)
{
	return lh_sparsifier_count_by(&s->settings, epoch);
}

static int allocate(struct lh_sparsifier *s, struct lh_error *err)
{
	const struct lh_sparsifier_settings *set = &s->settings;
	uint32_t first = lh_sparsifier_count(s, 0); /* the density never grows */

	s->scratch = malloc(set->choice->scratch_bytes(set->n, first));
	s->message.indices = calloc(first, sizeof(*s->message.indices));
	s->message.values = calloc(first, sizeof(*s->message.values));
	if (set->memory != LH_MEMORY_NONE)
		s->residual = calloc(set->n, sizeof(*s->residual));
	if (set->memory == LH_MEMORY_DGC)
		s->velocity = calloc(set->n, sizeof(*s->velocity));
	if (!s->scratch || !s->message.indices || !s->message.values ||
	    (set->memory != LH_MEMORY_NONE && !s->residual) ||
	    (set->memory == LH_MEMORY_DGC && !s->velocity))
		return lh_fail(err, LH_ESYS, ENOMEM, "sparsifier of %" PRIu32 " elements", set->n);
	return 0;
}

int lh_sparsifier_new(const struct lh_sparsifier_settings *settings, struct lh_sparsifier **ret,
		      struct lh_error *err)
{
	struct lh_sparsifier *s;
	int rc = check(settings, err);

	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return lh_fail(err, LH_ESYS, ENOMEM, "sparsifier");
	s->settings = *settings;
	rc = allocate(s, err);
	if (rc) {
		lh_sparsifier_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void lh_sparsifier_free(struct lh_sparsifier *s)
{
	if (!s)
		return;
	free(s->residual);
	free(s->velocity);
	free(s->scratch);
	free(s->message.indices);
	free(s->message.values);
	free(s);
}

static void accumulate_momentum(struct lh_sparsifier *s, const float *gradient)
{
	const struct lh_sparsifier_settings *set = &s->settings;
	struct lh_momentum m = {
		.factor = (float)set->momentum, .scale = 1, .is_nesterov = set->is_nesterov};

	if (set->clip_norm > 0) {
		double most = set->clip_norm / sqrt(set->n_ranks);
		double norm = sqrt(lh_sparse_kernels()->sum_of_squares(gradient, set->n));

		if (norm > most)
			m.scale = (float)(most / norm);
	}
	lh_sparse_kernels()->momentum(gradient, set->n, &m, s->velocity, s->residual);
}

/* What the message is taken from. */
static const float *accumulate(struct lh_sparsifier *s, const float *gradient)
{
	switch (s->settings.memory) {
	case LH_MEMORY_RESIDUAL:
		lh_sparse_kernels()->add(gradient, s->settings.n, s->residual);
		return s->residual;
	case LH_MEMORY_DGC:
		accumulate_momentum(s, gradient);
		return s->residual;
	case LH_MEMORY_NONE:
		break;
	}
	return gradient;
}

static void start_stream(const struct lh_sparsifier_settings *s, uint32_t epoch, struct lh_rng *ret)
{
	char stream[64];

	if (s->is_choice_shared)
		snprintf(stream, sizeof(stream), "sparse/all/%" PRIu32, epoch);
	else
		snprintf(stream, sizeof(stream), "sparse/%" PRIu32 "/%" PRIu32, s->rank, epoch);
	lh_rng_init(ret, s->seed, stream);
}

const struct lh_sparse *lh_sparsifier_take(struct lh_sparsifier *s, const float *gradient,
					   uint32_t epoch)
{
	const float *from = accumulate(s, gradient);
	struct lh_sparse *message = &s->message;
	struct lh_rng rng;
	const struct lh_sparse_choice choice = {
		.k = lh_sparsifier_count(s, epoch), .rng = &rng, .scratch = s->scratch};

	start_stream(&s->settings, epoch, &rng);
	s->settings.choice->select(from, s->settings.n, &choice, message);
	for (size_t i = 0; s->residual && i < message->count; i++)
		s->residual[message->indices[i]] = 0;
	for (size_t i = 0; s->velocity && i < message->count; i++)
		s->velocity[message->indices[i]] = 0;
	return message;
}

void lh_sparsifier_give_back(struct lh_sparsifier *s, const struct lh_sparse *message)
{
	if (s->residual)
		lh_sparse_add(message, 1, s->residual);
}

const float *lh_sparsifier_residual(const struct lh_sparsifier *s)
{
	return s->residual;
}
