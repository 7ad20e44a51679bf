/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention without the matrix of weights in memory: a block takes a tile of queries (or keys) of
 * one head, walks over tiles of keys (or queries), and computes the weights anew from the saved
 * logarithms of the softmax's denominators. Products are of floats, without matrix units.
 * See cuda.h and layers.h.
 * Source: FlashAttention-2, arXiv 2307.08691, algorithms 1 and 2.
 */
#include "trainer/device/cuda/attention.cuh"

using namespace lh;

namespace
{

/* 128 threads: COLUMNS over keys or channels, ROWS over queries. */
constexpr int COLUMNS = 16, ROWS = 8, ATTENTION_THREADS = COLUMNS * ROWS, WIDTH_MAX = 128;

/* Tiles of TILE rows by up to D channels in shared memory, which has 48 KiB. */
template <int D> struct tile_of {
	static constexpr int value = D > 64 ? 16 : 32;
};

/* Rows [first, first + TILE) of x, of which there are n, to shared memory; zeros elsewhere. */
template <int D, int TILE, typename T>
__device__ void load_tile(float (&tile)[TILE][D + 1], const T *x, int64_t stride, int64_t first,
			  int64_t n, int64_t width)
{
	for (int i = threadIdx.x; i < TILE * D; i += ATTENTION_THREADS) {
		int row = i / D, c = i % D;

		tile[row][c] =
			first + row < n && c < width ? to_float(x[(first + row) * stride + c]) : 0;
	}
}

/* out[r][c] = sum over channels of a[row r of this thread] b[column c of this thread]. */
template <int D, int TILE, int R, int C>
__device__ void multiply_rows(const float (&a)[TILE][D + 1], const float (&b)[TILE][D + 1],
			      float (&out)[R][C])
{
	int tx = threadIdx.x % COLUMNS, ty = threadIdx.x / COLUMNS;

	for (int r = 0; r < R; r++)
		for (int c = 0; c < C; c++)
			out[r][c] = 0;
	for (int d = 0; d < D; d++) {
		float left[R], right[C];

		for (int r = 0; r < R; r++)
			left[r] = a[ty + r * ROWS][d];
		for (int c = 0; c < C; c++)
			right[c] = b[tx + c * COLUMNS][d];
		for (int r = 0; r < R; r++)
			for (int c = 0; c < C; c++)
				out[r][c] += left[r] * right[c];
	}
}

/* out[r][d] += sum over j of p[row r of this thread][j] x[j][channel d of this thread]. */
template <int D, int TILE, int R, int C>
__device__ void add_product(const float (&p)[TILE][TILE + 1], const float (&x)[TILE][D + 1],
			    float (&out)[R][C])
{
	int tx = threadIdx.x % COLUMNS, ty = threadIdx.x / COLUMNS;

	for (int j = 0; j < TILE; j++) {
		float left[R];

		for (int r = 0; r < R; r++)
			left[r] = p[ty + r * ROWS][j];
		for (int c = 0; c < C; c++) {
			float right = x[j][tx + c * COLUMNS];

			for (int r = 0; r < R; r++)
				out[r][c] += left[r] * right;
		}
	}
}

/* The same with p transposed: the rows of out are p's columns. */
template <int D, int TILE, int R, int C>
__device__ void add_product_transposed(const float (&p)[TILE][TILE + 1],
				       const float (&x)[TILE][D + 1], float (&out)[R][C])
{
	int tx = threadIdx.x % COLUMNS, ty = threadIdx.x / COLUMNS;

	for (int j = 0; j < TILE; j++) {
		float left[R];

		for (int r = 0; r < R; r++)
			left[r] = p[j][ty + r * ROWS];
		for (int c = 0; c < C; c++) {
			float right = x[j][tx + c * COLUMNS];

			for (int r = 0; r < R; r++)
				out[r][c] += left[r] * right;
		}
	}
}

/* This thread's part of a tile to memory. */
template <int TILE, int R, int C, typename T>
__device__ void store_tile(T *x, int64_t stride, int64_t first, int64_t n, int64_t width,
			   const float (&values)[R][C], bool adds)
{
	int tx = threadIdx.x % COLUMNS, ty = threadIdx.x / COLUMNS;

	for (int r = 0; r < R; r++) {
		int64_t row = first + ty + r * ROWS;

		for (int c = 0; c < C; c++)
			if (row < n && tx + c * COLUMNS < width)
				put(x + row * stride + tx + c * COLUMNS, values[r][c], adds);
	}
}

/* Over the 16 threads of a row of the tile: half a warp. */
__device__ float row_sum(float x)
{
	for (int lane = COLUMNS / 2; lane > 0; lane /= 2)
		x += __shfl_xor_sync(ALL_LANES, x, lane);
	return x;
}

__device__ float row_max(float x)
{
	for (int lane = COLUMNS / 2; lane > 0; lane /= 2)
		x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, lane));
	return x;
}

