/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that work element by element. See cuda.h and layers.h. */
#include "trainer/device/cuda/kernels.cuh"

using namespace lh;

namespace
{

/* ---- activations: y = f(x), and dy/dx from x or y -------------------------------------------- */

constexpr float GELU_TANH_SCALE = 0.7978845608028654f; /* sqrt(2 / pi) */
constexpr float GELU_TANH_CUBE = 0.044715f;
constexpr float SQRT_HALF = 0.7071067811865476f;
constexpr float INV_SQRT_2_PI = 0.3989422804014327f;

struct activation {
	enum lh_activation f;

	__device__ float operator()(int64_t, float x, float) const
	{
		switch (f) {
		case LH_RELU:
			return x > 0 ? x : 0;
		case LH_GELU:
			return 0.5f * x * (1 + erff(x * SQRT_HALF));
		case LH_GELU_TANH:
			return 0.5f * x *
			       (1 + tanhf(GELU_TANH_SCALE * (x + GELU_TANH_CUBE * x * x * x)));
		case LH_SIGMOID:
			return 1 / (1 + expf(-x));
		case LH_TANH:
			return tanhf(x);
		case LH_IDENTITY:
			break;
		}
		return x;
	}
};

/* Of dy and x, or y where the slope follows from it. */
struct activation_slope {
	enum lh_activation f;

	__device__ float slope(float x) const
	{
		float t;

		switch (f) {
		case LH_RELU:
			return x > 0 ? 1 : 0;
		case LH_GELU:
			return 0.5f * (1 + erff(x * SQRT_HALF)) +
			       x * INV_SQRT_2_PI * expf(-0.5f * x * x);
		case LH_GELU_TANH:
			t = tanhf(GELU_TANH_SCALE * (x + GELU_TANH_CUBE * x * x * x));
			return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * GELU_TANH_SCALE *
							(1 + 3 * GELU_TANH_CUBE * x * x);
		case LH_SIGMOID:
			return x * (1 - x);
		case LH_TANH:
			return 1 - x * x;
		case LH_IDENTITY:
			break;
		}
		return 1;
	}

	__device__ float operator()(int64_t, float dy, float x) const
	{
		return dy * slope(x);
	}
};

bool is_by_output(enum lh_activation f)
{
	return f == LH_RELU || f == LH_SIGMOID || f == LH_TANH;
}

/* ---- sums ----------------------------------------------------------------------------------- */

struct sum {
	bool has_relu;

	__device__ float operator()(int64_t, float a, float b) const
	{
		float y = a + b;

		return has_relu && !(y > 0) ? 0 : y;
	}
};

/* dy, where the ReLU, if any, let y through. */
struct passed {
	bool has_relu;

