/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that only move numbers, and conversions between types. See cuda.h and layers.h. */
#include "trainer/device/cuda/kernels.cuh"

using namespace lh;

namespace
{

/* Rows of x, width wide, at column `at` of rows of y, all wide; or back, adding. */
template <typename T>
__global__ void copy_columns(const T *from, int64_t from_width, int64_t from_at, T *to,
			     int64_t to_width, int64_t to_at, int64_t width, bool adds, int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step()) {
		int64_t row = i / width, column = i % width;

		put(to + row * to_width + to_at + column,
		    to_float(from[row * from_width + from_at + column]), adds);
	}
}

/* y's element i, or what x's element i passes back: which element of the other shows it, or -1. */
__device__ int64_t shown(const struct lh_shortcut &s, int64_t i)
{
	int64_t c = i % s.out_channels - (s.out_channels - s.c) / 2;
	int64_t pixel = i / s.out_channels;
	int64_t ow = pixel % s.ow, oh = pixel / s.ow % s.oh, n = pixel / s.ow / s.oh;

	if (c < 0 || c >= s.c)
		return -1;
	return ((n * s.h + oh * s.stride) * s.w + ow * s.stride) * s.c + c;
}

__device__ int64_t shown_by(const struct lh_shortcut &s, int64_t i)
{
	int64_t c = i % s.c + (s.out_channels - s.c) / 2, pixel = i / s.c;
	int64_t w = pixel % s.w, h = pixel / s.w % s.h, n = pixel / s.w / s.h;

	if (h % s.stride || w % s.stride)
		return -1;
	return ((n * s.oh + h / s.stride) * s.ow + w / s.stride) * s.out_channels + c;
}

template <typename T>
__global__ void shortcut_forward(struct lh_shortcut s, const T *x, T *y, int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step()) {
		int64_t at = shown(s, i);

		put(y + i, at < 0 ? 0 : to_float(x[at]));
	}
}

template <typename T>
__global__ void shortcut_backward(struct lh_shortcut s, const T *dy, T *dx, bool adds, int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step()) {
		int64_t at = shown_by(s, i);

		put(dx + i, at < 0 ? 0 : to_float(dy[at]), adds);
	}
}

template <typename F, typename T> __global__ void convert(const F *x, T *y, bool adds, int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step())
		put(y + i, to_float(x[i]), adds);
}

__global__ void fill(float *x, float value, int64_t n)
{
	for (int64_t i = first_index(); i < n; i += index_step())
		x[i] = value;
}

} // namespace

extern "C" {

int lh_cuda_concat_forward(struct lh_device *device, const struct lh_graph_node *node,
			   const struct lh_pass *, struct lh_error *err)
{
	int64_t rows = static_cast<const struct lh_concat *>(node->spec)->rows;
	int64_t all = node->out->n / rows, at = 0;

	for (uint32_t j = 0; j < node->n_in; j++) {
		int64_t width = node->in[j]->n / rows;
		int rc = by_type(device->compute, [&](auto zero) {
			using T = decltype(zero);

			return launch(lh_cuda_of(device), err, "concat", copy_columns<T>,
				      blocks_for(node->in[j]->n), dim3(THREADS),
				      data<T>(node->in[j]), width, 0,
				      static_cast<T *>(node->out->data), all, at, width, false,
				      node->in[j]->n);
		});

		if (rc)
			return rc;
		at += width;
	}
	return 0;
}

int lh_cuda_concat_backward(struct lh_device *device, const struct lh_graph_node *node,
			    const struct lh_pass *, struct lh_error *err)
{
	int64_t rows = static_cast<const struct lh_concat *>(node->spec)->rows;
	int64_t all = node->out->n / rows, at = 0;

	for (uint32_t j = 0; j < node->n_in; j++) {
		int64_t width = node->in[j]->n / rows;
		int rc = by_type(device->compute, [&](auto zero) {
			using T = decltype(zero);

			if (!node->in[j]->grad)
				return 0;
			return launch(lh_cuda_of(device), err, "concat, backward", copy_columns<T>,
				      blocks_for(node->in[j]->n), dim3(THREADS), grad<T>(node->out),
				      all, at, grad<T>(node->in[j]), width, 0, width, node->adds[j],
				      node->in[j]->n);
		});

		if (rc)
			return rc;
		at += width;
	}
	return 0;
}

int lh_cuda_shortcut_forward(struct lh_device *device, const struct lh_graph_node *node,
			     const struct lh_pass *, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(lh_cuda_of(device), err, "shortcut", shortcut_forward<T>,
			      blocks_for(node->out->n), dim3(THREADS),
			      *static_cast<const struct lh_shortcut *>(node->spec),
			      data<T>(node->in[0]), static_cast<T *>(node->out->data),
			      node->out->n);
	});
}

int lh_cuda_shortcut_backward(struct lh_device *device, const struct lh_graph_node *node,
			      const struct lh_pass *, struct lh_error *err)
{
	if (!node->in[0]->grad)
		return 0;
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(lh_cuda_of(device), err, "shortcut, backward", shortcut_backward<T>,
			      blocks_for(node->in[0]->n), dim3(THREADS),
			      *static_cast<const struct lh_shortcut *>(node->spec),
			      grad<T>(node->out), grad<T>(node->in[0]), node->adds[0],
			      node->in[0]->n);
	});
}

int lh_cuda_convert(struct lh_cuda *cuda, enum lh_dtype from, const void *x, enum lh_dtype to,
		    void *y, bool adds, int64_t n, struct lh_error *err)
{
	return by_type(from, [&](auto from_zero) {
		using F = decltype(from_zero);

		return by_type(to, [&](auto to_zero) {
			using T = decltype(to_zero);

			return launch(cuda, err, "convert", convert<F, T>, blocks_for(n),
				      dim3(THREADS), static_cast<const F *>(x), static_cast<T *>(y),
				      adds, n);
		});
	});
}

int lh_cuda_fill(struct lh_cuda *cuda, float *x, float value, int64_t n, struct lh_error *err)
{
	return launch(cuda, err, "fill", fill, blocks_for(n), dim3(THREADS), x, value, n);
}

} // extern "C"
