/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the CUDA device share. Everything that is asked for goes into one stream, in
 * order; nothing waits but reads, synchronize, and writes that overtake their own staging memory.
 *
 * Files: cuda.c the device and its memory; table.c the table of layers; linear.c and conv.c layers
 * over the libraries; matmul.c and convolution.c the calls of cuBLAS and cuDNN; *.cu kernels with
 * launchers that have the reference's signatures.
 *
 * In mixed precision activations and their gradients have the compute type; parameters, their
 * gradients and what layers save are floats. Matrix products and convolutions read the weights'
 * casts, all else the floats. All sums are floats. No kernel adds floats with atomics, so results
 * are the same in every run on one GPU.
 */
#ifndef LH_TRAINER_CUDA_H
#define LH_TRAINER_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include <cuda_runtime_api.h>

#include "trainer/device/update.h"
#include "trainer/layers/layers.h"

/* An index outside its table, as a kernel found it. Kernels cannot fail: it is told when the host
 * next waits. */
struct lh_cuda_fault {
	unsigned int is_set;
	uint32_t position; /* of the node */
	int32_t value;
	int64_t at;
	int64_t n; /* 0 to n - 1 was expected */
};

struct lh_cuda_matmuls;
struct lh_cuda_convolutions;

struct lh_cuda {
	struct lh_device device; /* first */
	cudaStream_t stream;
	struct lh_cuda_fault *fault;	  /* in host memory that the GPU can write */
	struct lh_cuda_matmuls *blas;	  /* matmul.c */
	struct lh_cuda_convolutions *dnn; /* convolution.c */
	void *staging, *staging_host;	  /* for copies; LH_CUDA_STAGING_BYTES each */
	cudaEvent_t staging_is_free;
};

enum { LH_CUDA_STAGING_BYTES = 4 << 20, LH_CUDA_ALIGN = 256 };

static inline struct lh_cuda *lh_cuda_of(struct lh_device *device)
{
	return (struct lh_cuda *)device;
}

/* 0, or LH_ERUN with CUDA's text. */
int lh_cuda_check(cudaError_t code, const char *what, struct lh_error *err);

/* What a parameter's numbers are in the compute type. */
static inline const void *lh_cuda_weight(const struct lh_tensor *parameter)
{
	return parameter->cast ? parameter->cast : parameter->data;
}

static inline size_t lh_cuda_align(size_t bytes)
{
	return (bytes + LH_CUDA_ALIGN - 1) / LH_CUDA_ALIGN * LH_CUDA_ALIGN;
}

/* ---- libraries ------------------------------------------------------------------------------ */

/* c [m, n] = a b, row by row; a is [m, k] ([k, m] where transposed), b [k, n] ([n, k]). */
struct lh_cuda_matmul {
	const void *a, *b;
	void *c;
	enum lh_dtype in, out;
	int64_t m, n, k;
	bool transposes_a, transposes_b;
	bool adds; /* to c */
};
int lh_cuda_matmul(struct lh_cuda *cuda, const struct lh_cuda_matmul *matmul, struct lh_error *err);

int lh_cuda_matmuls_open(struct lh_cuda *cuda, struct lh_error *err);
void lh_cuda_matmuls_close(struct lh_cuda *cuda);

/* A convolution's descriptors, algorithms and the workspace of all three directions. */
struct lh_cuda_convolution;
int lh_cuda_convolution_new(struct lh_cuda *cuda, const struct lh_conv2d *spec,
			    struct lh_cuda_convolution **ret_convolution, size_t *ret_workspace,
			    struct lh_error *err);
void lh_cuda_convolution_free(struct lh_cuda_convolution *convolution);
/* x, w, y and their gradients are of the compute type. */
int lh_cuda_convolve(struct lh_cuda *cuda, struct lh_cuda_convolution *convolution, const void *x,
		     const void *w, void *y, void *workspace, struct lh_error *err);
int lh_cuda_convolve_backward_x(struct lh_cuda *cuda, struct lh_cuda_convolution *convolution,
				const void *dy, const void *w, void *dx, bool adds, void *workspace,
				struct lh_error *err);
