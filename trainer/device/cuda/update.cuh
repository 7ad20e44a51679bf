/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of update.cu: what a block does with its chunk of a vector. */
#ifndef LH_TRAINER_CUDA_UPDATE_CUH
#define LH_TRAINER_CUDA_UPDATE_CUH

#include "trainer/device/cuda/kernels.cuh"

namespace
{

using namespace lh;

constexpr int64_t CHUNK = 8192;
constexpr int SUMS = 2; /* at most, of each chunk and tensor */

struct chunk {
	int64_t at, n;
	int64_t segment;
};

struct segment {
	int64_t first_chunk, n_chunks;
	int32_t has_decay, is_adapted;
};

struct constants {
	const struct chunk *chunks;
	const struct segment *segments;
	float *w, *m, *v; /* m: the first state, v: the second */
	const float *g;
	float gradient_scale, lr, momentum, weight_decay;
	float beta1, beta2, rest1, rest2;    /* rest: 1 - beta */
	float eps, correction1, correction2; /* 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
	bool nesterov;
	const float *ratios;
	double *partial;
};

/* f.step<V>(at, decay) for all of the block's chunk: four numbers at once where they are aligned.
 */
template <typename F> __device__ void for_chunk(const struct chunk &chunk, F f)
{
	if (chunk.at % 4 == 0 && chunk.n % 4 == 0)
		for (int64_t i = 4 * threadIdx.x; i < chunk.n; i += 4 * THREADS)
			f.template step<4>(chunk.at + i);
	else
		for (int64_t i = threadIdx.x; i < chunk.n; i += THREADS)
			f.template step<1>(chunk.at + i);
}

struct sgd {
	const struct constants &k;
	float decay;

	template <int V> __device__ void step(int64_t at)
	{
		float w[V], g[V], v[V] = {};

		load<V>(k.w + at, w);
		load<V>(k.g + at, g);
		if (k.m)
			load<V>(k.m + at, v);
#pragma unroll
		for (int i = 0; i < V; i++) {
			float d = k.gradient_scale * g[i] + decay * w[i];

			v[i] = k.momentum * v[i] + d;
			w[i] -= k.lr * (k.nesterov ? d + k.momentum * v[i] : v[i]);
		}
		store<V>(k.w + at, w);
		if (k.m)
			store<V>(k.m + at, v);
	}
};

/* The moments with one more gradient, kept; returns the direction in g. */
template <int V> __device__ void move_moments(const struct constants &k, int64_t at, float (&g)[V])
{
	float m[V], v[V];

	load<V>(k.g + at, g);
	load<V>(k.m + at, m);
	load<V>(k.v + at, v);
#pragma unroll
	for (int i = 0; i < V; i++) {
		float d = k.gradient_scale * g[i];

		m[i] = k.beta1 * m[i] + k.rest1 * d;
		v[i] = k.beta2 * v[i] + k.rest2 * d * d;
		g[i] = m[i] * k.correction1 / (sqrtf(v[i]) * k.correction2 + k.eps);
	}
	store<V>(k.m + at, m);
	store<V>(k.v + at, v);
}

struct adamw {
	const struct constants &k;
	float decay;

	template <int V> __device__ void step(int64_t at)
	{
		float w[V], direction[V];

		load<V>(k.w + at, w);
		move_moments<V>(k, at, direction);
#pragma unroll
		for (int i = 0; i < V; i++)
			w[i] = w[i] * (1 - k.lr * decay) - k.lr * direction[i];
		store<V>(k.w + at, w);
	}
};

/* Moves the moments; adds up the squares of w and of the step. */
struct lamb_moments {
	const struct constants &k;
	float decay;
	double w_squares, step_squares;

	template <int V> __device__ void step(int64_t at)
	{
		float w[V], direction[V];

		load<V>(k.w + at, w);
		move_moments<V>(k, at, direction);
#pragma unroll
		for (int i = 0; i < V; i++) {
			double u = direction[i] + decay * w[i];

			w_squares += static_cast<double>(w[i]) * w[i];
			step_squares += u * u;
		}
	}
};

struct lamb {
	const struct constants &k;
	float decay, ratio;

	template <int V> __device__ void step(int64_t at)
	{
		float w[V], m[V], v[V];

		load<V>(k.w + at, w);
		load<V>(k.m + at, m);
		load<V>(k.v + at, v);
#pragma unroll
		for (int i = 0; i < V; i++) {
			float u = m[i] * k.correction1 / (sqrtf(v[i]) * k.correction2 + k.eps) +
				  decay * w[i];

			w[i] -= k.lr * ratio * u;
		}
		store<V>(k.w + at, w);
	}
};

struct lars {
	const struct constants &k;
	float decay, ratio;

