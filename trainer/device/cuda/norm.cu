/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation, and biases, which are sums over rows too. See cuda.h and layers.h. */
#include "trainer/device/cuda/kernels.cuh"

using namespace lh;

namespace
{

/* ---- biases --------------------------------------------------------------------------------- */

template <typename T, int V> struct with_bias {
	int64_t c;
	T *y;
	const float *b;
	float added[V];

	__device__ void begin(int64_t channel)
	{
		for (int v = 0; v < V; v++)
			added[v] = b[channel + v];
	}

	__device__ void operator()(int64_t row, int64_t channel) const
	{
		store<V>(y + row * c + channel, added, true);
	}
};

template <typename T, int V> struct column_sums {
	int64_t c;
	const T *x;

	__device__ void begin(int64_t)
	{
	}

	__device__ void add(int64_t row, int64_t channel, float (&sums)[1][V]) const
	{
		float values[V];

		load<V>(x + row * c + channel, values);
#pragma unroll
		for (int v = 0; v < V; v++)
			sums[0][v] += values[v];
	}
};

/* ---- moments -------------------------------------------------------------------------------- */

/* Sums of x - pivot and its square, the pivot being the first row: squares of x itself would lose
 * the variance of channels whose mean is large. */
template <typename T, int V> struct moments {
	int64_t c;
	const T *x;
	float pivot[V];

	__device__ void begin(int64_t channel)
	{
		load<V>(x + channel, pivot);
	}

	__device__ void add(int64_t row, int64_t channel, float (&sums)[2][V]) const
	{
		float values[V];

		load<V>(x + row * c + channel, values);
#pragma unroll
		for (int v = 0; v < V; v++) {
			float d = values[v] - pivot[v];

			sums[0][v] += d;
			sums[1][v] += d * d;
		}
	}
};

template <typename T> struct save_moments {
	const T *x;
	float *mean, *scale, *running_mean, *running_var;
	double rows, eps, momentum;

	__device__ void operator()(int64_t channel, const float *sums) const
	{
		double shift = sums[0] / rows;
		double var = fmax(sums[1] / rows - shift * shift, 0.0);
		double at = to_float(x[channel]) + shift;
		double unbiased = rows > 1 ? var * rows / (rows - 1) : var;

		mean[channel] = static_cast<float>(at);
		scale[channel] = static_cast<float>(1 / sqrt(var + eps));
		running_mean[channel] =
			static_cast<float>((1 - momentum) * running_mean[channel] + momentum * at);
		running_var[channel] = static_cast<float>((1 - momentum) * running_var[channel] +
							  momentum * unbiased);
	}
};

__global__ void save_running(const float *running_mean, const float *running_var, float *mean,
			     float *scale, double eps, int64_t c)
{
	for (int64_t i = first_index(); i < c; i += index_step()) {
		mean[i] = running_mean[i];
		scale[i] = static_cast<float>(1 / sqrt(running_var[i] + eps));
	}
}

template <typename T, int V> struct normed {
	int64_t c;
	bool has_relu;
	const T *x;
	const float *mean, *scale, *w, *b;
	T *y;
	float means[V], factors[V], added[V];

	__device__ void begin(int64_t channel)
	{
		for (int v = 0; v < V; v++) {
			means[v] = mean[channel + v];
			factors[v] = scale[channel + v] * w[channel + v];
			added[v] = b[channel + v];
		}
	}

	__device__ void operator()(int64_t row, int64_t channel) const
	{
		float values[V];

		load<V>(x + row * c + channel, values);
#pragma unroll
		for (int v = 0; v < V; v++) {
			float z = (values[v] - means[v]) * factors[v] + added[v];

			values[v] = has_relu && !(z > 0) ? 0 : z;
		}
		store<V>(y + row * c + channel, values);
	}
};

/* ---- backward ------------------------------------------------------------------------------- */

/* What the ReLU, if any, let through of dy, and x normalised. */
template <typename T, int V> struct batch_norm_parts {
	int64_t c;
	bool has_relu;
	const T *x, *y, *dy;
	const float *mean, *scale;
	float means[V], scales[V];

	__device__ void begin(int64_t channel)
	{
		for (int v = 0; v < V; v++) {
			means[v] = mean[channel + v];
			scales[v] = scale[channel + v];
		}
	}

	__device__ void find(int64_t at, float (&d)[V], float (&x_normed)[V]) const
	{
		float out[V];

		load<V>(dy + at, d);
		load<V>(x + at, x_normed);
		if (has_relu)
			load<V>(y + at, out);
#pragma unroll
		for (int v = 0; v < V; v++) {
			d[v] = has_relu && !(out[v] > 0) ? 0 : d[v];
			x_normed[v] = (x_normed[v] - means[v]) * scales[v];
		}
	}

	__device__ void add(int64_t row, int64_t channel, float (&sums)[2][V]) const
	{
		float d[V], x_normed[V];

		find(row * c + channel, d, x_normed);
#pragma unroll
		for (int v = 0; v < V; v++) {
			sums[0][v] += d[v];
			sums[1][v] += d[v] * x_normed[v];
		}
	}
};

/* Adds to the gradients of bias and weight, and keeps the means for dx. */
struct keep_sums {
	float *db, *dw, *mean_d, *mean_dot;
	float rows;

