/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of 16-bit numbers on the matrix units, heads of up to 64 channels. A warp owns 16 rows:
 * of queries, or of keys for the gradients of keys and values; the block walks over tiles of the
 * others. The forward walks twice, for the softmax's denominators and for the output, so that sums
 * stay in the units' registers, whose layout is not known. Weights are rounded to 16 bits before
 * products; sums are floats. See attention.cuh.
 */
#include <mma.h>

#include "trainer/device/cuda/attention.cuh"

using namespace lh;

namespace
{

using namespace nvcuda;

/* The units' tiles; rows of a block; rows walked over at once; channels. */
constexpr int SIDE = 16, OWN_WARPS = 4, OWNED = SIDE * OWN_WARPS, WALKED = 32, DEPTH = 64;
constexpr int STEPS = DEPTH / SIDE;
/* Rows begin at other banks: distances that the units allow. */
constexpr int DEPTH_ROW = DEPTH + 8, SCORES_ROW = WALKED + 4, WEIGHTS_ROW = WALKED + 8;
/* A lane takes half a row of scores. */
constexpr int LANE_SCORES = WALKED * SIDE / WARP;

template <typename T>
using left = wmma::fragment<wmma::matrix_a, SIDE, SIDE, SIDE, T, wmma::row_major>;
template <typename T>
using right = wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, T, wmma::row_major>;
template <typename T>
using right_transposed = wmma::fragment<wmma::matrix_b, SIDE, SIDE, SIDE, T, wmma::col_major>;
using total = wmma::fragment<wmma::accumulator, SIDE, SIDE, SIDE, float>;

/* GPUs before compute capability 8.0 have no units for bf16; cuda.c refuses it there. */
template <typename T> struct has_units {
	static constexpr bool value = true;
};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <> struct has_units<__nv_bfloat16> {
	static constexpr bool value = false;
};
#endif

template <typename T, int ROWS> struct alignas(32) rows_tile {
	T at[ROWS][DEPTH_ROW];
};

/* Of one warp. */
struct alignas(32) scores_tile {
	float at[SIDE][SCORES_ROW];
};

template <typename T> struct alignas(32) weights_tile {
	T at[SIDE][WEIGHTS_ROW];
};

/* Where the rows of a tensor lie. */
template <typename T> struct rows {
	const T *x;
	int64_t stride, n;
};

/* Rows [first, first + ROWS) to shared memory; zeros beyond the last row and channel. */
template <typename T, int ROWS, int V>
__device__ void load_vectors(struct rows_tile<T, ROWS> &tile, const struct rows<T> &from,
			     int64_t first, int64_t width)
{
	for (int i = threadIdx.x; i < ROWS * DEPTH / V; i += OWN_WARPS * WARP) {
		int row = i / (DEPTH / V), c = i % (DEPTH / V) * V;
		pack<T, V> p = {};

		if (first + row < from.n && c < width)
			p = *reinterpret_cast<const pack<T, V> *>(from.x +
								  (first + row) * from.stride + c);
		*reinterpret_cast<pack<T, V> *>(&tile.at[row][c]) = p;
	}
}

template <typename T, int ROWS>
__device__ void load_rows(struct rows_tile<T, ROWS> &tile, const struct rows<T> &from,
			  int64_t first, int64_t width)
{
	constexpr int V = widest<T>::value;

	if (width % V == 0)
		load_vectors<T, ROWS, V>(tile, from, first, width);
	else
		load_vectors<T, ROWS, 1>(tile, from, first, width);
}

/* The warp's own rows, through shared memory to registers. */
template <typename T>
__device__ void take_own(struct rows_tile<T, OWNED> &tile, const struct rows<T> &from,
			 int64_t first, int64_t width, left<T> (&own)[STEPS])
{
	int warp = threadIdx.x / WARP;

	load_rows(tile, from, first, width);
	__syncthreads();
	for (int k = 0; k < STEPS; k++)
		wmma::load_matrix_sync(own[k], &tile.at[warp * SIDE][k * SIDE], DEPTH_ROW);
	__syncthreads();
}

/* scores = own tile^T. */
template <typename T>
__device__ void multiply_rows(const left<T> (&own)[STEPS], const struct rows_tile<T, WALKED> &tile,
			      struct scores_tile &scores)
{
	for (int c = 0; c < WALKED; c += SIDE) {
		total sum;

		wmma::fill_fragment(sum, 0.0f);
		for (int k = 0; k < STEPS; k++) {
			right_transposed<T> other;

			wmma::load_matrix_sync(other, &tile.at[c][k * SIDE], DEPTH_ROW);
			wmma::mma_sync(sum, own[k], other, sum);
		}
		wmma::store_matrix_sync(&scores.at[0][c], sum, SCORES_ROW, wmma::mem_row_major);
	}
}

/* sums += weights tile. */
template <typename T>
__device__ void add_product(const struct weights_tile<T> &weights,
			    const struct rows_tile<T, WALKED> &tile, total (&sums)[STEPS])
{
	for (int j = 0; j < WALKED; j += SIDE) {
		left<T> weight;

		wmma::load_matrix_sync(weight, &weights.at[0][j], WEIGHTS_ROW);
		for (int k = 0; k < STEPS; k++) {
			right<T> other;

			wmma::load_matrix_sync(other, &tile.at[j][k * SIDE], DEPTH_ROW);
			wmma::mma_sync(sums[k], weight, other, sums[k]);
		}
	}
}

/* The warp's sums, times factor, to rows of memory; through the tile of scores, two steps at once.
 */
template <typename T>
__device__ void store_own(total (&sums)[STEPS], float factor, struct scores_tile &scores, T *y,
			  int64_t stride, int64_t first, int64_t n, int64_t width, bool adds)
{
	int lane = threadIdx.x % WARP;
	int64_t row0 = first + threadIdx.x / WARP * SIDE;

	for (int k = 0; k < STEPS; k += WALKED / SIDE) {
		__syncwarp();
		for (int c = 0; c < WALKED / SIDE; c++)
			wmma::store_matrix_sync(&scores.at[0][c * SIDE], sums[k + c], SCORES_ROW,
						wmma::mem_row_major);
		__syncwarp();
		for (int row = 0; row < SIDE; row++)
			if (row0 + row < n && k * SIDE + lane < width)
				put(y + (row0 + row) * stride + k * SIDE + lane,
				    scores.at[row][lane] * factor, adds);
	}
}

/* ---- forward -------------------------------------------------------------------------------- */

/* The first walk: the logarithm of the softmax's denominator of the lane's row. */
template <typename T>
__device__ float find_log_sum(const struct attention &a, const left<T> (&q)[STEPS],
			      const struct rows<T> &k, struct rows_tile<T, WALKED> &tile,
			      struct scores_tile &scores, int64_t end, int64_t seen)
{
	int lane = threadIdx.x % WARP;
	float max = -INFINITY, sum = 0, other;

