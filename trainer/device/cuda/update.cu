/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of the optimizers. A vector is cut into chunks, each within one tensor and for one block,
 * so that a block knows its tensor without a search; norms are sums of chunks' sums, in double and
 * in order. Formulas: trainer/device/update.h.
 */
#include <stdlib.h>

#include "trainer/device/cuda/update.cuh"
#include "trainer/device/update.h"

using namespace lh;

namespace
{

/* On the device, but for the struct itself and sums_host. */
struct plan {
	int64_t n_chunks, n_segments;
	struct chunk *chunks;
	struct segment *segments;
	double *partial; /* [chunks][SUMS] */
	double *sums;	 /* [segments][SUMS] */
	double *sums_host;
	float *ratios; /* [segments] */
};

/* ---- the plan ------------------------------------------------------------------------------- */

/* Copies an array of the plan to the device; sizes are multiples of 4 bytes. */
int upload(struct lh_device *device, const void *host, size_t bytes, void **ret_memory,
	   struct lh_error *err)
{
	int rc = device->ops->alloc(device, bytes, ret_memory, err);

	if (rc)
		return rc;
	return device->ops->write(device, *ret_memory, LH_I32, host,
				  static_cast<int64_t>(bytes / sizeof(int32_t)), err);
}

template <typename T>
int reserve(struct lh_device *device, int64_t n, T **ret_memory, struct lh_error *err)
{
	void *memory = nullptr;
	int rc = device->ops->alloc(device, static_cast<size_t>(n) * sizeof(T), &memory, err);

	*ret_memory = static_cast<T *>(memory);
	return rc;
}

int64_t count_chunks(const struct lh_segment *segments, uint32_t n)
{
	int64_t n_chunks = 0;

	for (uint32_t i = 0; i < n; i++)
		n_chunks += divide_up(segments[i].n, CHUNK);
	return n_chunks;
}

void cut(const struct lh_segment *segments, uint32_t n, struct segment *ret_segments,
	 struct chunk *ret_chunks)
{
	int64_t n_chunks = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct lh_segment *s = &segments[i];

		ret_segments[i] = {n_chunks, divide_up(s->n, CHUNK), s->has_decay, s->is_adapted};
		for (int64_t at = 0; at < s->n; at += CHUNK)
			ret_chunks[n_chunks++] = {s->at + at, s->n - at < CHUNK ? s->n - at : CHUNK,
						  i};
	}
}

void free_plan(struct lh_device *device, void *plan)
{
	struct plan *p = static_cast<struct plan *>(plan);

	if (!p)
		return;
	device->ops->free(device, p->chunks);
	device->ops->free(device, p->segments);
	device->ops->free(device, p->partial);
	device->ops->free(device, p->sums);
	device->ops->free(device, p->ratios);
	free(p->sums_host);
	free(p);
}

int fill_plan(struct lh_device *device, struct plan *p, const struct lh_segment *segments,
	      struct lh_error *err)
{
	size_t chunks_bytes = static_cast<size_t>(p->n_chunks) * sizeof(struct chunk);
	size_t segments_bytes = static_cast<size_t>(p->n_segments) * sizeof(struct segment);
	struct chunk *chunks = static_cast<struct chunk *>(malloc(chunks_bytes));
	struct segment *facts = static_cast<struct segment *>(malloc(segments_bytes));
	void *memory = nullptr;
	int rc = LH_ESYS;

	p->sums_host = static_cast<double *>(
		malloc(static_cast<size_t>(p->n_segments * SUMS) * sizeof(double)));
	if (!chunks || !facts || !p->sums_host) {
		lh_fail(err, LH_ESYS, 0, "no memory for a plan of updates");
	} else {
		cut(segments, static_cast<uint32_t>(p->n_segments), facts, chunks);
		rc = upload(device, chunks, chunks_bytes, &memory, err);
		p->chunks = static_cast<struct chunk *>(memory);
		memory = nullptr;
		if (rc == 0)
			rc = upload(device, facts, segments_bytes, &memory, err);
		p->segments = static_cast<struct segment *>(memory);
	}
	free(chunks);
	free(facts);
	if (rc == 0)
		rc = reserve(device, p->n_chunks * SUMS, &p->partial, err);
	if (rc == 0)
		rc = reserve(device, p->n_segments * SUMS, &p->sums, err);
	return rc ? rc : reserve(device, p->n_segments, &p->ratios, err);
}

int prepare(struct lh_device *device, const struct lh_segment *segments, uint32_t n_segments,
	    void **ret_plan, struct lh_error *err)
{
	struct plan *p = static_cast<struct plan *>(calloc(1, sizeof(*p)));
	int rc;

	if (!p)
		return lh_fail(err, LH_ESYS, 0, "no memory for a plan of updates");
	p->n_segments = n_segments;
	p->n_chunks = count_chunks(segments, n_segments);
	rc = fill_plan(device, p, segments, err);
	if (rc) {
		free_plan(device, p);
		return rc;
	}
	*ret_plan = p;
	return 0;
}

/* ---- steps ---------------------------------------------------------------------------------- */

dim3 blocks_of(int64_t n)
{
	return dim3(static_cast<unsigned int>(n));
}

/* Sums of each tensor, from its chunks' in p->partial. */
int sum_up(struct lh_cuda *cuda, const struct plan *p, struct lh_error *err)
{
	return launch(cuda, err, "sums of squares", sum_segments, blocks_of(p->n_segments),
		      dim3(THREADS), p->segments, p->partial, p->sums);
}