	__device__ void operator()(int64_t channel, const float *sums) const
	{
		if (db)
			db[channel] += sums[0];
		if (dw)
			dw[channel] += sums[1];
		mean_d[channel] = sums[0] / rows;
		mean_dot[channel] = sums[1] / rows;
	}
};

template <typename T, int V> struct batch_norm_dx {
	struct batch_norm_parts<T, V> parts;
	const float *w, *mean_d, *mean_dot; /* means: NULL when not training */
	T *dx;
	bool adds;
	float factors[V], means[V], dots[V];

	__device__ void begin(int64_t channel)
	{
		parts.begin(channel);
		for (int v = 0; v < V; v++) {
			factors[v] = w[channel + v] * parts.scales[v];
			means[v] = mean_d ? mean_d[channel + v] : 0;
			dots[v] = mean_dot ? mean_dot[channel + v] : 0;
		}
	}

	__device__ void operator()(int64_t row, int64_t channel) const
	{
		float d[V], x_normed[V];

		parts.find(row * parts.c + channel, d, x_normed);
#pragma unroll
		for (int v = 0; v < V; v++)
			d[v] = (d[v] - means[v] - x_normed[v] * dots[v]) * factors[v];
		store<V>(dx + row * parts.c + channel, d, adds);
	}
};

template <typename T>
int batch_norm(struct lh_cuda *cuda, const struct lh_graph_node *node, bool is_training,
	       struct lh_error *err)
{
	const struct lh_batch_norm *s = static_cast<const struct lh_batch_norm *>(node->spec);
	const T *x = data<T>(node->in[0]);
	float *mean = static_cast<float *>(node->saved[0]->data);
	float *scale = static_cast<float *>(node->saved[1]->data);
	float *running_mean = static_cast<float *>(node->state[0]->data);
	float *running_var = static_cast<float *>(node->state[1]->data);

	return by_width<T>(s->c, [&](auto width) {
		constexpr int V = decltype(width)::value;
		struct moments<T, V> f = {
			s->c, x,
			{
			}
		};
		struct save_moments<T> g = {
			x, mean, scale, running_mean, running_var,
				static_cast<double>(s->rows), s->eps, s->momentum
		};
		struct normed<T, V> n = {
			s->c, s->has_relu, x, mean, scale,
				data<float>(node->parameter[0]), data<float>(node->parameter[1]),
				static_cast<T *>(node->out->data), {}, {},
			{
			}
		};
		int rc = is_training
				 ? sum_channels<2, V>(cuda, "batch norm", f, g, s->rows, s->c,
						      static_cast<float *>(node->workspace), err)
				 : launch(cuda, err, "batch norm", save_running, blocks_for(s->c),
					  dim3(THREADS), running_mean, running_var, mean, scale,
					  s->eps, s->c);

		return rc ? rc : map_channels<V>(cuda, "batch norm", n, s->rows, s->c, err);
	});
}

template <typename T>
int batch_norm_backward(struct lh_cuda *cuda, const struct lh_graph_node *node, bool is_training,
			struct lh_error *err)
{
	const struct lh_batch_norm *s = static_cast<const struct lh_batch_norm *>(node->spec);
	float *means = static_cast<float *>(node->workspace);
	float *partial = means + 2 * s->c;