	__device__ float operator()(int64_t, float dy, float y) const
	{
		return has_relu && !(y > 0) ? 0 : dy;
	}
};

/* Rows of `period` elements, to each of which b is added. */
template <typename T, int V> struct sum_with_rows {
	bool has_relu;
	int64_t period;
	const T *a, *b;
	T *y;
	float added[V];

	__device__ void begin(int64_t channel)
	{
		load<V>(b + channel, added);
	}

	__device__ void operator()(int64_t row, int64_t channel) const
	{
		float x[V];

		load<V>(a + row * period + channel, x);
#pragma unroll
		for (int v = 0; v < V; v++) {
			x[v] += added[v];
			x[v] = has_relu && !(x[v] > 0) ? 0 : x[v];
		}
		store<V>(y + row * period + channel, x);
	}
};

/* The gradient of b of sum_with_rows: the sum over rows. */
template <typename T, int V> struct passed_rows {
	bool has_relu;
	int64_t period;
	const T *dy, *y;

	__device__ void begin(int64_t)
	{
	}

	__device__ void add(int64_t row, int64_t channel, float (&sums)[1][V]) const
	{
		float d[V], out[V];

		load<V>(dy + row * period + channel, d);
		if (has_relu)
			load<V>(y + row * period + channel, out);
#pragma unroll
		for (int v = 0; v < V; v++)
			sums[0][v] += has_relu && !(out[v] > 0) ? 0 : d[v];
	}
};

template <typename T> struct write_sum {
	T *to;
	bool adds;

	__device__ void operator()(int64_t channel, const float *sums) const
	{
		put(to + channel, sums[0], adds);
	}
};

template <typename T>
int add_rows(struct lh_cuda *cuda, const struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_add *s = static_cast<const struct lh_add *>(node->spec);
	int64_t period = node->in[1]->n;

	return by_width<T>(period, [&](auto width) {
		constexpr int V = decltype(width)::value;
		struct sum_with_rows<T, V> f = {
			s->has_relu, period, data<T>(node->in[0]), data<T>(node->in[1]),
				static_cast<T *>(node->out->data),
			{
			}
		};

		return map_channels<V>(cuda, "add", f, node->out->n / period, period, err);
	});
}

template <typename T>
int add_rows_backward(struct lh_cuda *cuda, const struct lh_graph_node *node, struct lh_error *err)
{
	const struct lh_add *s = static_cast<const struct lh_add *>(node->spec);
	int64_t period = node->in[1]->n;

	return by_width<T>(period, [&](auto width) {
		constexpr int V = decltype(width)::value;
		struct passed_rows<T, V> f = {
			s->has_relu, period, grad<T>(node->out), data<T>(node->out)
		};
		struct write_sum<T> g = {
			grad<T>(node->in[1]), node->adds[1]
		};

		return sum_channels<1, V>(cuda, "add, backward", f, g, node->out->n / period,
					  period, static_cast<float *>(node->workspace), err);
	});
}

template <typename T>
int add_backward(struct lh_cuda *cuda, const struct lh_graph_node *node, uint32_t j, struct lh_error *err)
{
	const struct lh_add *s = static_cast<const struct lh_add *>(node->spec);
	struct passed f = {s->has_relu};
	T *dx = grad<T>(node->in[j]);

	/* Sharing the memory of dy, unchanged. */
	if (!s->has_relu && dx == grad<T>(node->out) && !node->adds[j])
		return 0;
	return map(cuda, "add, backward", f, grad<T>(node->out),
		   s->has_relu ? data<T>(node->out) : nullptr, dx, node->adds[j], node->out->n,
		   err);
}

/* ---- scales and masks ----------------------------------------------------------------------- */

/* y = x gamma, or dx = dy gamma. */
template <typename T, int V> struct scaled {
	int64_t c;
	const T *x;
	const float *gamma;
	T *y;
	bool adds;
	float factors[V];

	__device__ void begin(int64_t channel)
	{
		for (int v = 0; v < V; v++)
			factors[v] = gamma[channel + v];
	}

	__device__ void operator()(int64_t row, int64_t channel) const
	{
		float values[V];

		load<V>(x + row * c + channel, values);
#pragma unroll
		for (int v = 0; v < V; v++)
			values[v] *= factors[v];
		store<V>(y + row * c + channel, values, adds);
	}
};

template <typename T, int V> struct products {
	int64_t c;
	const T *dy, *x;

	__device__ void begin(int64_t)
	{
	}

	__device__ void add(int64_t row, int64_t channel, float (&sums)[1][V]) const
	{
		float d[V], values[V];

		load<V>(dy + row * c + channel, d);
		load<V>(x + row * c + channel, values);
#pragma unroll
		for (int v = 0; v < V; v++)
			sums[0][v] += d[v] * values[v];
	}
};

template <typename T>
int scale_by(struct lh_cuda *cuda, const struct lh_graph_node *node, const T *x, T *y, bool adds,
	     struct lh_error *err)
{
	int64_t c = node->parameter[0]->n;

	return by_width<T>(c, [&](auto width) {
		constexpr int V = decltype(width)::value;
		struct scaled<T, V> f = {
			c, x, data<float>(node->parameter[0]), y, adds,
			{
			}
		};

		return map_channels<V>(cuda, "scale", f, node->out->n / c, c, err);
	});
}

template <typename T>
int scale_gradient(struct lh_cuda *cuda, const struct lh_graph_node *node, struct lh_error *err)
{
	int64_t c = node->parameter[0]->n;

	return by_width<T>(c, [&](auto width) {
		constexpr int V = decltype(width)::value;
		struct products<T, V> f = {
			c, grad<T>(node->out), data<T>(node->in[0])
		};
		struct add_one g = {grad<float>(node->parameter[0])};

		return sum_channels<1, V>(cuda, "scale, backward", f, g, node->out->n / c, c,
					  static_cast<float *>(node->workspace), err);
	});
}

/* x, or 0 where the mask drops it. */
struct masked {
	uint64_t key;
	uint32_t threshold;
	float factor;
	int64_t elements_per_draw;
	bool is_training;

	__device__ float operator()(int64_t i, float x, float) const
	{
		uint64_t at =
			static_cast<uint64_t>(elements_per_draw == 1 ? i : i / elements_per_draw);

		if (!is_training)
			return x;
		return lh_dropout_keeps(key, at, threshold) ? x * factor : 0;
	}
};

struct masked mask_of(const struct lh_graph_node *node, const struct lh_pass *pass)
{
	const struct lh_dropout *s = static_cast<const struct lh_dropout *>(node->spec);

	return {lh_dropout_key(pass, node->position), lh_dropout_threshold(s->p),
		static_cast<float>(1 / (1 - s->p)), s->per_sample ? node->out->n / s->n : 1,
		pass->is_training};
}

} // namespace

