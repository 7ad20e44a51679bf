/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products through cuBLAS. Sums are floats whatever the inputs are; no TF32. See cuda.h. */
#include <cublas_v2.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "trainer/device/cuda/cuda.h"

/* What NVIDIA advises for Hopper; given once, so that cuBLAS allocates none. */
enum { WORKSPACE_BYTES = 32 << 20 };

struct lh_cuda_matmuls {
	cublasHandle_t handle;
	void *workspace;
};

static int check(cublasStatus_t status, const char *what, struct lh_error *err)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return 0;
	return lh_fail(err, LH_ERUN, 0, "%s: %s", what, cublasGetStatusString(status));
}

static cudaDataType_t type_of(enum lh_dtype dtype)
{
	switch (dtype) {
	case LH_F16:
		return CUDA_R_16F;
	case LH_BF16:
		return CUDA_R_16BF;
	default:
		return CUDA_R_32F;
	}
}

int lh_cuda_matmuls_open(struct lh_cuda *cuda, struct lh_error *err)
{
	cublasMath_t math = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
	struct lh_cuda_matmuls *blas = calloc(1, sizeof(*blas));
	int rc;

	if (!blas)
		return lh_fail(err, LH_ESYS, 0, "no memory for cuBLAS");
	cuda->blas = blas;
	rc = check(cublasCreate(&blas->handle), "cublasCreate", err);
	if (rc == 0)
		rc = check(cublasSetStream(blas->handle, cuda->stream), "cublasSetStream", err);
	if (rc == 0)
		rc = check(cublasSetMathMode(blas->handle, math), "cublasSetMathMode", err);
	if (rc == 0)
		rc = lh_cuda_check(cudaMalloc(&blas->workspace, WORKSPACE_BYTES),
				   "cuBLAS's workspace", err);
	if (rc == 0)
		rc = check(cublasSetWorkspace(blas->handle, blas->workspace, WORKSPACE_BYTES),
			   "cublasSetWorkspace", err);
	return rc;
}

void lh_cuda_matmuls_close(struct lh_cuda *cuda)
{
	if (!cuda->blas)
		return;
	if (cuda->blas->handle)
		cublasDestroy(cuda->blas->handle);
	cudaFree(cuda->blas->workspace);
	free(cuda->blas);
}

/* cuBLAS counts column by column: it sees all matrices transposed, so c^T = b^T a^T. */
int lh_cuda_matmul(struct lh_cuda *cuda, const struct lh_cuda_matmul *p, struct lh_error *err)
{
	const float alpha = 1, beta = p->adds ? 1 : 0;
	int64_t a_width = p->transposes_a ? p->m : p->k, b_width = p->transposes_b ? p->k : p->n;

	if (p->m > INT_MAX || p->n > INT_MAX || p->k > INT_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "a product of %" PRId64 " x %" PRId64 " x %" PRId64
			       "; at most 2^31 - 1 each",
			       p->m, p->n, p->k);
	return check(cublasGemmEx(cuda->blas->handle, p->transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N,
				  p->transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)p->n, (int)p->m,
				  (int)p->k, &alpha, p->b, type_of(p->in), (int)b_width, p->a,
				  type_of(p->in), (int)a_width, &beta, p->c, type_of(p->out),
				  (int)p->n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
		     "cublasGemmEx", err);
}
