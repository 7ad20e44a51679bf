/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of the optimizers on a CPU, in single precision. Formulas: trainer/device/update.h.
 *
 * Segments are cut into chunks of a fixed length, which threads share; a sum is that of its
 * chunks in their order, and a chunk's is that of 16 lanes, so that results depend neither on the
 * number of threads nor on the width of the machine's vectors.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/device/update.h"

enum {
	CHUNK_ELEMENTS = 16384, /* four vectors of these fit a second-level cache */
	BLOCK_ELEMENTS = 256,	/* of what is computed only to be added up */
	LANES = 16,
};

struct chunk {
	int64_t at;
	int64_t n;
	uint32_t segment;
	double w_squares, step_squares; /* LAMB, LARS: sums over the chunk */
};

struct plan {
	uint32_t n_segments;
	struct lh_segment *segments;
	double *ratios; /* by segment: LAMB, LARS */
	int64_t n_chunks;
	struct chunk *chunks;
};

/* ---- chunks --------------------------------------------------------------------------------- */

static void done(struct lh_device *device, void *plan)
{
	struct plan *p = plan;

	(void)device;
	if (!p)
		return;
	free(p->segments);
	free(p->ratios);
	free(p->chunks);
	free(p);
}

static void cut(struct plan *p)
{
	struct chunk *chunk = p->chunks;

	for (uint32_t s = 0; s < p->n_segments; s++) {
		int64_t end = p->segments[s].at + p->segments[s].n;

		for (int64_t at = p->segments[s].at; at < end; at += CHUNK_ELEMENTS)
			*chunk++ = (struct chunk){.at = at,
						  .n = end - at < CHUNK_ELEMENTS ? end - at
										 : CHUNK_ELEMENTS,
						  .segment = s};
	}
}

