/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions through cuDNN, channels last. Of the algorithms that its heuristics propose, the
 * first that is deterministic and whose workspace is not larger than a bound; chosen once, when
 * the graph is finished. fp32 products are exact ones, not TF32. See cuda.h.
 */
#include <cudnn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "trainer/device/cuda/cuda.h"

enum { PROPOSALS_MAX = 16 };

/* Larger workspaces seldom pay; one is shared by all layers. */
static const size_t WORKSPACE_BYTES_MAX = (size_t)1 << 30;

struct lh_cuda_convolutions {
	cudnnHandle_t handle;
};

struct lh_cuda_convolution {
	cudnnTensorDescriptor_t x, y;
	cudnnFilterDescriptor_t w;
	cudnnConvolutionDescriptor_t how;
	cudnnConvolutionFwdAlgo_t forward;
	cudnnConvolutionBwdDataAlgo_t backward_x;
	cudnnConvolutionBwdFilterAlgo_t backward_w;
	size_t workspace_bytes;
};

static int check(cudnnStatus_t status, const char *what, struct lh_error *err)
{
	char last[256] = "";

	if (status == CUDNN_STATUS_SUCCESS)
		return 0;
	cudnnGetLastErrorString(last, sizeof(last));
	return lh_fail(err, LH_ERUN, 0, "%s: %s%s%s", what, cudnnGetErrorString(status),
		       *last ? ": " : "", last);
}

static cudnnDataType_t type_of(enum lh_dtype dtype)
{
	switch (dtype) {
	case LH_F16:
		return CUDNN_DATA_HALF;
	case LH_BF16:
		return CUDNN_DATA_BFLOAT16;
	default:
		return CUDNN_DATA_FLOAT;
	}
}

int lh_cuda_convolutions_open(struct lh_cuda *cuda, struct lh_error *err)
{
	struct lh_cuda_convolutions *dnn = calloc(1, sizeof(*dnn));
	int rc;

	if (!dnn)
		return lh_fail(err, LH_ESYS, 0, "no memory for cuDNN");
	cuda->dnn = dnn;
	rc = check(cudnnCreate(&dnn->handle), "cudnnCreate", err);
	return rc ? rc : check(cudnnSetStream(dnn->handle, cuda->stream), "cudnnSetStream", err);
}

void lh_cuda_convolutions_close(struct lh_cuda *cuda)
{
	if (!cuda->dnn)
		return;
	if (cuda->dnn->handle)
		cudnnDestroy(cuda->dnn->handle);
	free(cuda->dnn);
}

size_t lh_cuda_convolutions_version(void)
{
	return cudnnGetVersion();
}

/* ---- descriptors ---------------------------------------------------------------------------- */

static int create_descriptors(struct lh_cuda_convolution *c, struct lh_error *err)
{
	int rc = check(cudnnCreateTensorDescriptor(&c->x), "cudnnCreateTensorDescriptor", err);

	if (rc == 0)
		rc = check(cudnnCreateTensorDescriptor(&c->y), "cudnnCreateTensorDescriptor", err);
	if (rc == 0)
		rc = check(cudnnCreateFilterDescriptor(&c->w), "cudnnCreateFilterDescriptor", err);
	if (rc == 0)
		rc = check(cudnnCreateConvolutionDescriptor(&c->how),
			   "cudnnCreateConvolutionDescriptor", err);
	return rc;
}