/* Takes a tile of scores into the running softmax of rows: weights to p, and what has been summed
 * up so far is scaled to the new maximum. */
template <int TILE, int R, int S, int C, typename T>
__device__ void take_scores(const struct attention &a, const struct head<T> &h, int64_t t0,
			    int64_t i0, float (&scores)[R][S], float (&max)[R], float (&sum)[R],
			    float (&out)[R][C], float (&p)[TILE][TILE + 1])
{
	int tx = threadIdx.x % COLUMNS, ty = threadIdx.x / COLUMNS;

	for (int r = 0; r < R; r++) {
		int64_t t = t0 + ty + r * ROWS, seen = t < a.s.t ? n_seen(a, h.n, t) : 0;
		float best = max[r], added = 0, old;

		for (int c = 0; c < S; c++)
			if (i0 + tx + c * COLUMNS < seen)
				best = fmaxf(best, scores[r][c] * a.scale);
		best = row_max(best);
		old = max[r] == -INFINITY ? 0 : expf(max[r] - best);
		for (int c = 0; c < S; c++) {
			int64_t i = i0 + tx + c * COLUMNS;
			float weight = i < seen ? expf(scores[r][c] * a.scale - best) : 0;

			added += weight;
			p[ty + r * ROWS][tx + c * COLUMNS] = weight * kept(a, h.row0 + t, i);
		}
		max[r] = best;
		sum[r] = sum[r] * old + row_sum(added);
		for (int c = 0; c < C; c++)
			out[r][c] *= old;
	}
}

/* Grid: tiles of queries, heads of sequences. */
template <typename T, int D>
__global__ void __launch_bounds__(ATTENTION_THREADS)
	attention_forward(struct attention a, struct tensors<T> tensors)
{
	constexpr int TILE = tile_of<D>::value, R = TILE / ROWS, S = TILE / COLUMNS;
	constexpr int C = D / COLUMNS;
	__shared__ float q[TILE][D + 1], kv[TILE][D + 1], p[TILE][TILE + 1];
	struct head<T> h = find_head(a, tensors);
	int tx = threadIdx.x % COLUMNS, ty = threadIdx.x / COLUMNS;
	int64_t t0 = static_cast<int64_t>(blockIdx.x) * TILE, last = t0 + TILE - 1;
	int64_t seen = n_seen(a, h.n, last < a.s.t ? last : a.s.t - 1);
	float max[R], sum[R] = {}, out[R][C] = {}, scores[R][S];

	for (int r = 0; r < R; r++)
		max[r] = -INFINITY;
	load_tile<D, TILE>(q, h.q, a.stride, t0, a.s.t, a.width);
	for (int64_t i0 = 0; i0 < seen; i0 += TILE) {
		load_tile<D, TILE>(kv, h.k, a.stride, i0, a.s.s, a.width);
		__syncthreads();
		multiply_rows<D, TILE>(q, kv, scores);
		take_scores<TILE>(a, h, t0, i0, scores, max, sum, out, p);
		__syncthreads();
		load_tile<D, TILE>(kv, h.v, a.stride, i0, a.s.s, a.width);
		__syncthreads();
		add_product<D, TILE>(p, kv, out);
		__syncthreads();
	}
	for (int r = 0; r < R; r++) {
		int64_t t = t0 + ty + r * ROWS;

		for (int c = 0; c < C; c++)
			out[r][c] = sum[r] > 0 ? out[r][c] / sum[r] : 0;
		if (tx == 0 && t < a.s.t)
			tensors.log_sum[h.row0 + t] = max[r] + logf(sum[r]);
	}
	store_tile<TILE>(const_cast<T *>(h.y), a.s.c, t0, a.s.t, a.width, out, false);
}

/* mean[row] = sum over channels of y dy: a warp for each row of [N, heads, T]. */
template <typename T>
__global__ void attention_means(struct attention a, struct tensors<T> t, int64_t rows)
{
	int64_t step = index_step() / WARP;
	int lane = threadIdx.x % WARP;

	for (int64_t row = first_index() / WARP; row < rows; row += step) {
		int64_t n = row / a.s.t / a.s.heads, h = row / a.s.t % a.s.heads;
		int64_t at = (n * a.s.t + row % a.s.t) * a.s.c + h * a.width;
		float sum = 0;

		for (int64_t c = lane; c < a.width; c += WARP)
			sum += to_float(t.y[at + c]) * to_float(t.dy[at + c]);
		sum = warp_sum(sum);
		if (lane == 0)
			t.mean[row] = sum;
	}
}

