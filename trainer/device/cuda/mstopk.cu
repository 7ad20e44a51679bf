/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MSTopK. See compress.h and trainer/compress/mstopk.c. A pass counts against eight thresholds; the
 * host draws the bracket together, about six times; two more passes find each strip's place in the
 * result and write it, in order. Counts are integers: the result is the same in every run.
 */
#include <string.h>

#include "trainer/device/cuda/compress.h"
#include "trainer/device/cuda/kernels.cuh"

extern "C" {
#include "trainer/compress/bracket_internal.h"
}

using namespace lh;

namespace
{

constexpr int COUNT_BLOCKS = 1024, PER_THREAD = 16, STRIP = THREADS * PER_THREAD;

struct thresholds {
	uint32_t at[LH_THRESHOLDS];
};

/* As lh_band of the CPU. */
struct band {
	uint32_t low, high;
	int64_t skip, need;
};

/* How many are taken from high on, and are in the band. */
struct strip_counts {
	int32_t high, band;
};

struct workspace {
	int32_t *partial; /* [COUNT_BLOCKS][LH_THRESHOLDS] */
	int32_t *counts;  /* [LH_THRESHOLDS] */
	struct strip_counts *strips;
};

__device__ inline uint32_t key_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits & (LH_KEY_END - 1);
}

/* ---- counts --------------------------------------------------------------------------------- */

__global__ void count_keys(const float *values, int64_t n, struct thresholds t, int32_t *partial)
{
	int32_t counts[LH_THRESHOLDS] = {};

	for (int64_t i = first_index(); i < n; i += index_step()) {
		uint32_t key = key_of(values[i]);

#pragma unroll
		for (int c = 0; c < LH_THRESHOLDS; c++)
			counts[c] += key >= t.at[c];
	}
	for (int c = 0; c < LH_THRESHOLDS; c++) {
		int32_t sum = block_sum(counts[c]);

		if (threadIdx.x == 0)
			partial[static_cast<int64_t>(blockIdx.x) * LH_THRESHOLDS + c] = sum;
	}
}

/* A warp for each threshold. */
__global__ void finish_counts(const int32_t *partial, int blocks, int32_t *counts)
{
	int c = threadIdx.x / WARP;
	int32_t sum = 0;

	for (int b = threadIdx.x % WARP; b < blocks; b += WARP)
		sum += partial[b * LH_THRESHOLDS + c];
	sum = warp_sum(sum);
	if (threadIdx.x % WARP == 0)
		counts[c] = sum;
}

int count_on_gpu(struct lh_cuda *cuda, const struct lh_cuda_mstopk *job, const struct workspace *w,
		 const struct thresholds &t, uint64_t ret_counts[LH_THRESHOLDS],
		 struct lh_error *err)
{
	dim3 blocks = blocks_for(divide_up(job->n, PER_THREAD));
	int32_t counts[LH_THRESHOLDS];
	int rc;

	blocks.x = blocks.x < COUNT_BLOCKS ? blocks.x : COUNT_BLOCKS;
	rc = launch(cuda, err, "mstopk", count_keys, blocks, dim3(THREADS), job->values, job->n, t,
		    w->partial);
	if (rc == 0)
		rc = launch(cuda, err, "mstopk", finish_counts, dim3(1), dim3(LH_THRESHOLDS * WARP),
			    w->partial, static_cast<int>(blocks.x), w->counts);
	if (rc == 0)
		rc = cuda->device.ops->read(&cuda->device, w->counts, LH_I32, counts, LH_THRESHOLDS,
					    err);
	for (int c = 0; rc == 0 && c < LH_THRESHOLDS; c++)
		ret_counts[c] = static_cast<uint64_t>(counts[c]);
	return rc;
}

/* ---- the result ----------------------------------------------------------------------------- */

/* Where in the values the thread's neighbours begin, and how many there are. */
__device__ inline int64_t begin_of_thread()
{
	return static_cast<int64_t>(blockIdx.x) * STRIP + threadIdx.x * PER_THREAD;
}

__device__ inline int64_t end_of_thread(int64_t n)
{
	int64_t end = begin_of_thread() + PER_THREAD;

	return end < n ? end : n;
}

__device__ inline struct strip_counts count_of_thread(const float *values, int64_t n,
						      const struct band &b)
{
	struct strip_counts counts = {0, 0};

	for (int64_t i = begin_of_thread(); i < end_of_thread(n); i++) {
		uint32_t key = key_of(values[i]);

		counts.high += key >= b.high;
		counts.band += key >= b.low && key < b.high;
	}
	return counts;
}

__global__ void count_strips(const float *values, int64_t n, struct band b,
			     struct strip_counts *strips)
{
	struct strip_counts mine = count_of_thread(values, n, b);
	int32_t high = block_sum(mine.high), in_band = block_sum(mine.band);

	if (threadIdx.x == 0)
		strips[blockIdx.x] = {high, in_band};
}

/* The sum of all threads before this one, of a block of THREADS. */
__device__ inline struct strip_counts sum_before(struct strip_counts mine)
{
	__shared__ struct strip_counts sums[THREADS];
	struct strip_counts sum = mine;

	for (unsigned int reach = 1; reach < THREADS; reach *= 2) {
		sums[threadIdx.x] = sum;
		__syncthreads();
		if (threadIdx.x >= reach) {
			sum.high += sums[threadIdx.x - reach].high;
			sum.band += sums[threadIdx.x - reach].band;
		}
		__syncthreads();
	}
	return {sum.high - mine.high, sum.band - mine.band};
}

