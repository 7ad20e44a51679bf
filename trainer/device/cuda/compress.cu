/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs. See compress.h; forms in trainer/compress. Products and sums are never fused, and sums of
 * signs have the reference's 16 lanes, so that the bits are the reference's.
 */
#include <string.h>

#include "trainer/device/cuda/compress.h"
#include "trainer/device/cuda/kernels.cuh"

extern "C" {
#include "trainer/compress/compress.h"
}

using namespace lh;

namespace
{

constexpr int CODEC_BLOCK = LH_CODEC_BLOCK, CODES = 256, SCALE = 4;
constexpr int BITS_BYTES = CODEC_BLOCK / 8, MEANS_BYTES = 8;
constexpr int LANES = 16, CHUNKS_PER_BLOCK = THREADS / LANES;
constexpr uint32_t MAGNITUDE = 0x7fffffff;

static_assert(CODES == THREADS, "a thread for each code");

__device__ inline uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

__device__ inline float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* ---- blockwise8 ----------------------------------------------------------------------------- */

/* Of a block of THREADS, in all of its threads. */
__device__ inline uint32_t block_largest(uint32_t x)
{
	__shared__ uint32_t largest[THREADS / WARP];

	for (int lane = WARP / 2; lane > 0; lane /= 2) {
		uint32_t other = __shfl_xor_sync(ALL_LANES, x, lane);

		x = other > x ? other : x;
	}
	if (threadIdx.x % WARP == 0)
		largest[threadIdx.x / WARP] = x;
	__syncthreads();
	for (int i = 0; i < THREADS / WARP; i++)
		x = largest[i] > x ? largest[i] : x;
	return x;
}

/* The nearest value's place by magnitude: decades have twice the codes of the one below. */
__device__ inline uint32_t place_on_map(float size)
{
	const float begins[] = {1.9e-6f, 1.45e-5f, 1.225e-4f, 1.1125e-3f, 1.05625e-2f, 0.1028125f};
	const float steps[] = {2e5f / 0.9f,   4e4f / 0.9f,   8e3f / 0.9f,
			       1.6e3f / 0.9f, 3.2e2f / 0.9f, 64 / 0.9f};
	float per_unit = 1e6f / 0.9f;
	uint32_t first = 1, place;

	/* a NaN is less than all */
	if (!(size >= 2.75e-7f))
		return 0;
	if (size >= 0.99648438f)
		return 128;
#pragma unroll
	for (int d = 0; d < 6; d++)
		if (size >= begins[d]) {
			per_unit = steps[d];
			first <<= 1;
		}
	place = static_cast<uint32_t>(__fadd_rn(__fmul_rn(size, per_unit),
						__fmul_rn(static_cast<float>(first), 8.0f / 9)));
	place = place > first ? place : first;
	return place < 2 * first ? place : 2 * first - 1;
}

__global__ void encode_blockwise8(const float *values, int64_t n, unsigned char *wire)
{
	int64_t at = static_cast<int64_t>(blockIdx.x) * CODEC_BLOCK;
	int m = static_cast<int>(n - at < CODEC_BLOCK ? n - at : CODEC_BLOCK);
	unsigned char *out = wire + static_cast<int64_t>(blockIdx.x) * (SCALE + CODEC_BLOCK);
	uint32_t most = 0;
	float largest;

	for (int i = threadIdx.x; i < m; i += THREADS) {
		uint32_t size = bits_of(values[at + i]) & MAGNITUDE;

		most = size > most ? size : most;
	}
	most = block_largest(most);
	if (threadIdx.x == 0)
		memcpy(out, &most, sizeof(most));
	largest = most ? float_of(most) : 1;
	for (int i = threadIdx.x; i < m; i += THREADS) {
		uint32_t bits = bits_of(values[at + i]), sign = bits >> 24 & 0x80;
		uint32_t place = place_on_map(float_of(bits & MAGNITUDE) / largest);

		/* -1 has no code of its own, and 0 no sign */
		if (sign && place == 128)
			place = 127;
		out[SCALE + i] = static_cast<unsigned char>(place ? place | sign : 0);
	}
}

__device__ inline float value_of_code(unsigned int code)
{
	unsigned int place = code & 0x7f, first = 64;
	float top = 1, value;

	if (place == 0)
		return code ? 1.0f : 0.0f;
	for (; first > place; first /= 2)
		top /= 10;
	value = __fmul_rn(top,
			  __fadd_rn(0.1f, __fmul_rn(0.9f / static_cast<float>(first),
						    static_cast<float>(place - first) + 0.5f)));
	return code & 0x80 ? -value : value;
}

__global__ void decode_blockwise8(const unsigned char *wire, int64_t n, float *values)
{
	__shared__ float map[CODES];
	int64_t at = static_cast<int64_t>(blockIdx.x) * CODEC_BLOCK;
	int m = static_cast<int>(n - at < CODEC_BLOCK ? n - at : CODEC_BLOCK);
	const unsigned char *in = wire + static_cast<int64_t>(blockIdx.x) * (SCALE + CODEC_BLOCK);
	float largest;

	map[threadIdx.x] = value_of_code(threadIdx.x);
	__syncthreads();
	memcpy(&largest, in, sizeof(largest));
	if (!(fabsf(largest) < INFINITY))
		largest = NAN;
	for (int i = threadIdx.x; i < m; i += THREADS)
		values[at + i] = map[in[SCALE + i]] * largest;
}

/* ---- onebit --------------------------------------------------------------------------------- */

__device__ inline float mean_of(double sum, int count)
{
	return count ? static_cast<float>(sum / count) : 0;
}

/* The means of 16 chunks, 16 threads each. */
__global__ void average_signs(const float *values, int64_t n, unsigned char *wire)
{
	__shared__ double above[THREADS], below[THREADS];
	__shared__ int counts[THREADS];
	int64_t chunk = static_cast<int64_t>(blockIdx.x) * CHUNKS_PER_BLOCK + threadIdx.x / LANES;
	int64_t at = chunk * CODEC_BLOCK;
	int m = static_cast<int>(at >= n ? 0 : n - at < CODEC_BLOCK ? n - at : CODEC_BLOCK);
	double sums[2] = {0, 0};
	int n_above = 0;

	for (int i = threadIdx.x % LANES; i < m; i += LANES) {
		float x = values[at + i];
		bool is_above = x >= 0;

		sums[1] += is_above ? static_cast<double>(x) : 0;
		sums[0] += is_above ? 0 : static_cast<double>(x);
		n_above += is_above;
	}
	above[threadIdx.x] = sums[1];
	below[threadIdx.x] = sums[0];
	counts[threadIdx.x] = n_above;
	__syncthreads();
	if (threadIdx.x % LANES || !m)
		return;
	sums[0] = sums[1] = 0;
	n_above = 0;
	for (int lane = 0; lane < LANES; lane++) {
		sums[0] += below[threadIdx.x + lane];
		sums[1] += above[threadIdx.x + lane];
		n_above += counts[threadIdx.x + lane];
	}
	float means[2] = {mean_of(sums[0], m - n_above), mean_of(sums[1], n_above)};
	memcpy(wire + chunk * (MEANS_BYTES + BITS_BYTES), means, sizeof(means));
}

__global__ void pack_signs(const float *values, int64_t n, unsigned char *wire)
{
	for (int64_t byte = first_index(); byte * 8 < n; byte += index_step()) {
		int m = static_cast<int>(n - byte * 8 < 8 ? n - byte * 8 : 8);
		unsigned int bits = 0;

		for (int b = 0; b < m; b++)
			bits |= static_cast<unsigned int>(values[byte * 8 + b] >= 0) << b;
		wire[byte / BITS_BYTES * (MEANS_BYTES + BITS_BYTES) + MEANS_BYTES +
		     byte % BITS_BYTES] = static_cast<unsigned char>(bits);
	}
}

__global__ void decode_onebit(const unsigned char *wire, int64_t n, float *values)
{
	for (int64_t i = first_index(); i < n; i += index_step()) {
		const unsigned char *in = wire + i / CODEC_BLOCK * (MEANS_BYTES + BITS_BYTES);
		float means[2];

		memcpy(means, in, sizeof(means));
		values[i] = means[in[MEANS_BYTES + i % CODEC_BLOCK / 8] >> i % 8 & 1];
	}
}

dim3 blocks_of_codec(int64_t n)
{
	return dim3(static_cast<unsigned int>(divide_up(n, CODEC_BLOCK)));
}

} // namespace

