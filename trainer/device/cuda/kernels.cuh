/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels share: types, launching, sums within warps and blocks, loops over elements and over
 * rows of channels, sums over rows. Numbers are loaded 16 bytes at a time where the shape allows
 * it: activations begin at multiples of 64 bytes.
 */
#ifndef LH_TRAINER_CUDA_KERNELS_CUH
#define LH_TRAINER_CUDA_KERNELS_CUH

#include <math.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "trainer/device/cuda/cuda.h"

namespace lh
{

constexpr int WARP = 32, THREADS = 256, BLOCKS_MAX = 1 << 16;
constexpr unsigned int ALL_LANES = 0xffffffffu;

/* ---- types ---------------------------------------------------------------------------------- */

__device__ inline float to_float(float x)
{
	return x;
}

__device__ inline float to_float(__half x)
{
	return __half2float(x);
}

__device__ inline float to_float(__nv_bfloat16 x)
{
	return __bfloat162float(x);
}

__device__ inline void put(float *y, float value)
{
	*y = value;
}

__device__ inline void put(__half *y, float value)
{
	*y = __float2half(value);
}

__device__ inline void put(__nv_bfloat16 *y, float value)
{
	*y = __float2bfloat16(value);
}

template <typename T> __device__ inline void put(T *y, float value, bool adds)
{
	put(y, adds ? to_float(*y) + value : value);
}

/* Calls f with a zero of the type. */
template <typename F> int by_type(enum lh_dtype type, F f)
{
	switch (type) {
	case LH_F16:
		return f(__half{});
	case LH_BF16:
		return f(__nv_bfloat16{});
	default:
		return f(float{});
	}
}

/* Calls f with the most neighbours that can be loaded at once where c numbers follow each other:
 * 16 bytes of them, or one. */
template <typename T> struct width {
	static constexpr int value = 1;
};
template <typename T> struct widest {
	static constexpr int value = 16 / sizeof(T);
};
template <typename T, typename F> int by_width(int64_t c, F f)
{
	return c % widest<T>::value == 0 ? f(widest<T>{}) : f(width<T>{});
}

template <typename T, int V> struct alignas(sizeof(T) * V) pack {
	T at[V];
};

template <int V, typename T> __device__ inline void load(const T *x, float (&values)[V])
{
	pack<T, V> p = *reinterpret_cast<const pack<T, V> *>(x);

#pragma unroll
	for (int v = 0; v < V; v++)
		values[v] = to_float(p.at[v]);
}

template <int V, typename T> __device__ inline void store(T *y, const float (&values)[V])
{
	pack<T, V> p;

#pragma unroll
	for (int v = 0; v < V; v++)
		put(&p.at[v], values[v]);
	*reinterpret_cast<pack<T, V> *>(y) = p;
}

template <int V, typename T> __device__ inline void store(T *y, const float (&values)[V], bool adds)
{
	float sums[V] = {};

	if (adds)
		load<V>(y, sums);
#pragma unroll
	for (int v = 0; v < V; v++)
		sums[v] += values[v];
	store<V>(y, sums);
}

template <typename T> const T *data(const struct lh_tensor *tensor)
{
	return static_cast<const T *>(tensor->data);
}

template <typename T> T *grad(const struct lh_tensor *tensor)
{
	return static_cast<T *>(tensor->grad);
}

/* ---- launching ------------------------------------------------------------------------------ */

template <typename... Parameters, typename... Arguments>
int launch(struct lh_cuda *cuda, struct lh_error *err, const char *what,
	   void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments)
{
	cudaLaunchConfig_t config = {};

	config.gridDim = grid;
	config.blockDim = block;
	config.stream = cuda->stream;
	return lh_cuda_check(cudaLaunchKernelEx(&config, kernel,
						static_cast<Parameters>(arguments)...),
			     what, err);
}

inline int64_t divide_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* Blocks of THREADS for n things, each thread as many as it takes. */
inline dim3 blocks_for(int64_t n)
{
	int64_t blocks = divide_up(n, THREADS);

	return dim3(static_cast<unsigned int>(blocks < BLOCKS_MAX ? (blocks ? blocks : 1)
								  : BLOCKS_MAX));
}

__device__ inline int64_t first_index()
{
	return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ inline int64_t index_step()
{
	return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Of all 32 lanes, in all of them. */
template <typename T> __device__ inline T warp_sum(T x)
{
#pragma unroll
	for (int lane = WARP / 2; lane > 0; lane /= 2)
		x += __shfl_xor_sync(ALL_LANES, x, lane);
	return x;
}

/* Of a block of THREADS in one dimension, in all of its threads. */
template <typename T> __device__ inline T block_sum(T x)
{
	__shared__ T sums[THREADS / WARP];
	T total = 0;

	x = warp_sum(x);
	if (threadIdx.x % WARP == 0)
		sums[threadIdx.x / WARP] = x;
	__syncthreads();
	for (int i = 0; i < THREADS / WARP; i++)
		total += sums[i];
	__syncthreads();
	return total;
}

/* ---- element by element --------------------------------------------------------------------- */

/* y[i] = f(i, a[i], b[i]), or adds it; b may be NULL. y may be a or b. */
template <typename T, typename F>
__global__ void map_elements(F f, const T *a, const T *b, T *y, bool adds, int64_t n)
{
	constexpr int V = widest<T>::value;

	for (int64_t i = first_index(); i < n / V; i += index_step()) {
		float p[V], q[V] = {};

		load<V>(a + i * V, p);
		if (b)
			load<V>(b + i * V, q);
#pragma unroll
		for (int v = 0; v < V; v++)
			p[v] = f(i * V + v, p[v], q[v]);
		store<V>(y + i * V, p, adds);
	}
	for (int64_t i = n / V * V + first_index(); i < n; i += index_step())
		put(y + i, f(i, to_float(a[i]), b ? to_float(b[i]) : 0), adds);
}

template <typename T, typename F>
int map(struct lh_cuda *cuda, const char *what, F f, const T *a, const T *b, T *y, bool adds,
	int64_t n, struct lh_error *err)
{
	return launch(cuda, err, what, map_elements<T, F>,
		      blocks_for(divide_up(n, widest<T>::value)), dim3(THREADS), f, a, b, y, adds,
		      n);
}

/* ---- rows of channels ----------------------------------------------------------------------- */

/* Threads over `packs` groups of neighbouring channels in x and over rows in y. */
struct tiling {
	dim3 grid, block;
	int64_t rows_per_block;
};

/* At most blocks_max blocks. A function of the shape alone: sums are the same on every GPU. */
inline struct tiling tile(int64_t rows, int64_t packs, int64_t blocks_max)
{
	struct tiling t;
	unsigned int x = 1;
	int64_t chunks, most;

	while (x < packs && x < 2 * WARP)
		x *= 2;
	t.block = dim3(x, THREADS / x);
	t.grid = dim3(static_cast<unsigned int>(divide_up(packs, x)));
	chunks = divide_up(rows, 4 * static_cast<int64_t>(t.block.y));
	most = blocks_max / t.grid.x > 0 ? blocks_max / t.grid.x : 1;
	most = most < 65535 ? most : 65535;
	chunks = chunks < most ? chunks : most;
	t.rows_per_block = divide_up(rows, chunks);
	t.grid.y = static_cast<unsigned int>(divide_up(rows, t.rows_per_block));
	return t;
}

/* f(row, channel) for every row and every V-th channel. */
template <typename F, int V>
__global__ void map_rows(F f, int64_t rows, int64_t c, int64_t rows_per_block)
{
	int64_t channel = first_index() * V, row = blockIdx.y * rows_per_block + threadIdx.y;
	int64_t end = (blockIdx.y + 1) * rows_per_block;

	if (channel >= c)
		return;
	f.begin(channel);
	for (; row < end && row < rows; row += blockDim.y)
		f(row, channel);
}

template <int V, typename F>
int map_channels(struct lh_cuda *cuda, const char *what, F f, int64_t rows, int64_t c,
		 struct lh_error *err)
{
	struct tiling t = tile(rows, divide_up(c, V), BLOCKS_MAX);

	return launch(cuda, err, what, map_rows<F, V>, t.grid, t.block, f, rows, c,
		      t.rows_per_block);
}

/* ---- sums over rows ------------------------------------------------------------------------- */

constexpr int SUM_BLOCKS_MAX = 1024, FINISH_ROWS = 8;

/* Adds up K numbers per channel over the block's rows: partial [blocks][K][C]. */
template <typename F, int K, int V>
__global__ void sum_rows(F f, int64_t rows, int64_t c, int64_t rows_per_block, float *partial)
{
	__shared__ float shared[K * V][THREADS];
	int64_t channel = first_index() * V, end = (blockIdx.y + 1) * rows_per_block;
	unsigned int thread = threadIdx.y * blockDim.x + threadIdx.x;
	float sums[K][V] = {};

	if (channel < c) {
		f.begin(channel);
		for (int64_t row = blockIdx.y * rows_per_block + threadIdx.y;
		     row < end && row < rows; row += blockDim.y)
			f.add(row, channel, sums);
	}
#pragma unroll
	for (int i = 0; i < K * V; i++)
		shared[i][thread] = sums[i / V][i % V];
	for (unsigned int half = blockDim.y / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.y < half)
			for (int i = 0; i < K * V; i++)
				shared[i][thread] += shared[i][thread + half * blockDim.x];
	}
	if (threadIdx.y == 0 && channel < c)
		for (int i = 0; i < K * V; i++)
			partial[(static_cast<int64_t>(blockIdx.y) * K + i / V) * c + channel +
				i % V] = shared[i][thread];
}

/* Adds up the blocks' sums and gives them to g. */
template <typename G, int K>
__global__ void finish_sums(G g, int64_t c, int64_t n_partial, const float *partial)
{
	__shared__ float shared[K][FINISH_ROWS][WARP];
	int64_t channel = static_cast<int64_t>(blockIdx.x) * WARP + threadIdx.x;

	for (int k = 0; k < K; k++) {
		float sum = 0;

		if (channel < c)
			for (int64_t i = threadIdx.y; i < n_partial; i += FINISH_ROWS)
				sum += partial[(i * K + k) * c + channel];
		shared[k][threadIdx.y][threadIdx.x] = sum;
	}
	__syncthreads();
	if (threadIdx.y == 0 && channel < c) {
		float sums[K];

		for (int k = 0; k < K; k++) {
			sums[k] = 0;
			for (int y = 0; y < FINISH_ROWS; y++)
				sums[k] += shared[k][y][threadIdx.x];
		}
		g(channel, sums);
	}
}

/* The workspace of sum_channels. */
template <typename T> size_t sum_bytes(int64_t rows, int64_t c, int k)
{
	int64_t v = c % widest<T>::value == 0 ? widest<T>::value : 1;
	struct tiling t = tile(rows, c / v, SUM_BLOCKS_MAX);

	return lh_cuda_align(static_cast<size_t>(t.grid.y * k * c) * sizeof(float));
}

/* f.add(row, channel, sums) over all rows, then g(channel, sums) once for every channel. */
template <int K, int V, typename F, typename G>
int sum_channels(struct lh_cuda *cuda, const char *what, F f, G g, int64_t rows, int64_t c,
		 float *partial, struct lh_error *err)
{
	struct tiling t = tile(rows, c / V, SUM_BLOCKS_MAX);
	int rc = launch(cuda, err, what, sum_rows<F, K, V>, t.grid, t.block, f, rows, c,
			t.rows_per_block, partial);

	if (rc)
		return rc;
	return launch(cuda, err, what, finish_sums<G, K>,
		      dim3(static_cast<unsigned int>(divide_up(c, WARP))), dim3(WARP, FINISH_ROWS),
		      g, c, static_cast<int64_t>(t.grid.y), partial);
}

/* g of sum_channels: adds to two vectors, of which either may be NULL. */
struct add_two {
	float *first, *second;

	__device__ void operator()(int64_t channel, const float *sums) const
	{
		if (first)
			first[channel] += sums[0];
		if (second)
			second[channel] += sums[1];
	}
};

struct add_one {
	float *to;

	__device__ void operator()(int64_t channel, const float *sums) const
	{
		to[channel] += sums[0];
	}
};

} // namespace lh

#endif