/* Weights, and the gradients of scores before scaling, of a tile; dropped weights to p, gradients
 * to ds. products: of dy and v. */
template <int TILE, int R, int S, typename T>
__device__ void find_gradients(const struct attention &a, const struct head<T> &h, int64_t t0,
			       int64_t i0, const float (&scores)[R][S],
			       const float (&products)[R][S], float (*p)[TILE + 1],
			       float (&ds)[TILE][TILE + 1])
{
	int tx = threadIdx.x % COLUMNS, ty = threadIdx.x / COLUMNS;

	for (int r = 0; r < R; r++) {
		int row = ty + r * ROWS;
		int64_t t = t0 + row, seen = t < a.s.t ? n_seen(a, h.n, t) : 0;
		float log_sum = t < a.s.t ? h.log_sum[t] : 0, mean = t < a.s.t ? h.mean[t] : 0;

		for (int c = 0; c < S; c++) {
			int column = tx + c * COLUMNS;
			int64_t i = i0 + column;
			float weight = 0, keeps = 0;

			if (i < seen) {
				weight = expf(scores[r][c] * a.scale - log_sum);
				keeps = kept(a, h.row0 + t, i);
			}
			if (p)
				p[row][column] = weight * keeps;
			ds[row][column] = weight * (keeps * products[r][c] - mean) * a.scale;
		}
	}
}

template <typename T, int D>
__global__ void __launch_bounds__(ATTENTION_THREADS)
	attention_dq(struct attention a, struct tensors<T> tensors)
{
	constexpr int TILE = tile_of<D>::value, R = TILE / ROWS, S = TILE / COLUMNS;
	constexpr int C = D / COLUMNS;
	__shared__ float q[TILE][D + 1], dy[TILE][D + 1], k[TILE][D + 1], v[TILE][D + 1];
	__shared__ float ds[TILE][TILE + 1];
	struct head<T> h = find_head(a, tensors);
	int64_t t0 = static_cast<int64_t>(blockIdx.x) * TILE, last = t0 + TILE - 1;
	int64_t seen = n_seen(a, h.n, last < a.s.t ? last : a.s.t - 1);
	float out[R][C] = {}, scores[R][S], products[R][S];

	load_tile<D, TILE>(q, h.q, a.stride, t0, a.s.t, a.width);
	load_tile<D, TILE>(dy, h.dy, a.s.c, t0, a.s.t, a.width);
	for (int64_t i0 = 0; i0 < seen; i0 += TILE) {
		load_tile<D, TILE>(k, h.k, a.stride, i0, a.s.s, a.width);
		load_tile<D, TILE>(v, h.v, a.stride, i0, a.s.s, a.width);
		__syncthreads();
		multiply_rows<D, TILE>(q, k, scores);
		multiply_rows<D, TILE>(dy, v, products);
		find_gradients<TILE>(a, h, t0, i0, scores, products, nullptr, ds);
		__syncthreads();
		add_product<D, TILE>(ds, k, out);
		__syncthreads();
	}
	store_tile<TILE>(h.dq, a.stride, t0, a.s.t, a.width, out, tensors.adds_q);
}