	template <int V> __device__ void step(int64_t at)
	{
		float w[V], g[V], v[V];

		load<V>(k.w + at, w);
		load<V>(k.g + at, g);
		load<V>(k.m + at, v);
#pragma unroll
		for (int i = 0; i < V; i++) {
			v[i] = k.momentum * v[i] +
			       k.lr * ratio * (k.gradient_scale * g[i] + decay * w[i]);
			w[i] -= v[i];
		}
		store<V>(k.w + at, w);
		store<V>(k.m + at, v);
	}
};

/* Squares of one or two vectors. */
struct squares {
	const float *first, *second; /* second may be NULL */
	double first_sum, second_sum;

	template <int V> __device__ void step(int64_t at)
	{
		float x[V], y[V] = {};

		load<V>(first + at, x);
		if (second)
			load<V>(second + at, y);
#pragma unroll
		for (int i = 0; i < V; i++) {
			first_sum += static_cast<double>(x[i]) * x[i];
			second_sum += static_cast<double>(y[i]) * y[i];
		}
	}
};

__device__ float decay_of(const struct constants &k, const struct chunk &chunk)
{
	return k.segments[chunk.segment].has_decay ? k.weight_decay : 0;
}

/* Sums of a chunk, from those of its threads. */
__device__ void keep_sums_of_chunk(double *partial, double first, double second)
{
	first = block_sum(first);
	second = block_sum(second);
	if (threadIdx.x == 0) {
		partial[static_cast<int64_t>(blockIdx.x) * SUMS] = first;
		partial[static_cast<int64_t>(blockIdx.x) * SUMS + 1] = second;
	}
}

__global__ void step_sgd(struct constants k)
{
	struct chunk chunk = k.chunks[blockIdx.x];

	for_chunk(chunk, sgd{k, decay_of(k, chunk)});
}

__global__ void step_adamw(struct constants k)
{
	struct chunk chunk = k.chunks[blockIdx.x];

	for_chunk(chunk, adamw{k, decay_of(k, chunk)});
}

__global__ void step_lamb_moments(struct constants k)
{
	struct chunk chunk = k.chunks[blockIdx.x];
	struct lamb_moments f = {k, decay_of(k, chunk), 0, 0};

	for_chunk<struct lamb_moments &>(chunk, f);
	keep_sums_of_chunk(k.partial, f.w_squares, f.step_squares);
}

__global__ void step_lamb(struct constants k)
{
	struct chunk chunk = k.chunks[blockIdx.x];

	for_chunk(chunk, lamb{k, decay_of(k, chunk), k.ratios[chunk.segment]});
}

__global__ void step_lars(struct constants k)
{
	struct chunk chunk = k.chunks[blockIdx.x];

	for_chunk(chunk, lars{k, decay_of(k, chunk), k.ratios[chunk.segment]});
}

__global__ void sum_chunks(const struct chunk *chunks, const float *x, const float *y,
			   double *partial)
{
	struct squares f = {x, y, 0, 0};

	for_chunk<struct squares &>(chunks[blockIdx.x], f);
	keep_sums_of_chunk(partial, f.first_sum, f.second_sum);
}

/* A block for each tensor. */
__global__ void sum_segments(const struct segment *segments, const double *partial, double *sums)
{
	struct segment s = segments[blockIdx.x];
	double first = 0, second = 0;

	for (int64_t i = threadIdx.x; i < s.n_chunks; i += THREADS) {
		first += partial[(s.first_chunk + i) * SUMS];
		second += partial[(s.first_chunk + i) * SUMS + 1];
	}
	first = block_sum(first);
	second = block_sum(second);
	if (threadIdx.x == 0) {
		sums[static_cast<int64_t>(blockIdx.x) * SUMS] = first;
		sums[static_cast<int64_t>(blockIdx.x) * SUMS + 1] = second;
	}
}

/* Trust ratios from the sums of squares of w and of the step (LAMB), or of w and g (LARS). */
__global__ void find_lamb_ratios(const struct segment *segments, const double *sums, float *ratios,
				 int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step()) {
		double w = sqrt(sums[i * SUMS]), step = sqrt(sums[i * SUMS + 1]);

		ratios[i] = segments[i].is_adapted && w > 0 && step > 0
				    ? static_cast<float>(w / step)
				    : 1;
	}
}

__global__ void find_lars_ratios(const struct segment *segments, const double *sums, float *ratios,
				 double gradient_scale, double trust, double weight_decay,
				 int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step()) {
		double w = sqrt(sums[i * SUMS]), g = gradient_scale * sqrt(sums[i * SUMS + 1]);
		double decay = segments[i].has_decay ? weight_decay : 0;

		ratios[i] = segments[i].is_adapted && w > 0 && g > 0
				    ? static_cast<float>(trust * w / (g + decay * w))
				    : 1;
	}
}

__global__ void scale_numbers(float factor, float *x, int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step())
		x[i] *= factor;
}

__global__ void add_numbers(float factor, const float *x, float *y, int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step())
		y[i] += factor * x[i];
}

} // namespace

#endif