	for (int64_t i0 = 0; i0 < end; i0 += WALKED) {
		load_rows(tile, k, i0, a.width);
		__syncthreads();
		multiply_rows(q, tile, scores);
		__syncwarp();
		for (int c = 0; c < LANE_SCORES; c++) {
			int column = lane % 2 * LANE_SCORES + c;
			float score = scores.at[lane / 2][column] * a.scale;

			if (i0 + column >= seen)
				break;
			if (score > max) {
				sum *= expf(max - score);
				max = score;
			}
			sum += expf(score - max);
		}
		__syncthreads();
	}
	other = __shfl_xor_sync(ALL_LANES, max, 1);
	sum *= max > -INFINITY ? expf(max - fmaxf(max, other)) : 0;
	sum += __shfl_xor_sync(ALL_LANES, sum, 1);
	return fmaxf(max, other) + logf(sum);
}

template <typename T>
__global__ void __launch_bounds__(OWN_WARPS *WARP)
	attention_mma(struct attention a, struct tensors<T> tensors)
{
	if constexpr (has_units<T>::value) {
		__shared__ struct rows_tile<T, OWNED> staging;
		__shared__ struct rows_tile<T, WALKED> k_tile, v_tile;
		__shared__ struct scores_tile all_scores[OWN_WARPS];
		__shared__ struct weights_tile<T> all_weights[OWN_WARPS];
		struct head<T> h = find_head(a, tensors);
		struct rows<T> k = {h.k, a.stride, a.s.s}, v = {
			h.v, a.stride, a.s.s
		};
		int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
		struct scores_tile &scores = all_scores[warp];
		struct weights_tile<T> &weights = all_weights[warp];
		int64_t t0 = static_cast<int64_t>(blockIdx.x) * OWNED, last = t0 + OWNED - 1;
		int64_t t = t0 + warp * SIDE + lane / 2;
		int64_t end = n_seen(a, h.n, last < a.s.t ? last : a.s.t - 1);
		int64_t seen = t < a.s.t ? n_seen(a, h.n, t) : 0;
		left<T> q[STEPS];
		total out[STEPS];
		float log_sum;

		take_own(staging, {h.q, a.stride, a.s.t}, t0, a.width, q);
		log_sum = find_log_sum(a, q, k, k_tile, scores, end, seen);
		if (lane % 2 == 0 && t < a.s.t)
			tensors.log_sum[h.row0 + t] = log_sum;
		for (int d = 0; d < STEPS; d++)
			wmma::fill_fragment(out[d], 0.0f);
		for (int64_t i0 = 0; i0 < end; i0 += WALKED) {
			load_rows(k_tile, k, i0, a.width);
			load_rows(v_tile, v, i0, a.width);
			__syncthreads();
			multiply_rows(q, k_tile, scores);
			__syncwarp();
			for (int c = 0; c < LANE_SCORES; c++) {
				int column = lane % 2 * LANE_SCORES + c;
				int64_t i = i0 + column;
				float score = scores.at[lane / 2][column] * a.scale;

				put(&weights.at[lane / 2][column],
				    i < seen ? expf(score - log_sum) * kept(a, h.row0 + t, i) : 0);
			}
			__syncwarp();
			add_product(weights, v_tile, out);
			__syncthreads();
		}
		store_own(out, 1, scores, const_cast<T *>(h.y), a.s.c, t0, a.s.t, a.width, false);
	}
}

/* ---- backward ------------------------------------------------------------------------------- */

/* The lane's part of weights, after dropout, and of the gradients of scores, before scaling. t0,
 * i0: of the tile. */
template <bool OWNS_KEYS, typename T>
__device__ void find_gradients(const struct attention &a, const struct head<T> &h, int64_t row0,
			       int64_t column0, const struct scores_tile &scores,
			       const struct scores_tile &products, struct weights_tile<T> &weights,
			       struct weights_tile<T> &gradients)
{
	int lane = threadIdx.x % WARP, row = lane / 2;

