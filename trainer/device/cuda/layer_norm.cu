/* SPDX-License-Identifier: Apache-2.0 */
/* Layer normalisation: a warp for each row. See cuda.h and layers.h. */
#include "trainer/device/cuda/kernels.cuh"

using namespace lh;

namespace
{

constexpr int ROWS_PER_BLOCK = THREADS / WARP;

/* Rows of c elements, V at a time, shared out among the lanes. */
template <typename T, int V>
__global__ void layer_norm_forward(const T *x, const float *w, const float *b, T *y,
				   float *saved_mean, float *saved_scale, int64_t rows, int64_t c,
				   float eps)
{
	int lane = threadIdx.x % WARP;
	int64_t step = static_cast<int64_t>(gridDim.x) * ROWS_PER_BLOCK;

	for (int64_t row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / WARP; row < rows;
	     row += step) {
		const T *of = x + row * c;
		float sum = 0, squares = 0, values[V], mean, scale;

		for (int64_t i = lane * V; i < c; i += WARP * V) {
			load<V>(of + i, values);
			for (int v = 0; v < V; v++)
				sum += values[v];
		}
		mean = warp_sum(sum) / static_cast<float>(c);
		for (int64_t i = lane * V; i < c; i += WARP * V) {
			load<V>(of + i, values);
			for (int v = 0; v < V; v++)
				squares += (values[v] - mean) * (values[v] - mean);
		}
		scale = 1 / sqrtf(warp_sum(squares) / static_cast<float>(c) + eps);
		for (int64_t i = lane * V; i < c; i += WARP * V) {
			load<V>(of + i, values);
			for (int v = 0; v < V; v++)
				values[v] = (values[v] - mean) * scale * w[i + v] + b[i + v];
			store<V>(y + row * c + i, values);
		}
		if (lane == 0) {
			saved_mean[row] = mean;
			saved_scale[row] = scale;
		}
	}
}

template <typename T, int V>
__global__ void layer_norm_dx(const T *x, const T *dy, const float *w, const float *saved_mean,
			      const float *saved_scale, T *dx, bool adds, int64_t rows, int64_t c)
{
	int lane = threadIdx.x % WARP;
	int64_t step = static_cast<int64_t>(gridDim.x) * ROWS_PER_BLOCK;

	for (int64_t row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / WARP; row < rows;
	     row += step) {
		float mean = saved_mean[row], scale = saved_scale[row];
		float sum = 0, dot = 0, values[V], d[V];

		for (int64_t i = lane * V; i < c; i += WARP * V) {
			load<V>(x + row * c + i, values);
			load<V>(dy + row * c + i, d);
			for (int v = 0; v < V; v++) {
				sum += d[v] * w[i + v];
				dot += d[v] * w[i + v] * (values[v] - mean) * scale;
			}
		}
		sum = warp_sum(sum) / static_cast<float>(c);
		dot = warp_sum(dot) / static_cast<float>(c);
		for (int64_t i = lane * V; i < c; i += WARP * V) {
			load<V>(x + row * c + i, values);
			load<V>(dy + row * c + i, d);
			for (int v = 0; v < V; v++)
				d[v] = (d[v] * w[i + v] - sum - (values[v] - mean) * scale * dot) *
				       scale;
			store<V>(dx + row * c + i, d, adds);
		}
	}
}

/* The gradients of bias and weight: sums over rows. */
template <typename T, int V> struct layer_norm_sums {
	int64_t c;
	const T *x, *dy;
	const float *mean, *scale;

	__device__ void begin(int64_t)
	{
	}

	__device__ void add(int64_t row, int64_t channel, float (&sums)[2][V]) const
	{
		float d[V], values[V];

		load<V>(dy + row * c + channel, d);
		load<V>(x + row * c + channel, values);
#pragma unroll
		for (int v = 0; v < V; v++) {
			sums[0][v] += d[v];
			sums[1][v] += d[v] * (values[v] - mean[row]) * scale[row];
		}
	}
};

template <typename T>
int layer_norm_backward(struct lh_cuda *cuda, const struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_layer_norm *s = static_cast<const struct lh_layer_norm *>(node->spec);
	const T *x = data<T>(node->in[0]), *dy = grad<T>(node->out);
	const float *mean = data<float>(node->saved[0]), *scale = data<float>(node->saved[1]);

	return by_width<T>(s->c, [&](auto width) {
		constexpr int V = decltype(width)::value;
		struct layer_norm_sums<T, V> f = {
			s->c, x, dy, mean, scale
		};
		struct add_two g = {grad<float>(node->parameter[1]),
				    grad<float>(node->parameter[0])};
		int rc = sum_channels<2, V>(cuda, "layer norm, backward", f, g, s->rows, s->c,
					    static_cast<float *>(node->workspace), err);

		if (rc || !node->in[0]->grad)
			return rc;
		return launch(cuda, err, "layer norm, backward", layer_norm_dx<T, V>,
			      blocks_for(s->rows * WARP), dim3(THREADS), x, dy,
			      data<float>(node->parameter[0]), mean, scale, grad<T>(node->in[0]),
			      node->adds[0], s->rows, s->c);
	});
}

} // namespace

extern "C" {

int lh_cuda_layer_norm_prepare(struct lh_device *device, struct lh_graph_node *node, struct lh_error *)
{
	const struct lh_layer_norm *s = static_cast<const struct lh_layer_norm *>(node->spec);

	return by_type(device->compute, [&](auto zero) {
		node->workspace_bytes = sum_bytes<decltype(zero)>(s->rows, s->c, 2);
		return 0;
	});
}

int lh_cuda_layer_norm_forward(struct lh_device *device, const struct lh_graph_node *node,
			       const struct lh_pass *, struct lh_error *err)
{
	const struct lh_layer_norm *s = static_cast<const struct lh_layer_norm *>(node->spec);

	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return by_width<T>(s->c, [&](auto width) {
			constexpr int V = decltype(width)::value;

			return launch(lh_cuda_of(device), err, "layer norm",
				      layer_norm_forward<T, V>, blocks_for(s->rows * WARP),
				      dim3(THREADS), data<T>(node->in[0]),
				      data<float>(node->parameter[0]),
				      data<float>(node->parameter[1]),
				      static_cast<T *>(node->out->data),
				      static_cast<float *>(node->saved[0]->data),
				      static_cast<float *>(node->saved[1]->data), s->rows, s->c,
				      static_cast<float>(s->eps));
		});
	});
}

int lh_cuda_layer_norm_backward(struct lh_device *device, const struct lh_graph_node *node,
				const struct lh_pass *, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		return layer_norm_backward<decltype(zero)>(lh_cuda_of(device), node, err);
	});
}

} // extern "C"
