/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for CUDA's header of that name: products of 16 x 16 matrices by a warp. Every lane
 * holds the factors whole, and eight numbers of the sum: half a row. Nothing synchronises the warp
 * here, so that a missing __syncwarp shows.
 */
#ifndef LH_TESTS_MMA_H
#define LH_TESTS_MMA_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

namespace nvcuda
{
namespace wmma
{

struct matrix_a {
};
struct matrix_b {
};
struct accumulator {
};
struct row_major {
};
struct col_major {
};
enum layout_t { mem_row_major, mem_col_major };

inline float widen(__half x)
{
	return __half2float(x);
}

inline float widen(__nv_bfloat16 x)
{
	return __bfloat162float(x);
}

inline bool is_transposed(row_major)
{
	return false;
}

inline bool is_transposed(col_major)
{
	return true;
}

template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment {
	static_assert(M == 16 && N == 16 && K == 16, "the only shape here");
	float at[16][16];
};

template <int M, int N, int K> struct fragment<accumulator, M, N, K, float, void> {
	float x[8]; /* row lane / 2, columns from lane % 2 * 8 on */
};

/* As the units ask: an address at a multiple of 32 bytes, rows of a multiple of 16. */
inline void check_place(const void *at, size_t row_bytes)
{
	if (reinterpret_cast<uintptr_t>(at) % 32 || row_bytes % 16)
		__builtin_trap();
}

template <typename Use, int M, int N, int K, typename T, typename Layout>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &to, const T *from, unsigned int stride)
{
	check_place(from, stride * sizeof(T));
	for (unsigned int i = 0; i < 16; i++)
		for (unsigned int j = 0; j < 16; j++)
			to.at[i][j] = widen(is_transposed(Layout{}) ? from[j * stride + i]
								    : from[i * stride + j]);
}

template <int M, int N, int K>
void fill_fragment(fragment<accumulator, M, N, K, float> &to, float value)
{
	for (float &x : to.x)
		x = value;
}

template <int M, int N, int K>
void store_matrix_sync(float *to, const fragment<accumulator, M, N, K, float> &from,
		       unsigned int stride, layout_t layout)
{
	unsigned int row = lh_emulated_lane() / 2, column = lh_emulated_lane() % 2 * 8;

	check_place(to, stride * sizeof(float));
	if (layout != mem_row_major)
		__builtin_trap();
	for (unsigned int i = 0; i < 8; i++)
		to[row * stride + column + i] = from.x[i];
}

template <int M, int N, int K, typename T, typename LayoutA, typename LayoutB>
void mma_sync(fragment<accumulator, M, N, K, float> &to,
	      const fragment<matrix_a, M, N, K, T, LayoutA> &a,
	      const fragment<matrix_b, M, N, K, T, LayoutB> &b,
	      const fragment<accumulator, M, N, K, float> &c)
{
	unsigned int row = lh_emulated_lane() / 2, column = lh_emulated_lane() % 2 * 8;

	for (unsigned int i = 0; i < 8; i++) {
		float sum = c.x[i];

		for (unsigned int k = 0; k < 16; k++)
			sum += a.at[row][k] * b.at[k][column + i];
		to.x[i] = sum;
	}
}

} // namespace wmma
} // namespace nvcuda

#endif