/* Each strip's counts become those of all strips before it; one block. */
__global__ void scan_strips(struct strip_counts *strips, int64_t n_strips)
{
	int64_t each = (n_strips + THREADS - 1) / THREADS, begin = threadIdx.x * each;
	int64_t end = begin + each < n_strips ? begin + each : n_strips;
	struct strip_counts sum = {0, 0};

	for (int64_t i = begin; i < end; i++) {
		sum.high += strips[i].high;
		sum.band += strips[i].band;
	}
	sum = sum_before(sum);
	for (int64_t i = begin; i < end; i++) {
		struct strip_counts was = strips[i];

		strips[i] = sum;
		sum.high += was.high;
		sum.band += was.band;
	}
}

/* How many of the first of the band are taken. */
__device__ inline int64_t taken_of(int64_t in_band, const struct band &b)
{
	int64_t taken = in_band - b.skip;

	return taken < 0 ? 0 : taken < b.need ? taken : b.need;
}

__global__ void write_strips(const float *values, int64_t n, struct band b,
			     const struct strip_counts *strips, uint32_t *indices, float *chosen)
{
	struct strip_counts before = sum_before(count_of_thread(values, n, b));
	int64_t high = strips[blockIdx.x].high + static_cast<int64_t>(before.high);
	int64_t in_band = strips[blockIdx.x].band + static_cast<int64_t>(before.band);

	for (int64_t i = begin_of_thread(); i < end_of_thread(n); i++) {
		uint32_t key = key_of(values[i]);
		int64_t at = high + taken_of(in_band, b);
		bool is_high = key >= b.high, is_in_band = !is_high && key >= b.low;

		if (is_high || (is_in_band && in_band >= b.skip && in_band < b.skip + b.need)) {
			indices[at] = static_cast<uint32_t>(i);
			chosen[at] = values[i];
		}
		high += is_high;
		in_band += is_in_band;
	}
}

__global__ void clear_indices(float *x, const uint32_t *indices, int64_t k)
{
	for (int64_t i = first_index(); i < k; i += index_step())
		x[indices[i]] = 0;
}

struct workspace lay_out_workspace(void *memory)
{
	struct workspace w;

	w.partial = static_cast<int32_t *>(memory);
	w.counts = w.partial + COUNT_BLOCKS * LH_THRESHOLDS;
	w.strips = reinterpret_cast<struct strip_counts *>(w.counts + LH_THRESHOLDS);
	return w;
}

int write_result(struct lh_cuda *cuda, const struct lh_cuda_mstopk *job, const struct workspace *w,
		 const struct band &b, struct lh_error *err)
{
	int64_t n_strips = divide_up(job->n, STRIP);
	dim3 blocks(static_cast<unsigned int>(n_strips));
	int rc = launch(cuda, err, "mstopk", count_strips, blocks, dim3(THREADS), job->values,
			job->n, b, w->strips);

	if (rc == 0)
		rc = launch(cuda, err, "mstopk", scan_strips, dim3(1), dim3(THREADS), w->strips,
			    n_strips);
	return rc ? rc
		  : launch(cuda, err, "mstopk", write_strips, blocks, dim3(THREADS), job->values,
			   job->n, b, w->strips, job->indices, job->chosen);
}

} // namespace

extern "C" {

size_t lh_cuda_mstopk_bytes(int64_t n)
{
	return (COUNT_BLOCKS + 1) * LH_THRESHOLDS * sizeof(int32_t) +
	       static_cast<size_t>(divide_up(n, STRIP)) * sizeof(struct strip_counts);
}

int lh_cuda_mstopk(struct lh_cuda *cuda, const struct lh_cuda_mstopk *job, struct lh_error *err)
{
	struct lh_bracket b = {0, LH_KEY_END, static_cast<uint64_t>(job->n), 0};
	struct workspace w = lay_out_workspace(job->workspace);
	struct band band;

	if (!job->k)
		return 0;
	while (!lh_bracket_is_tight(&b, job->k)) {
		uint64_t counts[LH_THRESHOLDS];
		struct thresholds t;
		int rc;

		lh_bracket_cut(&b, t.at);
		rc = count_on_gpu(cuda, job, &w, t, counts, err);
		if (rc)
			return rc;
		lh_bracket_narrow(&b, job->k, t.at, counts);
	}
	band = {b.low, b.high, 0, static_cast<int64_t>(job->k - b.n_high)};
	band.skip = static_cast<int64_t>(
		lh_rng_below(job->rng, b.n_low - b.n_high - static_cast<uint64_t>(band.need) + 1));
	return write_result(cuda, job, &w, band, err);
}

int lh_cuda_clear(struct lh_cuda *cuda, float *x, const uint32_t *indices, uint32_t k,
		  struct lh_error *err)
{
	return k ? launch(cuda, err, "clear", clear_indices, blocks_for(k), dim3(THREADS), x,
			  indices, static_cast<int64_t>(k))
		 : 0;
}

} // extern "C"