/* Grid: tiles of keys, heads of sequences. */
template <typename T, int D>
__global__ void __launch_bounds__(ATTENTION_THREADS)
	attention_dkv(struct attention a, struct tensors<T> tensors)
{
	constexpr int TILE = tile_of<D>::value, R = TILE / ROWS, S = TILE / COLUMNS;
	constexpr int C = D / COLUMNS;
	__shared__ float q[TILE][D + 1], dy[TILE][D + 1], kv[TILE][D + 1];
	__shared__ float p[TILE][TILE + 1], ds[TILE][TILE + 1];
	struct head<T> h = find_head(a, tensors);
	int64_t i0 = static_cast<int64_t>(blockIdx.x) * TILE;
	int64_t first = a.s.is_causal ? i0 / TILE * TILE : 0;
	float dk[R][C] = {}, dv[R][C] = {}, scores[R][S], products[R][S];

	for (int64_t t0 = first; t0 < a.s.t; t0 += TILE) {
		load_tile<D, TILE>(q, h.q, a.stride, t0, a.s.t, a.width);
		load_tile<D, TILE>(dy, h.dy, a.s.c, t0, a.s.t, a.width);
		load_tile<D, TILE>(kv, h.k, a.stride, i0, a.s.s, a.width);
		__syncthreads();
		multiply_rows<D, TILE>(q, kv, scores);
		__syncthreads();
		load_tile<D, TILE>(kv, h.v, a.stride, i0, a.s.s, a.width);
		__syncthreads();
		multiply_rows<D, TILE>(dy, kv, products);
		find_gradients<TILE>(a, h, t0, i0, scores, products, p, ds);
		__syncthreads();
		add_product_transposed<D, TILE>(ds, q, dk);
		add_product_transposed<D, TILE>(p, dy, dv);
		__syncthreads();
	}
	if (h.dk)
		store_tile<TILE>(h.dk, a.stride, i0, a.s.s, a.width, dk, tensors.adds_k);
	if (h.dv)
		store_tile<TILE>(h.dv, a.stride, i0, a.s.s, a.width, dv, tensors.adds_v);
}

/* ---- launching ------------------------------------------------------------------------------ */

/* Calls f with the least D of 32, 64 and 128 that holds the width. */
template <int D> struct channels {
	static constexpr int value = D;
};
template <typename F> int by_channels(int64_t width, F f)
{
	if (width <= 32)
		return f(channels<32>{});
	return width <= 64 ? f(channels<64>{}) : f(channels<WIDTH_MAX>{});
}

template <typename T>
int attend_backward(struct lh_cuda *cuda, const struct lh_graph_node *node, const struct lh_pass *pass,
		    struct lh_error *err)
{
	struct attention a = describe(node, pass);
	struct tensors<T> t = find_tensors<T>(node);
	int64_t rows = a.s.n * a.s.heads * a.s.t;
	int rc = launch(cuda, err, "attention, backward", attention_means<T>,
			blocks_for(rows * WARP), dim3(THREADS), a, t, rows);

	if (rc)
		return rc;
	if constexpr (sizeof(T) == 2)
		if (fits_matrix_units<T>(a))
			return lh_cuda_attend_mma_backward(cuda, a, t, err);
	return by_channels(a.width, [&](auto channels) {
		constexpr int D = decltype(channels)::value, TILE = tile_of<D>::value;
		int status = 0;

		if (t.dq)
			status = launch(cuda, err, "attention, backward", attention_dq<T, D>,
					tiles_of(a.s.t, TILE, a.s), dim3(ATTENTION_THREADS), a, t);
		if (status == 0 && (t.dk || t.dv))
			status = launch(cuda, err, "attention, backward", attention_dkv<T, D>,
					tiles_of(a.s.s, TILE, a.s), dim3(ATTENTION_THREADS), a, t);
		return status;
	});
}

} // namespace

extern "C" {

int lh_cuda_attention_prepare(struct lh_device *, struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_attention *s = static_cast<const struct lh_attention *>(node->spec);

	if (s->c / s->heads > WIDTH_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "heads of %lld channels; the cuda device takes at most %d",
			       static_cast<long long>(s->c / s->heads), WIDTH_MAX);
	if (s->n * s->heads > UINT16_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "%lld heads of all sequences; the cuda device takes at most %d: "
			       "use a smaller batch",
			       static_cast<long long>(s->n * s->heads), UINT16_MAX);
	node->workspace_bytes = static_cast<size_t>(s->n * s->heads * s->t) * sizeof(float);
	return 0;
}

int lh_cuda_attention_forward(struct lh_device *device, const struct lh_graph_node *node,
			      const struct lh_pass *pass, struct lh_error *err)
{
	struct attention a = describe(node, pass);

	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);
		struct tensors<T> t = find_tensors<T>(node);

		if constexpr (sizeof(T) == 2)
			if (fits_matrix_units<T>(a))
				return lh_cuda_attend_mma(lh_cuda_of(device), a, t, err);
		return by_channels(a.width, [&](auto channels) {
			constexpr int D = decltype(channels)::value;

			return launch(lh_cuda_of(device), err, "attention", attention_forward<T, D>,
				      tiles_of(a.s.t, tile_of<D>::value, a.s),
				      dim3(ATTENTION_THREADS), a, t);
		});
	});
}

int lh_cuda_attention_backward(struct lh_device *device, const struct lh_graph_node *node,
			       const struct lh_pass *pass, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		return attend_backward<decltype(zero)>(lh_cuda_of(device), node, pass, err);
	});
}

} // extern "C"