extern "C" {

int lh_cuda_blockwise8_encode(struct lh_cuda *cuda, const float *values, int64_t n, void *wire,
			      struct lh_error *err)
{
	return launch(cuda, err, "blockwise8", encode_blockwise8, blocks_of_codec(n), dim3(THREADS),
		      values, n, static_cast<unsigned char *>(wire));
}

int lh_cuda_blockwise8_decode(struct lh_cuda *cuda, const void *wire, int64_t n, float *values,
			      struct lh_error *err)
{
	return launch(cuda, err, "blockwise8", decode_blockwise8, blocks_of_codec(n), dim3(THREADS),
		      static_cast<const unsigned char *>(wire), n, values);
}

int lh_cuda_onebit_encode(struct lh_cuda *cuda, const float *values, int64_t n, void *wire,
			  struct lh_error *err)
{
	int64_t blocks = divide_up(divide_up(n, CODEC_BLOCK), CHUNKS_PER_BLOCK);
	unsigned char *out = static_cast<unsigned char *>(wire);
	int rc = launch(cuda, err, "onebit", average_signs, dim3(static_cast<unsigned int>(blocks)),
			dim3(THREADS), values, n, out);

	return rc ? rc
		  : launch(cuda, err, "onebit", pack_signs, blocks_for(divide_up(n, 8)),
			   dim3(THREADS), values, n, out);
}

int lh_cuda_onebit_decode(struct lh_cuda *cuda, const void *wire, int64_t n, float *values,
			  struct lh_error *err)
{
	return launch(cuda, err, "onebit", decode_onebit, blocks_for(n), dim3(THREADS),
		      static_cast<const unsigned char *>(wire), n, values);
}

} // extern "C"