static int describe_how(struct lh_cuda_convolution *c, const struct lh_conv2d *s,
			cudnnDataType_t type, struct lh_error *err)
{
	cudnnMathType_t math = type == CUDNN_DATA_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
	int rc = check(cudnnSetConvolution2dDescriptor(c->how, (int)s->pad_h, (int)s->pad_w,
						       (int)s->stride_h, (int)s->stride_w, 1, 1,
						       CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
		       "cudnnSetConvolution2dDescriptor", err);

	if (rc == 0)
		rc = check(cudnnSetConvolutionGroupCount(c->how, (int)s->groups),
			   "cudnnSetConvolutionGroupCount", err);
	if (rc == 0)
		rc = check(cudnnSetConvolutionMathType(c->how, math), "cudnnSetConvolutionMathType",
			   err);
	return rc;
}

static int describe(struct lh_cuda_convolution *c, const struct lh_conv2d *s, cudnnDataType_t type,
		    struct lh_error *err)
{
	int rc = check(cudnnSetTensor4dDescriptor(c->x, CUDNN_TENSOR_NHWC, type, (int)s->n,
						  (int)s->c, (int)s->h, (int)s->w),
		       "cudnnSetTensor4dDescriptor", err);

	if (rc == 0)
		rc = check(cudnnSetTensor4dDescriptor(c->y, CUDNN_TENSOR_NHWC, type, (int)s->n,
						      (int)s->out_channels, (int)s->oh, (int)s->ow),
			   "cudnnSetTensor4dDescriptor", err);
	if (rc == 0)
		rc = check(cudnnSetFilter4dDescriptor(c->w, type, CUDNN_TENSOR_NHWC,
						      (int)s->out_channels, (int)(s->c / s->groups),
						      (int)s->kernel_h, (int)s->kernel_w),
			   "cudnnSetFilter4dDescriptor", err);
	return rc ? rc : describe_how(c, s, type, err);
}

/* ---- algorithms ----------------------------------------------------------------------------- */

/* Among n proposals, the first that fits; -1: none. The three kinds have the same members. */
#define CHOOSE(proposals, n, ret_i)                                               \
	do {                                                                      \
		*(ret_i) = -1;                                                    \
		for (int i_ = 0; i_ < (n) && *(ret_i) < 0; i_++)                  \
			if ((proposals)[i_].status == CUDNN_STATUS_SUCCESS &&     \
			    (proposals)[i_].determinism == CUDNN_DETERMINISTIC && \
			    (proposals)[i_].memory <= WORKSPACE_BYTES_MAX)        \
				*(ret_i) = i_;                                    \
	} while (0)

static int fail_choice(const struct lh_conv2d *s, const char *direction, struct lh_error *err)
{
	return lh_fail(err, LH_ERUN, 0,
		       "cuDNN has no deterministic algorithm for the %s of a %" PRId64 "x%" PRId64
		       " convolution of %" PRId64 " to %" PRId64 " channels in %" PRId64 " groups",
		       direction, s->kernel_h, s->kernel_w, s->c, s->out_channels, s->groups);
}

static void need(struct lh_cuda_convolution *c, size_t bytes)
{
	if (bytes > c->workspace_bytes)
		c->workspace_bytes = bytes;
}

static int choose_forward(cudnnHandle_t handle, struct lh_cuda_convolution *c,
			  const struct lh_conv2d *s, struct lh_error *err)
{
	cudnnConvolutionFwdAlgoPerf_t proposals[PROPOSALS_MAX];
	size_t bytes = 0;
	int n = 0, chosen;
	int rc = check(cudnnGetConvolutionForwardAlgorithm_v7(handle, c->x, c->w, c->how, c->y,
							      PROPOSALS_MAX, &n, proposals),
		       "cudnnGetConvolutionForwardAlgorithm_v7", err);

	if (rc)
		return rc;
	CHOOSE(proposals, n, &chosen);
	if (chosen < 0)
		return fail_choice(s, "forward pass", err);
	c->forward = proposals[chosen].algo;
	rc = check(cudnnGetConvolutionForwardWorkspaceSize(handle, c->x, c->w, c->how, c->y,
							   c->forward, &bytes),
		   "cudnnGetConvolutionForwardWorkspaceSize", err);
	need(c, bytes);
	return rc;
}

static int choose_backward_x(cudnnHandle_t handle, struct lh_cuda_convolution *c,
			     const struct lh_conv2d *s, struct lh_error *err)
{
	cudnnConvolutionBwdDataAlgoPerf_t proposals[PROPOSALS_MAX];
	size_t bytes = 0;
	int n = 0, chosen;
	int rc = check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, c->w, c->y, c->how, c->x,
								   PROPOSALS_MAX, &n, proposals),
		       "cudnnGetConvolutionBackwardDataAlgorithm_v7", err);

	if (rc)
		return rc;
	CHOOSE(proposals, n, &chosen);
	if (chosen < 0)
		return fail_choice(s, "gradient of the input", err);
	c->backward_x = proposals[chosen].algo;
	rc = check(cudnnGetConvolutionBackwardDataWorkspaceSize(handle, c->w, c->y, c->how, c->x,
								c->backward_x, &bytes),
		   "cudnnGetConvolutionBackwardDataWorkspaceSize", err);
	need(c, bytes);
	return rc;
}