extern "C" {

int lh_cuda_activate_forward(struct lh_device *device, const struct lh_graph_node *node,
			     const struct lh_pass *, struct lh_error *err)
{
	struct activation f = {static_cast<const struct lh_activate *>(node->spec)->f};

	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return map<T>(lh_cuda_of(device), "activate", f, data<T>(node->in[0]), nullptr,
			      static_cast<T *>(node->out->data), false, node->out->n, err);
	});
}

int lh_cuda_activate_backward(struct lh_device *device, const struct lh_graph_node *node,
			      const struct lh_pass *, struct lh_error *err)
{
	struct activation_slope f = {static_cast<const struct lh_activate *>(node->spec)->f};
	const struct lh_tensor *of = is_by_output(f.f) ? node->out : node->in[0];

	if (!node->in[0]->grad)
		return 0;
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return map<T>(lh_cuda_of(device), "activate, backward", f, grad<T>(node->out),
			      data<T>(of), grad<T>(node->in[0]), node->adds[0], node->out->n, err);
	});
}

int lh_cuda_add_prepare(struct lh_device *device, struct lh_graph_node *node, struct lh_error *)
{
	int64_t period = node->in[1]->n;

	if (period == node->out->n)
		return 0;
	return by_type(device->compute, [&](auto zero) {
		node->workspace_bytes = sum_bytes<decltype(zero)>(node->out->n / period, period, 1);
		return 0;
	});
}

int lh_cuda_add_forward(struct lh_device *device, const struct lh_graph_node *node,
			const struct lh_pass *, struct lh_error *err)
{
	struct sum f = {static_cast<const struct lh_add *>(node->spec)->has_relu};

	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		if (node->in[1]->n != node->out->n)
			return add_rows<T>(lh_cuda_of(device), node, err);
		return map<T>(lh_cuda_of(device), "add", f, data<T>(node->in[0]),
			      data<T>(node->in[1]), static_cast<T *>(node->out->data), false,
			      node->out->n, err);
	});
}

/* One after the other: both may share the memory of out->grad. */
int lh_cuda_add_backward(struct lh_device *device, const struct lh_graph_node *node,
			 const struct lh_pass *, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);
		int rc = node->in[0]->grad ? add_backward<T>(lh_cuda_of(device), node, 0, err) : 0;

		if (rc || !node->in[1]->grad)
			return rc;
		if (node->in[1]->n != node->out->n)
			return add_rows_backward<T>(lh_cuda_of(device), node, err);
		return add_backward<T>(lh_cuda_of(device), node, 1, err);
	});
}

int lh_cuda_scale_prepare(struct lh_device *device, struct lh_graph_node *node, struct lh_error *)
{
	int64_t c = node->parameter[0]->n;

	return by_type(device->compute, [&](auto zero) {
		node->workspace_bytes = sum_bytes<decltype(zero)>(node->out->n / c, c, 1);
		return 0;
	});
}

int lh_cuda_scale_forward(struct lh_device *device, const struct lh_graph_node *node,
			  const struct lh_pass *, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return scale_by<T>(lh_cuda_of(device), node, data<T>(node->in[0]),
				   static_cast<T *>(node->out->data), false, err);
	});
}

/* gamma's gradient first: dx may be the memory of dy. */
int lh_cuda_scale_backward(struct lh_device *device, const struct lh_graph_node *node,
			   const struct lh_pass *, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);
		int rc = node->parameter[0]->grad ? scale_gradient<T>(lh_cuda_of(device), node, err)
						  : 0;

		if (rc || !node->in[0]->grad)
			return rc;
		return scale_by<T>(lh_cuda_of(device), node, grad<T>(node->out),
				   grad<T>(node->in[0]), node->adds[0], err);
	});
}

int lh_cuda_dropout_forward(struct lh_device *device, const struct lh_graph_node *node,
			    const struct lh_pass *pass, struct lh_error *err)
{
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return map<T>(lh_cuda_of(device), "dropout", mask_of(node, pass),
			      data<T>(node->in[0]), nullptr, static_cast<T *>(node->out->data),
			      false, node->out->n, err);
	});
}

int lh_cuda_dropout_backward(struct lh_device *device, const struct lh_graph_node *node,
			     const struct lh_pass *pass, struct lh_error *err)
{
	if (!node->in[0]->grad)
		return 0;
	return by_type(device->compute, [&](auto zero) {
		using T = decltype(zero);

		return map<T>(lh_cuda_of(device), "dropout, backward", mask_of(node, pass),
			      static_cast<const T *>(grad<T>(node->out)), nullptr,
			      grad<T>(node->in[0]), node->adds[0], node->out->n, err);
	});
}

} // extern "C"
