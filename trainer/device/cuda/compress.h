/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressors on the GPU, before what is sent is copied to the host. Codecs give the bits of those
 * of trainer/compress, which are their reference; fp16 and bf16 are lh_cuda_convert; uniform8 is
 * not here, as its sums are in an order that leaves a GPU idle.
 *
 * All pointers are of device memory, aligned to 4 bytes or more, but for rng. Nothing waits except
 * mstopk.
 */
#ifndef LH_TRAINER_CUDA_COMPRESS_H
#define LH_TRAINER_CUDA_COMPRESS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "core/rng.h"
#include "trainer/device/cuda/cuda.h"

/* n values as lh_codec_blockwise8 and lh_codec_onebit write them, and back; wire has their
 * wire_bytes(n). 1 <= n < 2^31. */
int lh_cuda_blockwise8_encode(struct lh_cuda *cuda, const float *values, int64_t n, void *wire,
			      struct lh_error *err);
int lh_cuda_blockwise8_decode(struct lh_cuda *cuda, const void *wire, int64_t n, float *values,
			      struct lh_error *err);
int lh_cuda_onebit_encode(struct lh_cuda *cuda, const float *values, int64_t n, void *wire,
			  struct lh_error *err);
int lh_cuda_onebit_decode(struct lh_cuda *cuda, const void *wire, int64_t n, float *values,
			  struct lh_error *err);

/* lh_sparse_mstopk without its guess, which pays where reading is slow. */
struct lh_cuda_mstopk {
	const float *values;
	int64_t n; /* 1 to below 2^31 */
	uint32_t k;
	struct lh_rng *rng; /* on the host */
	void *workspace;    /* lh_cuda_mstopk_bytes(n) */
	uint32_t *indices;  /* out: k, ascending */
	float *chosen;	    /* out: their values */
};
size_t lh_cuda_mstopk_bytes(int64_t n);
int lh_cuda_mstopk(struct lh_cuda *cuda, const struct lh_cuda_mstopk *job, struct lh_error *err);

/* x[indices[i]] = 0 for k indices: what was sent is remembered no longer. */
int lh_cuda_clear(struct lh_cuda *cuda, float *x, const uint32_t *indices, uint32_t k,
		  struct lh_error *err);

#ifdef __cplusplus
}
#endif

#endif
