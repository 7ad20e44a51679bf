/* SPDX-License-Identifier: Apache-2.0 */
/* Activations of the CPU device: one loop per function. See cpu.h and vector.h. */
#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/vector.h"

static const float GELU_TANH_SCALE = 0.7978845608f; /* sqrt(2 / pi) */
static const float GELU_TANH_CUBE = 0.044715f;

struct activation {
	enum lh_activation f;
	const float *x, *y, *dy;
	float *out, *dx;
	bool adds;
};

/* tanh(u) = 2 sigmoid(2 u) - 1 makes the approximate GELU x sigmoid(2 u). */
LH_INLINE float gelu_tanh_weight(float x)
{
	float u = GELU_TANH_SCALE * fmaf(GELU_TANH_CUBE * x * x, x, x);

	return lh_sigmoid(2 * u);
}

LH_INLINE float apply(enum lh_activation f, float x)
{
	switch (f) {
	case LH_RELU:
		return x < 0 ? 0 : x;
	case LH_GELU:
		return x * lh_normal(x).below;
	case LH_GELU_TANH:
		return x * gelu_tanh_weight(x);
	case LH_SIGMOID:
		return lh_sigmoid(x);
	case LH_TANH:
		return lh_tanh(x);
	case LH_IDENTITY:
		break;
	}
	return x;
}

/* ReLU, sigmoid and tanh have nothing but y, the others x. */
LH_INLINE float slope(enum lh_activation f, float x, float y)
{
	struct lh_normal z;
	float s;

	switch (f) {
	case LH_RELU:
		return y > 0 ? 1 : 0;
	case LH_GELU:
		z = lh_normal(x);
		return fmaf(x, z.density, z.below);
	case LH_GELU_TANH:
		s = gelu_tanh_weight(x);
		return fmaf(2 * GELU_TANH_SCALE * x * s * (1 - s),
			    fmaf(3 * GELU_TANH_CUBE * x, x, 1), s);
	case LH_SIGMOID:
		return y * (1 - y);
	case LH_TANH:
		return fmaf(-y, y, 1);
	case LH_IDENTITY:
		break;
	}
	return 1;
}

LH_INLINE void apply_all(enum lh_activation f, const float *x, float *y, int64_t n)
{
#pragma omp simd
	for (int64_t i = 0; i < n; i++)
		y[i] = apply(f, x[i]);
}

LH_INLINE void slope_all(enum lh_activation f, const struct activation *a, struct lh_cpu_span span,
			 bool adds)
{
	const float *from = f == LH_GELU || f == LH_GELU_TANH ? a->x : a->y, *dy = a->dy;
	float *dx = a->dx;

#pragma omp simd
	for (int64_t i = span.from; i < span.to; i++) {
		float d = dy[i] * slope(f, from[i], from[i]);

		dx[i] = adds ? dx[i] + d : d;
	}
}

static void apply_span(const void *work, struct lh_cpu_span span)
{
	const struct activation *a = work;
	const float *x = a->x + span.from;
	float *y = a->out + span.from;
	int64_t n = span.to - span.from;

	switch (a->f) {
	case LH_RELU:
		apply_all(LH_RELU, x, y, n);
		break;
	case LH_GELU:
		apply_all(LH_GELU, x, y, n);
		break;
	case LH_GELU_TANH:
		apply_all(LH_GELU_TANH, x, y, n);
		break;
	case LH_SIGMOID:
		apply_all(LH_SIGMOID, x, y, n);
		break;
	case LH_TANH:
		apply_all(LH_TANH, x, y, n);
		break;
	case LH_IDENTITY:
		apply_all(LH_IDENTITY, x, y, n);
		break;
	}
}

LH_INLINE void slope_either(enum lh_activation f, const struct activation *a,
			    struct lh_cpu_span span)
{
	if (a->adds)
		slope_all(f, a, span, true);
	else
		slope_all(f, a, span, false);
}

static void slope_span(const void *work, struct lh_cpu_span span)
{
	const struct activation *a = work;

	switch (a->f) {
	case LH_RELU:
		slope_either(LH_RELU, a, span);
		break;
	case LH_GELU:
		slope_either(LH_GELU, a, span);
		break;
	case LH_GELU_TANH:
		slope_either(LH_GELU_TANH, a, span);
		break;
	case LH_SIGMOID:
		slope_either(LH_SIGMOID, a, span);
		break;
	case LH_TANH:
		slope_either(LH_TANH, a, span);
		break;
	case LH_IDENTITY:
		slope_either(LH_IDENTITY, a, span);
		break;
	}
}

static struct activation find(const struct lh_graph_node *node)
{
	const struct lh_activate *s = node->spec;

	return (struct activation){s->f,
				   node->in[0]->data,
				   node->out->data,
				   node->out->grad,
				   node->out->data,
				   node->in[0]->grad,
				   node->adds[0]};
}

int lh_cpu_activate_forward(struct lh_device *device, const struct lh_graph_node *node,
			    const struct lh_pass *pass, struct lh_error *err)
{
	struct activation a = find(node);

	(void)pass;
	(void)err;
	lh_cpu_for(device, node->out->n, LH_CPU_LINE_FLOATS, 2 * node->out->n, apply_span, &a);
	return 0;
}

int lh_cpu_activate_backward(struct lh_device *device, const struct lh_graph_node *node,
			     const struct lh_pass *pass, struct lh_error *err)
{
	struct activation a = find(node);

	(void)pass;
	(void)err;
	if (a.dx)
		lh_cpu_for(device, node->out->n, LH_CPU_LINE_FLOATS, 3 * node->out->n, slope_span,
			   &a);
	return 0;
}
