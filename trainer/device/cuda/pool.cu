/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling. The backward asks for each pixel which windows it lies in, so that none is added to by
 * two threads. See cuda.h and layers.h. */
#include "trainer/device/cuda/kernels.cuh"

using namespace lh;

namespace
{

/* The pixels of x, [from, to) in both directions, that y's pixel (oh, ow) looks at. */
struct window {
	int64_t h0, h1, w0, w1;
};

__device__ int64_t clamp(int64_t value, int64_t max)
{
	if (value < 0)
		return 0;
	return value < max ? value : max;
}

__device__ struct window find_window(const struct lh_pool &s, int64_t oh, int64_t ow)
{
	int64_t h = oh * s.stride - s.pad, w = ow * s.stride - s.pad;

	if (s.kernel == 0)
		return {0, s.h, 0, s.w};
	return {clamp(h, s.h), clamp(h + s.kernel, s.h), clamp(w, s.w), clamp(w + s.kernel, s.w)};
}

/* The windows, [from, to), along one direction of `n` that a pixel lies in. */
__device__ void find_windows(const struct lh_pool &s, int64_t pixel, int64_t n, int64_t *ret_from,
			     int64_t *ret_to)
{
	int64_t first = pixel + s.pad - s.kernel + 1;

	*ret_from = 0;
	*ret_to = n;
	if (s.kernel == 0)
		return;
	if (first > 0)
		*ret_from = (first + s.stride - 1) / s.stride;
	if ((pixel + s.pad) / s.stride + 1 < n)
		*ret_to = (pixel + s.pad) / s.stride + 1;
}

/* The first largest pixel of a window of one image and channel, as h * W + w. */
template <typename T>
__device__ int64_t find_largest(const struct lh_pool &s, const T *x, const struct window &at)
{
	int64_t best = at.h0 * s.w + at.w0;
	float max = to_float(x[best * s.c]);

	for (int64_t h = at.h0; h < at.h1; h++) {
		for (int64_t w = at.w0; w < at.w1; w++) {
			float value = to_float(x[(h * s.w + w) * s.c]);

			if (value > max) {
				max = value;
				best = h * s.w + w;
			}
		}
	}
	return best;
}

template <typename T>
__device__ float find_mean(const struct lh_pool &s, const T *x, const struct window &at)
{
	float sum = 0;

	for (int64_t h = at.h0; h < at.h1; h++)
		for (int64_t w = at.w0; w < at.w1; w++)
			sum += to_float(x[(h * s.w + w) * s.c]);
	return sum / static_cast<float>((at.h1 - at.h0) * (at.w1 - at.w0));
}

template <typename T>
__global__ void pool_forward(struct lh_pool s, const T *x, T *y, int64_t n_out)
{
	for (int64_t i = first_index(); i < n_out; i += index_step()) {
		int64_t c = i % s.c, ow = i / s.c % s.ow, oh = i / s.c / s.ow % s.oh;
		const T *image = x + i / s.c / s.ow / s.oh * s.h * s.w * s.c + c;
		struct window at = find_window(s, oh, ow);

		if (s.is_max)
			y[i] = image[find_largest(s, image, at) * s.c];
		else
			put(y + i, find_mean(s, image, at));
	}
}

template <typename T>
__global__ void pool_backward(struct lh_pool s, const T *x, const T *dy, T *dx, bool adds,
			      int64_t n_in)
{
	for (int64_t i = first_index(); i < n_in; i += index_step()) {
		int64_t c = i % s.c, w = i / s.c % s.w, h = i / s.c / s.w % s.h;
		int64_t n = i / s.c / s.w / s.h, h0, h1, w0, w1;
		const T *image = x + n * s.h * s.w * s.c + c;
		float sum = 0;

		find_windows(s, h, s.oh, &h0, &h1);
		find_windows(s, w, s.ow, &w0, &w1);
		for (int64_t oh = h0; oh < h1; oh++) {
			for (int64_t ow = w0; ow < w1; ow++) {
				struct window at = find_window(s, oh, ow);
				float d = to_float(dy[((n * s.oh + oh) * s.ow + ow) * s.c + c]);
				int64_t area = (at.h1 - at.h0) * (at.w1 - at.w0);

				if (!s.is_max)
					sum += d / static_cast<float>(area);
				else if (find_largest(s, image, at) == h * s.w + w)
					sum += d;
			}
		}
		put(dx + i, sum, adds);
	}
}

} // namespace

extern "C" {

int lh_cuda_pool_forward(struct lh_device *device, const struct lh_graph_node *node,
			 const struct lh_pass *, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(lh_cuda_of(device), err, "pool", pool_forward<T>,
			      blocks_for(node->out->n), dim3(THREADS),
			      *static_cast<const struct lh_pool *>(node->spec),
			      data<T>(node->in[0]), static_cast<T *>(node->out->data),
			      node->out->n);
	});
}

int lh_cuda_pool_backward(struct lh_device *device, const struct lh_graph_node *node,
			  const struct lh_pass *, struct lh_error *err)
{
	if (!node->in[0]->grad)
		return 0;
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return launch(lh_cuda_of(device), err, "pool, backward", pool_backward<T>,
			      blocks_for(node->in[0]->n), dim3(THREADS),
			      *static_cast<const struct lh_pool *>(node->spec),
			      data<T>(node->in[0]), grad<T>(node->out), grad<T>(node->in[0]),
			      node->adds[0], node->in[0]->n);
	});
}

} // extern "C"