	for (int c = 0; c < LANE_SCORES; c++) {
		int column = lane % 2 * LANE_SCORES + c;
		int64_t t = OWNS_KEYS ? column0 + column : row0 + row;
		int64_t i = OWNS_KEYS ? row0 + row : column0 + column;
		float weight = 0, keeps = 0, gradient = 0;

		if (t < a.s.t && i < n_seen(a, h.n, t)) {
			weight = expf(scores.at[row][column] * a.scale - h.log_sum[t]);
			keeps = kept(a, h.row0 + t, i);
			gradient = weight * (keeps * products.at[row][column] - h.mean[t]);
		}
		if (OWNS_KEYS)
			put(&weights.at[row][column], weight * keeps);
		put(&gradients.at[row][column], gradient);
	}
}

template <typename T, bool OWNS_KEYS>
__global__ void __launch_bounds__(OWN_WARPS *WARP)
	attention_mma_backward(struct attention a, struct tensors<T> tensors)
{
	if constexpr (has_units<T>::value) {
		__shared__ struct rows_tile<T, OWNED> staging;
		__shared__ struct rows_tile<T, WALKED> tile, gradient_tile;
		__shared__ struct scores_tile all_scores[OWN_WARPS], all_products[OWN_WARPS];
		__shared__ struct weights_tile<T> all_weights[OWN_WARPS], all_ds[OWN_WARPS];
		struct head<T> h = find_head(a, tensors);
		struct rows<T> q = {h.q, a.stride, a.s.t}, dy = {
			h.dy, a.s.c, a.s.t
		};
		struct rows<T> k = {h.k, a.stride, a.s.s}, v = {
			h.v, a.stride, a.s.s
		};
		int warp = threadIdx.x / WARP;
		struct scores_tile &scores = all_scores[warp], &products = all_products[warp];
		struct weights_tile<T> &weights = all_weights[warp], &ds = all_ds[warp];
		int64_t first = static_cast<int64_t>(blockIdx.x) * OWNED, last = first + OWNED - 1;
		int64_t begin = OWNS_KEYS && a.s.is_causal ? first / WALKED * WALKED : 0;
		int64_t end = OWNS_KEYS ? a.s.t : n_seen(a, h.n, last < a.s.t ? last : a.s.t - 1);
		left<T> own[STEPS], own_gradient[STEPS];
		total sums[STEPS], value_sums[STEPS];

		take_own(staging, OWNS_KEYS ? k : q, first, a.width, own);
		take_own(staging, OWNS_KEYS ? v : dy, first, a.width, own_gradient);
		for (int d = 0; d < STEPS; d++) {
			wmma::fill_fragment(sums[d], 0.0f);
			wmma::fill_fragment(value_sums[d], 0.0f);
		}
		for (int64_t column0 = begin; column0 < end; column0 += WALKED) {
			load_rows(tile, OWNS_KEYS ? q : k, column0, a.width);
			load_rows(gradient_tile, OWNS_KEYS ? dy : v, column0, a.width);
			__syncthreads();
			multiply_rows(own, tile, scores);
			multiply_rows(own_gradient, gradient_tile, products);
			__syncwarp();
			find_gradients<OWNS_KEYS>(a, h, first + warp * SIDE, column0, scores,
						  products, weights, ds);
			__syncwarp();
			add_product(ds, tile, sums);
			if (OWNS_KEYS)
				add_product(weights, gradient_tile, value_sums);
			__syncthreads();
		}
		if (!OWNS_KEYS)
			store_own(sums, a.scale, scores, h.dq, a.stride, first, a.s.t, a.width,
				  tensors.adds_q);
		if (OWNS_KEYS && h.dk)
			store_own(sums, a.scale, scores, h.dk, a.stride, first, a.s.s, a.width,
				  tensors.adds_k);
		if (OWNS_KEYS && h.dv)
			store_own(value_sums, 1, scores, h.dv, a.stride, first, a.s.s, a.width,
				  tensors.adds_v);
	}
}

template <typename T>
int attend(struct lh_cuda *cuda, const struct attention &a, const struct tensors<T> &t,
	   struct lh_error *err)
{
	return launch(cuda, err, "attention", attention_mma<T>, tiles_of(a.s.t, OWNED, a.s),
		      dim3(OWN_WARPS * WARP), a, t);
}

template <typename T>
int attend_mma_backward(struct lh_cuda *cuda, const struct attention &a, const struct tensors<T> &t,
			struct lh_error *err)
{
	int rc = 0;