int sum_squares_of(struct lh_cuda *cuda, const struct plan *p, const void *x, const void *y,
		   struct lh_error *err)
{
	int rc = launch(cuda, err, "sums of squares", sum_chunks, blocks_of(p->n_chunks),
			dim3(THREADS), p->chunks, static_cast<const float *>(x),
			static_cast<const float *>(y), p->partial);

	return rc ? rc : sum_up(cuda, p, err);
}

int sum_squares(struct lh_device *device, void *plan, const void *x, double *ret_sums,
		struct lh_error *err)
{
	struct plan *p = static_cast<struct plan *>(plan);
	int rc = sum_squares_of(lh_cuda_of(device), p, x, nullptr, err);

	if (rc == 0)
		rc = device->ops->read(
			device, p->sums, LH_I32, p->sums_host,
			p->n_segments * SUMS *
				static_cast<int64_t>(sizeof(double) / sizeof(int32_t)),
			err);
	for (int64_t i = 0; rc == 0 && i < p->n_segments; i++)
		ret_sums[i] = p->sums_host[i * SUMS];
	return rc;
}

struct constants take(const struct plan *p, const struct lh_update *u)
{
	struct constants k = {};
	double t = static_cast<double>(u->t);

	k.chunks = p->chunks;
	k.segments = p->segments;
	k.w = static_cast<float *>(u->parameters);
	k.g = static_cast<const float *>(u->gradients);
	k.m = static_cast<float *>(u->states[0]);
	k.v = static_cast<float *>(u->states[1]);
	k.gradient_scale = static_cast<float>(u->gradient_scale);
	k.lr = static_cast<float>(u->lr);
	k.momentum = static_cast<float>(u->momentum);
	k.weight_decay = static_cast<float>(u->weight_decay);
	k.beta1 = static_cast<float>(u->beta1);
	k.beta2 = static_cast<float>(u->beta2);
	k.rest1 = static_cast<float>(1 - u->beta1);
	k.rest2 = static_cast<float>(1 - u->beta2);
	k.eps = static_cast<float>(u->eps);
	k.correction1 = static_cast<float>(1 / (1 - pow(u->beta1, t)));
	k.correction2 = static_cast<float>(1 / sqrt(1 - pow(u->beta2, t)));
	k.nesterov = u->nesterov;
	k.ratios = p->ratios;
	k.partial = p->partial;
	return k;
}

template <typename K>
int run(struct lh_device *device, const void *plan, const struct lh_update *update, K kernel,
	const char *what, struct lh_error *err)
{
	const struct plan *p = static_cast<const struct plan *>(plan);

	return launch(lh_cuda_of(device), err, what, kernel, blocks_of(p->n_chunks), dim3(THREADS),
		      take(p, update));
}

int sgd_step(struct lh_device *device, void *plan, const struct lh_update *update,
	     struct lh_error *err)
{
	return run(device, plan, update, step_sgd, "step of SGD", err);
}

int adamw_step(struct lh_device *device, void *plan, const struct lh_update *update,
	       struct lh_error *err)
{
	return run(device, plan, update, step_adamw, "step of AdamW", err);
}

int lamb_step(struct lh_device *device, void *plan, const struct lh_update *update,
	      struct lh_error *err)
{
	const struct plan *p = static_cast<const struct plan *>(plan);
	int rc = run(device, plan, update, step_lamb_moments, "step of LAMB", err);

	if (rc == 0)
		rc = sum_up(lh_cuda_of(device), p, err);
	if (rc == 0)
		rc = launch(lh_cuda_of(device), err, "step of LAMB", find_lamb_ratios,
			    blocks_for(p->n_segments), dim3(THREADS), p->segments, p->sums,
			    p->ratios, p->n_segments);
	return rc ? rc : run(device, plan, update, step_lamb, "step of LAMB", err);
}

int lars_step(struct lh_device *device, void *plan, const struct lh_update *update,
	      struct lh_error *err)
{
	const struct plan *p = static_cast<const struct plan *>(plan);
	int rc = sum_squares_of(lh_cuda_of(device), p, update->parameters, update->gradients, err);

	if (rc == 0)
		rc = launch(lh_cuda_of(device), err, "step of LARS", find_lars_ratios,
			    blocks_for(p->n_segments), dim3(THREADS), p->segments, p->sums,
			    p->ratios, update->gradient_scale, update->trust, update->weight_decay,
			    p->n_segments);
	return rc ? rc : run(device, plan, update, step_lars, "step of LARS", err);
}

int scale(struct lh_device *device, double factor, void *x, int64_t n, struct lh_error *err)
{
	return launch(lh_cuda_of(device), err, "scale", scale_numbers, blocks_for(n), dim3(THREADS),
		      factor, static_cast<float *>(x), n);
}

int axpy(struct lh_device *device, double factor, const void *x, void *y, int64_t n,
	 struct lh_error *err)
{
	return launch(lh_cuda_of(device), err, "axpy", add_numbers, blocks_for(n), dim3(THREADS),
		      factor, static_cast<const float *>(x), static_cast<float *>(y), n);
}

} // namespace

extern "C" {

/* Steps in the order of enum lh_rule. */
extern const struct lh_update_ops lh_update_cuda = {
	prepare, free_plan, sum_squares, {sgd_step, adamw_step, lamb_step, lars_step}, scale, axpy,
};

} // extern "C"