	return by_width<T>(s->c, [&](auto width) {
		constexpr int V = decltype(width)::value;
		struct batch_norm_parts<T, V> f = {
			s->c, s->has_relu,
				data<T>(node->in[0]), data<T>(node->out), grad<T>(node->out),
				data<float>(node->saved[0]), data<float>(node->saved[1]), {},
			{
			}
		};
		struct keep_sums g = {grad<float>(node->parameter[1]),
				      grad<float>(node->parameter[0]), means, means + s->c,
				      static_cast<float>(s->rows)};
		struct batch_norm_dx<T, V> dx = {
			f, data<float>(node->parameter[0]), is_training ? means : nullptr,
				is_training ? means + s->c : nullptr, grad<T>(node->in[0]),
				node->adds[0], {}, {},
			{
			}
		};
		int rc = sum_channels<2, V>(cuda, "batch norm, backward", f, g, s->rows, s->c,
					    partial, err);

		if (rc || !dx.dx)
			return rc;
		return map_channels<V>(cuda, "batch norm, backward", dx, s->rows, s->c, err);
	});
}

} // namespace

extern "C" {

int lh_cuda_add_bias(struct lh_cuda *cuda, void *y, const float *b, int64_t rows, int64_t c,
		     struct lh_error *err)
{
	return by_type(cuda->device.compute, [&](auto zero) {
		using T = decltype(zero);

		return by_width<T>(c, [&](auto width) {
			constexpr int V = decltype(width)::value;
			struct with_bias<T, V> f = {
				c, static_cast<T *>(y), b,
				{
				}
			};

			return map_channels<V>(cuda, "bias", f, rows, c, err);
		});
	});
}

size_t lh_cuda_bias_bytes(const struct lh_cuda *cuda, int64_t rows, int64_t c)
{
	return cuda->device.compute == LH_F32 ? sum_bytes<float>(rows, c, 1)
					      : sum_bytes<__half>(rows, c, 1);
}

int lh_cuda_add_bias_backward(struct lh_cuda *cuda, const void *dy, float *db, int64_t rows,
			      int64_t c, void *workspace, struct lh_error *err)
{
	return by_type(cuda->device.compute, [&](auto zero) {
		using T = decltype(zero);

		return by_width<T>(c, [&](auto width) {
			constexpr int V = decltype(width)::value;
			struct column_sums<T, V> f = {
				c, static_cast<const T *>(dy)
			};
			struct add_one g = {db};

			return sum_channels<1, V>(cuda, "bias, backward", f, g, rows, c,
						  static_cast<float *>(workspace), err);
		});
	});
}

int lh_cuda_batch_norm_prepare(struct lh_device *device, struct lh_graph_node *node, struct lh_error *)
{
	const struct lh_batch_norm *s = static_cast<const struct lh_batch_norm *>(node->spec);
	size_t means = 2 * static_cast<size_t>(s->c) * sizeof(float);

	return by_type(device->compute, [&](auto zero) {
		node->workspace_bytes = means + sum_bytes<decltype(zero)>(s->rows, s->c, 2);
		return 0;
	});
}

int lh_cuda_batch_norm_forward(struct lh_device *device, const struct lh_graph_node *node,
			       const struct lh_pass *pass, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		return batch_norm<decltype(zero)>(lh_cuda_of(device), node, pass->is_training, err);
	});
}

int lh_cuda_batch_norm_backward(struct lh_device *device, const struct lh_graph_node *node,
				const struct lh_pass *pass, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		return batch_norm_backward<decltype(zero)>(lh_cuda_of(device), node,
							   pass->is_training, err);
	});
}

} // extern "C"