int lh_cuda_convolve_backward_w(struct lh_cuda *cuda, struct lh_cuda_convolution *convolution,
				const void *x, const void *dy, void *dw, bool adds, void *workspace,
				struct lh_error *err);

int lh_cuda_convolutions_open(struct lh_cuda *cuda, struct lh_error *err);
void lh_cuda_convolutions_close(struct lh_cuda *cuda);
size_t lh_cuda_convolutions_version(void); /* 91900 is cuDNN 9.19.0 */

/* Sorts n keys (0 and more) with the positions that they had, equal ones in their order. */
size_t lh_cuda_sort_bytes(int64_t n);
int lh_cuda_sort(struct lh_cuda *cuda, const int32_t *keys, int64_t n, void *workspace,
		 const int32_t **ret_keys, const int32_t **ret_positions, struct lh_error *err);

/* ---- launchers ------------------------------------------------------------------------------ */

/* y[r, c] += b[c]; y of the compute type, b floats. */
int lh_cuda_add_bias(struct lh_cuda *cuda, void *y, const float *b, int64_t rows, int64_t c,
		     struct lh_error *err);
/* db[c] += sum of dy[r, c]. */
size_t lh_cuda_bias_bytes(const struct lh_cuda *cuda, int64_t rows, int64_t c);
int lh_cuda_add_bias_backward(struct lh_cuda *cuda, const void *dy, float *db, int64_t rows,
			      int64_t c, void *workspace, struct lh_error *err);

/* y[i] = x[i], or y[i] += x[i], from one type to another: fp32, fp16, bf16. */
int lh_cuda_convert(struct lh_cuda *cuda, enum lh_dtype from, const void *x, enum lh_dtype to,
		    void *y, bool adds, int64_t n, struct lh_error *err);
int lh_cuda_fill(struct lh_cuda *cuda, float *x, float value, int64_t n, struct lh_error *err);

/* Convolutions of one input channel for each output channel. */
size_t lh_cuda_depthwise_bytes(const struct lh_cuda *cuda, const struct lh_conv2d *spec);
int lh_cuda_depthwise(struct lh_cuda *cuda, const struct lh_conv2d *spec, const void *x,
		      const float *w, const float *b, void *y, struct lh_error *err);
int lh_cuda_depthwise_backward_x(struct lh_cuda *cuda, const struct lh_conv2d *spec, const void *dy,
				 const float *w, void *dx, bool adds, struct lh_error *err);
int lh_cuda_depthwise_backward_w(struct lh_cuda *cuda, const struct lh_conv2d *spec, const void *x,
				 const void *dy, float *dw, void *workspace, struct lh_error *err);

#define LH_CUDA_DECLARE(name)                                                           \
	int lh_cuda_##name##_prepare(struct lh_device *, struct lh_graph_node *,        \
				     struct lh_error *);                                \
	int lh_cuda_##name##_forward(struct lh_device *, const struct lh_graph_node *,  \
				     const struct lh_pass *, struct lh_error *);        \
	int lh_cuda_##name##_backward(struct lh_device *, const struct lh_graph_node *, \
				      const struct lh_pass *, struct lh_error *)

LH_CUDA_DECLARE(conv2d);
LH_CUDA_DECLARE(linear);
LH_CUDA_DECLARE(batch_norm);
LH_CUDA_DECLARE(layer_norm);
LH_CUDA_DECLARE(activate);
LH_CUDA_DECLARE(add);
LH_CUDA_DECLARE(scale);
LH_CUDA_DECLARE(dropout);
LH_CUDA_DECLARE(pool);
LH_CUDA_DECLARE(shortcut);
LH_CUDA_DECLARE(embedding);
LH_CUDA_DECLARE(field_embedding);
LH_CUDA_DECLARE(attention);
LH_CUDA_DECLARE(concat);
LH_CUDA_DECLARE(factorization);
LH_CUDA_DECLARE(cross_entropy);
LH_CUDA_DECLARE(binary_cross_entropy);

void lh_cuda_conv2d_done(struct lh_graph_node *node);

/* The device's table: struct lh_device_ops.kernel. */
const struct lh_kernel *lh_cuda_kernel(enum lh_layer layer);

#ifdef __cplusplus
}
#endif

#endif