	if (t.dq)
		rc = launch(cuda, err, "attention, backward", attention_mma_backward<T, false>,
			    tiles_of(a.s.t, OWNED, a.s), dim3(OWN_WARPS * WARP), a, t);
	if (rc == 0 && (t.dk || t.dv))
		rc = launch(cuda, err, "attention, backward", attention_mma_backward<T, true>,
			    tiles_of(a.s.s, OWNED, a.s), dim3(OWN_WARPS * WARP), a, t);
	return rc;
}

} // namespace

int lh_cuda_attend_mma(struct lh_cuda *cuda, const struct attention &a,
		       const struct tensors<__half> &t, struct lh_error *err)
{
	return attend(cuda, a, t, err);
}

int lh_cuda_attend_mma(struct lh_cuda *cuda, const struct attention &a,
		       const struct tensors<__nv_bfloat16> &t, struct lh_error *err)
{
	return attend(cuda, a, t, err);
}

int lh_cuda_attend_mma_backward(struct lh_cuda *cuda, const struct attention &a,
				const struct tensors<__half> &t, struct lh_error *err)
{
	return attend_mma_backward(cuda, a, t, err);
}

int lh_cuda_attend_mma_backward(struct lh_cuda *cuda, const struct attention &a,
				const struct tensors<__nv_bfloat16> &t, struct lh_error *err)
{
	return attend_mma_backward(cuda, a, t, err);
}