static int choose_backward_w(cudnnHandle_t handle, struct lh_cuda_convolution *c,
			     const struct lh_conv2d *s, struct lh_error *err)
{
	cudnnConvolutionBwdFilterAlgoPerf_t proposals[PROPOSALS_MAX];
	size_t bytes = 0;
	int n = 0, chosen;
	int rc = check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
			       handle, c->x, c->y, c->how, c->w, PROPOSALS_MAX, &n, proposals),
		       "cudnnGetConvolutionBackwardFilterAlgorithm_v7", err);

	if (rc)
		return rc;
	CHOOSE(proposals, n, &chosen);
	if (chosen < 0)
		return fail_choice(s, "gradient of the weights", err);
	c->backward_w = proposals[chosen].algo;
	rc = check(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, c->x, c->y, c->how, c->w,
								  c->backward_w, &bytes),
		   "cudnnGetConvolutionBackwardFilterWorkspaceSize", err);
	need(c, bytes);
	return rc;
}

/* Whether all numbers fit cuDNN's int. */
static bool fits(const struct lh_conv2d *s)
{
	const int64_t numbers[] = {s->n,	s->h,	     s->w,	  s->c,		  s->oh,
				   s->ow,	s->kernel_h, s->kernel_w, s->pad_h,	  s->pad_w,
				   s->stride_h, s->stride_w, s->groups,	  s->out_channels};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i] > INT_MAX)
			return false;
	return true;
}

int lh_cuda_convolution_new(struct lh_cuda *cuda, const struct lh_conv2d *spec,
			    struct lh_cuda_convolution **ret_convolution, size_t *ret_workspace,
			    struct lh_error *err)
{
	struct lh_cuda_convolution *c = calloc(1, sizeof(*c));
	cudnnHandle_t handle = cuda->dnn->handle;
	int rc;

	if (!c)
		return lh_fail(err, LH_ESYS, 0, "no memory for a convolution");
	rc = fits(spec) ? create_descriptors(c, err)
			: lh_fail(err, LH_EINPUT, 0, "a dimension above 2^31 - 1");
	if (rc == 0)
		rc = describe(c, spec, type_of(cuda->device.compute), err);
	if (rc == 0)
		rc = choose_forward(handle, c, spec, err);
	if (rc == 0)
		rc = choose_backward_x(handle, c, spec, err);
	if (rc == 0)
		rc = choose_backward_w(handle, c, spec, err);
	if (rc) {
		lh_cuda_convolution_free(c);
		return rc;
	}
	*ret_workspace = c->workspace_bytes;
	*ret_convolution = c;
	return 0;
}

void lh_cuda_convolution_free(struct lh_cuda_convolution *c)
{
	if (!c)
		return;
	if (c->x)
		cudnnDestroyTensorDescriptor(c->x);
	if (c->y)
		cudnnDestroyTensorDescriptor(c->y);
	if (c->w)
		cudnnDestroyFilterDescriptor(c->w);
	if (c->how)
		cudnnDestroyConvolutionDescriptor(c->how);
	free(c);
}

/* ---- running -------------------------------------------------------------------------------- */

int lh_cuda_convolve(struct lh_cuda *cuda, struct lh_cuda_convolution *c, const void *x,
		     const void *w, void *y, void *workspace, struct lh_error *err)
{
	const float one = 1, zero = 0;

	return check(cudnnConvolutionForward(cuda->dnn->handle, &one, c->x, x, c->w, w, c->how,
					     c->forward, workspace, c->workspace_bytes, &zero, c->y,
					     y),
		     "cudnnConvolutionForward", err);
}

int lh_cuda_convolve_backward_x(struct lh_cuda *cuda, struct lh_cuda_convolution *c, const void *dy,
				const void *w, void *dx, bool adds, void *workspace,
				struct lh_error *err)
{
	const float one = 1, beta = adds ? 1 : 0;

	return check(cudnnConvolutionBackwardData(cuda->dnn->handle, &one, c->w, w, c->y, dy,
						  c->how, c->backward_x, workspace,
						  c->workspace_bytes, &beta, c->x, dx),
		     "cudnnConvolutionBackwardData", err);
}

int lh_cuda_convolve_backward_w(struct lh_cuda *cuda, struct lh_cuda_convolution *c, const void *x,
				const void *dy, void *dw, bool adds, void *workspace,
				struct lh_error *err)
{
	const float one = 1, beta = adds ? 1 : 0;

	return check(cudnnConvolutionBackwardFilter(cuda->dnn->handle, &one, c->x, x, c->y, dy,
						    c->how, c->backward_w, workspace,
						    c->workspace_bytes, &beta, c->w, dw),
		     "cudnnConvolutionBackwardFilter", err);
}