static int prepare(struct lh_device *device, const struct lh_segment *segments, uint32_t n_segments,
		   void **ret_plan, struct lh_error *err)
{
	struct plan *p = calloc(1, sizeof(*p));
	size_t n = n_segments + !n_segments;

	if (!p)
		return lh_fail(err, LH_ESYS, 0, "no memory for a plan of updates");
	p->n_segments = n_segments;
	for (uint32_t s = 0; s < n_segments; s++)
		p->n_chunks += (segments[s].n + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS;
	p->segments = calloc(n, sizeof(*p->segments));
	p->ratios = calloc(n, sizeof(*p->ratios));
	p->chunks = calloc((size_t)p->n_chunks + 1, sizeof(*p->chunks));
	if (!p->segments || !p->ratios || !p->chunks) {
		done(device, p);
		return lh_fail(err, LH_ESYS, 0, "no memory for a plan of updates");
	}
	memcpy(p->segments, segments, n_segments * sizeof(*segments));
	cut(p);
	*ret_plan = p;
	return 0;
}

/* The numbers that AdamW and LAMB take from an update, each rounded once. */
struct adam {
	float scale, beta1, beta2, beta1_rest, beta2_rest, eps;
	float mean_factor; /* 1 / (1 - beta1^t) */
	float root_factor; /* 1 / sqrt(1 - beta2^t) */
};

struct work {
	struct plan *plan;
	const struct lh_update *update;
	const float *x;
	struct adam adam;
};

typedef void (*chunk_function)(const struct work *work, struct chunk *chunk);

static void for_chunks(const struct lh_device *device, const struct work *work,
		       chunk_function function)
{
	struct plan *p = work->plan;

#pragma omp parallel for schedule(static) num_threads((int)device->n_threads)
	for (int64_t i = 0; i < p->n_chunks; i++)
		function(work, &p->chunks[i]);
}

/* ---- sums ----------------------------------------------------------------------------------- */

struct lanes {
	double sums[LANES];
};

/* Of several calls for one sum, all but the last have an n that is a multiple of LANES. */
static void add_squares(struct lanes *lanes, const float *restrict x, int64_t n)
{
	double sums[LANES];
	int64_t i = 0;

	memcpy(sums, lanes->sums, sizeof(sums));
	for (; i + LANES <= n; i += LANES)
		for (int j = 0; j < LANES; j++)
			sums[j] += (double)x[i + j] * (double)x[i + j];
	for (int j = 0; i + j < n; j++)
		sums[j] += (double)x[i + j] * (double)x[i + j];
	memcpy(lanes->sums, sums, sizeof(sums));
}

static double fold(const struct lanes *lanes)
{
	double sums[LANES];

	memcpy(sums, lanes->sums, sizeof(sums));
	for (int width = LANES / 2; width > 0; width /= 2)
		for (int j = 0; j < width; j++)
			sums[j] += sums[j + width];
	return sums[0];
}

static double sum_of_squares(const float *x, int64_t n)
{
	struct lanes lanes = {{0}};

	add_squares(&lanes, x, n);
	return fold(&lanes);
}

static void sum_chunk(const struct work *work, struct chunk *chunk)
{
	chunk->w_squares = sum_of_squares(work->x + chunk->at, chunk->n);
}

static int sum_squares(struct lh_device *device, void *plan, const void *x, double *ret_sums,
		       struct lh_error *err)
{
	struct work work = {.plan = plan, .x = x};

	(void)err;
	for_chunks(device, &work, sum_chunk);
	memset(ret_sums, 0, work.plan->n_segments * sizeof(*ret_sums));
	for (int64_t i = 0; i < work.plan->n_chunks; i++)
		ret_sums[work.plan->chunks[i].segment] += work.plan->chunks[i].w_squares;
	return 0;
}

static double decay_of(const struct work *work, const struct chunk *chunk)
{
	const struct lh_segment *segment = &work->plan->segments[chunk->segment];

	return segment->has_decay ? work->update->weight_decay : 0;
}

/* Each segment's ratio from its chunks' sums. */
static void find_ratios(const struct work *work,
			double (*ratio)(const struct work *work, uint32_t segment, double w_squares,
					double step_squares))
{
	struct plan *p = work->plan;
	struct chunk *chunk = p->chunks;

	for (uint32_t s = 0; s < p->n_segments; s++) {
		double w_squares = 0, step_squares = 0;

		for (; chunk < p->chunks + p->n_chunks && chunk->segment == s; chunk++) {
			w_squares += chunk->w_squares;
			step_squares += chunk->step_squares;
		}
		p->ratios[s] = p->segments[s].is_adapted && w_squares > 0 && step_squares > 0
				       ? ratio(work, s, w_squares, step_squares)
				       : 1;
	}
}

/* ---- SGD ------------------------------------------------------------------------------------ */

static void sgd_plain(const struct work *work, struct chunk *chunk)
{
	const struct lh_update *u = work->update;
	float *restrict w = (float *)u->parameters + chunk->at;
	const float *restrict g = (const float *)u->gradients + chunk->at;
	float scale = (float)u->gradient_scale, decay = (float)decay_of(work, chunk);
	float lr = (float)u->lr;

#pragma omp simd
	for (int64_t i = 0; i < chunk->n; i++)
		w[i] -= lr * (scale * g[i] + decay * w[i]);
}

static void sgd_momentum(const struct work *work, struct chunk *chunk)
{
	const struct lh_update *u = work->update;
	float *restrict w = (float *)u->parameters + chunk->at;
	float *restrict v = (float *)u->states[0] + chunk->at;
	const float *restrict g = (const float *)u->gradients + chunk->at;
	float scale = (float)u->gradient_scale, decay = (float)decay_of(work, chunk);
	float lr = (float)u->lr, momentum = (float)u->momentum;

#pragma omp simd
	for (int64_t i = 0; i < chunk->n; i++) {
		v[i] = momentum * v[i] + (scale * g[i] + decay * w[i]);
		w[i] -= lr * v[i];
	}
}

static void sgd_nesterov(const struct work *work, struct chunk *chunk)
{
	const struct lh_update *u = work->update;
	float *restrict w = (float *)u->parameters + chunk->at;
	float *restrict v = (float *)u->states[0] + chunk->at;
	const float *restrict g = (const float *)u->gradients + chunk->at;
	float scale = (float)u->gradient_scale, decay = (float)decay_of(work, chunk);
	float lr = (float)u->lr, momentum = (float)u->momentum;

#pragma omp simd
	for (int64_t i = 0; i < chunk->n; i++) {
		float gradient = scale * g[i] + decay * w[i];

		v[i] = momentum * v[i] + gradient;
		w[i] -= lr * (gradient + momentum * v[i]);
	}
}

static int sgd_step(struct lh_device *device, void *plan, const struct lh_update *update,
		    struct lh_error *err)
{
	struct work work = {.plan = plan, .update = update};

	(void)err;
	if (!update->states[0])
		for_chunks(device, &work, sgd_plain);
	else
		for_chunks(device, &work, update->nesterov ? sgd_nesterov : sgd_momentum);
	return 0;
}

/* ---- AdamW, LAMB ---------------------------------------------------------------------------- */

static struct adam adam_of(const struct lh_update *u)
{
	return (struct adam){
		.scale = (float)u->gradient_scale,
		.beta1 = (float)u->beta1,
		.beta2 = (float)u->beta2,
		.beta1_rest = (float)(1 - u->beta1),
		.beta2_rest = (float)(1 - u->beta2),
		.eps = (float)u->eps,
		.mean_factor = (float)(1 / (1 - pow(u->beta1, (double)u->t))),
		.root_factor = (float)(1 / sqrt(1 - pow(u->beta2, (double)u->t))),
	};
}

static void move_moments(const struct work *work, const struct chunk *chunk)
{
	const struct lh_update *u = work->update;
	const struct adam a = work->adam;
	const float *restrict g = (const float *)u->gradients + chunk->at;
	float *restrict m = (float *)u->states[0] + chunk->at;
	float *restrict v = (float *)u->states[1] + chunk->at;

#pragma omp simd
	for (int64_t i = 0; i < chunk->n; i++) {
		float gradient = a.scale * g[i];

		m[i] = a.beta1 * m[i] + a.beta1_rest * gradient;
		v[i] = a.beta2 * v[i] + a.beta2_rest * gradient * gradient;
	}
}

static void adamw_chunk(const struct work *work, struct chunk *chunk)
{
	const struct lh_update *u = work->update;
	const struct adam a = work->adam;
	float *restrict w = (float *)u->parameters + chunk->at;
	const float *restrict m = (const float *)u->states[0] + chunk->at;
	const float *restrict v = (const float *)u->states[1] + chunk->at;
	float kept = (float)(1 - u->lr * decay_of(work, chunk));
	float lr = (float)u->lr * a.mean_factor;

	move_moments(work, chunk);
#pragma omp simd
	for (int64_t i = 0; i < chunk->n; i++)
		w[i] = kept * w[i] - lr * (m[i] / (sqrtf(v[i]) * a.root_factor + a.eps));
}

static int adamw_step(struct lh_device *device, void *plan, const struct lh_update *update,
		      struct lh_error *err)
{
	struct work work = {.plan = plan, .update = update, .adam = adam_of(update)};

	(void)err;
	for_chunks(device, &work, adamw_chunk);
	return 0;
}

/* The steps of n elements from the chunk's element first on, before ratio and learning rate. */
static void lamb_block(const struct work *work, const struct chunk *chunk, int64_t first, int64_t n,
		       float *restrict ret_steps)
{
	const struct lh_update *u = work->update;
	const struct adam a = work->adam;
	const float *restrict w = (const float *)u->parameters + chunk->at + first;
	const float *restrict m = (const float *)u->states[0] + chunk->at + first;
	const float *restrict v = (const float *)u->states[1] + chunk->at + first;
	float decay = (float)decay_of(work, chunk);

#pragma omp simd
	for (int64_t i = 0; i < n; i++)
		ret_steps[i] =
			m[i] * a.mean_factor / (sqrtf(v[i]) * a.root_factor + a.eps) + decay * w[i];
}

static int64_t block_length(const struct chunk *chunk, int64_t first)
{
	return chunk->n - first < BLOCK_ELEMENTS ? chunk->n - first : BLOCK_ELEMENTS;
}

static void lamb_measure(const struct work *work, struct chunk *chunk)
{
	struct lanes lanes = {{0}};
	float steps[BLOCK_ELEMENTS];

	move_moments(work, chunk);
	for (int64_t i = 0; i < chunk->n; i += BLOCK_ELEMENTS) {
		int64_t n = block_length(chunk, i);

		lamb_block(work, chunk, i, n, steps);
		add_squares(&lanes, steps, n);
	}
	chunk->step_squares = fold(&lanes);
	chunk->w_squares = sum_of_squares((float *)work->update->parameters + chunk->at, chunk->n);
}

static double lamb_ratio(const struct work *work, uint32_t segment, double w_squares,
			 double step_squares)
{
	(void)work;
	(void)segment;
	return sqrt(w_squares) / sqrt(step_squares);
}

static void lamb_apply(const struct work *work, struct chunk *chunk)
{
	float rate = (float)(work->update->lr * work->plan->ratios[chunk->segment]);
	float *w = (float *)work->update->parameters + chunk->at;
	float steps[BLOCK_ELEMENTS];

	for (int64_t i = 0; i < chunk->n; i += BLOCK_ELEMENTS) {
		int64_t n = block_length(chunk, i);

		lamb_block(work, chunk, i, n, steps);
#pragma omp simd
		for (int64_t j = 0; j < n; j++)
			w[i + j] -= rate * steps[j];
	}
}

static int lamb_step(struct lh_device *device, void *plan, const struct lh_update *update,
		     struct lh_error *err)
{
	struct work work = {.plan = plan, .update = update, .adam = adam_of(update)};

	(void)err;
	for_chunks(device, &work, lamb_measure);
	find_ratios(&work, lamb_ratio);
	for_chunks(device, &work, lamb_apply);
	return 0;
}

/* ---- LARS ----------------------------------------------------------------------------------- */

static void lars_measure(const struct work *work, struct chunk *chunk)
{
	const struct lh_update *u = work->update;

	chunk->w_squares = sum_of_squares((const float *)u->parameters + chunk->at, chunk->n);
	chunk->step_squares = sum_of_squares((const float *)u->gradients + chunk->at, chunk->n);
}

static double lars_ratio(const struct work *work, uint32_t segment, double w_squares,
			 double step_squares)
{
	const struct lh_update *u = work->update;
	double decay = work->plan->segments[segment].has_decay ? u->weight_decay : 0;
	double w = sqrt(w_squares), g = u->gradient_scale * sqrt(step_squares);

	return u->trust * w / (g + decay * w);
}

static void lars_apply(const struct work *work, struct chunk *chunk)
{
	const struct lh_update *u = work->update;
	float *restrict w = (float *)u->parameters + chunk->at;
	float *restrict v = (float *)u->states[0] + chunk->at;
	const float *restrict g = (const float *)u->gradients + chunk->at;
	float scale = (float)u->gradient_scale, decay = (float)decay_of(work, chunk);
	float rate = (float)(u->lr * work->plan->ratios[chunk->segment]);
	float momentum = (float)u->momentum;

#pragma omp simd
	for (int64_t i = 0; i < chunk->n; i++) {
		v[i] = momentum * v[i] + rate * (scale * g[i] + decay * w[i]);
		w[i] -= v[i];
	}
}

static int lars_step(struct lh_device *device, void *plan, const struct lh_update *update,
		     struct lh_error *err)
{
	struct work work = {.plan = plan, .update = update};

	(void)err;
	for_chunks(device, &work, lars_measure);
	find_ratios(&work, lars_ratio);
	for_chunks(device, &work, lars_apply);
	return 0;
}

/* ---- whole vectors -------------------------------------------------------------------------- */

static int scale(struct lh_device *device, double factor, void *x, int64_t n, struct lh_error *err)
{
	float *values = x;
	float f = (float)factor;

	(void)err;
#pragma omp parallel for simd schedule(static) num_threads((int)device->n_threads)
	for (int64_t i = 0; i < n; i++)
		values[i] *= f;
	return 0;
}

static int axpy(struct lh_device *device, double factor, const void *x, void *y, int64_t n,
		struct lh_error *err)
{
	const float *from = x;
	float *to = y;
	float f = (float)factor;

	(void)err;
#pragma omp parallel for simd schedule(static) num_threads((int)device->n_threads)
	for (int64_t i = 0; i < n; i++)
		to[i] += f * from[i];
	return 0;
}

const struct lh_update_ops lh_update_cpu = {
	.prepare = prepare,
	.done = done,
	.sum_squares = sum_squares,
	.step = {[LH_RULE_SGD] = sgd_step,
		 [LH_RULE_ADAMW] = adamw_step,
		 [LH_RULE_LAMB] = lamb_step,
		 [LH_RULE_LARS] = lars_step},
	.scale = scale,
	.axpy = axpy,
};
