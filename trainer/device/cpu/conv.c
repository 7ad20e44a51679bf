/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of the CPU device, by oneDNN: images stay channels-last, weights are copied
 * into the form that a primitive likes and their gradients out of it, which takes a few per cent of
 * the time. Depthwise gradients of weights are own loops (depthwise.c). See cpu.h.
 */
#include <stdlib.h>
#include <string.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/onednn.h"

/* Not primitives where nothing is set: a copy that is not needed, an input without gradient. */
struct conv_plan {
	struct lh_onednn forward, copy_forward; /* the copy of the weights comes first */
	struct lh_onednn data, copy_data;
	struct lh_onednn weights, copy_weights; /* the copy of the gradient comes last */
	size_t forward_weights_bytes, data_weights_bytes, weights_bytes; /* of those copies */
	bool is_depthwise;
};

/* Forms that the caller has: of x, y, and the weights, which have a dimension of groups. */
struct forms {
	dnnl_memory_desc_t x, y, w, w_any, bias;
	dnnl_dims_t strides, pads_before, pads_after;
};

static bool is_depthwise(const struct lh_conv2d *s)
{
	return s->groups > 1 && s->groups == s->c && s->out_channels == s->c;
}

/* Pads behind are what the outputs need: a stride may leave the last pixels out. */
static int64_t pad_after(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad)
{
	return (out - 1) * stride + kernel - in - pad;
}

static int describe(const struct lh_conv2d *s, struct forms *f, struct lh_error *err)
{
	int64_t i = s->c / s->groups, o = s->out_channels / s->groups;
	int64_t kh = s->kernel_h, kw = s->kernel_w;
	const int64_t x[] = {s->n, s->c, s->h, s->w}, y[] = {s->n, s->out_channels, s->oh, s->ow};
	const int64_t x_strides[] = {s->h * s->w * s->c, 1, s->w * s->c, s->c};
	const int64_t y_strides[] = {s->oh * s->ow * s->out_channels, 1, s->ow * s->out_channels,
				     s->out_channels};
	const int64_t w[] = {s->groups, o, i, kh, kw};
	const int64_t w_strides[] = {o * kh * kw * i, kh * kw * i, 1, kw * i, i};
	int first = s->groups > 1 ? 0 : 1;
	int rc = lh_onednn_form(4, x, x_strides, &f->x, err);

	f->strides[0] = s->stride_h;
	f->strides[1] = s->stride_w;
	f->pads_before[0] = s->pad_h;
	f->pads_before[1] = s->pad_w;
	f->pads_after[0] = pad_after(s->h, s->oh, kh, s->stride_h, s->pad_h);
	f->pads_after[1] = pad_after(s->w, s->ow, kw, s->stride_w, s->pad_w);
	if (rc == 0)
		rc = lh_onednn_form(4, y, y_strides, &f->y, err);
	if (rc == 0)
		rc = lh_onednn_form(5 - first, w + first, w_strides + first, &f->w, err);
	if (rc == 0)
		rc = lh_onednn_form(5 - first, w + first, NULL, &f->w_any, err);
	if (rc == 0)
		rc = lh_onednn_form(1, &s->out_channels, (const int64_t[]){1}, &f->bias, err);
	return rc;
}

/* What making the three primitives of a layer needs. */
struct making {
	struct lh_device *device;
	const struct forms *forms;
	dnnl_primitive_attr_t attributes;
	dnnl_primitive_desc_t forward; /* the hint for the others */
	uint32_t n_threads;
	bool has_bias;
};

static const dnnl_memory_desc_t *form_of(dnnl_primitive_desc_t description, dnnl_query_t what)
{
	return dnnl_primitive_desc_query_md(description, what, 0);
}

/* Threads for a copy: few bytes are copied sooner by one. */
static uint32_t copy_threads(const struct making *m, size_t bytes)
{
	const size_t bytes_min = 256 * 1024;

	return bytes < bytes_min ? 1 : m->n_threads;
}

/* Makes the copy between the layer's weights and those in `form`, if they differ. */
static int make_copy(struct making *m, const dnnl_memory_desc_t *form, bool is_gradient,
		     struct lh_onednn *ret_copy, size_t *ret_bytes, struct lh_error *err)
{
	const dnnl_memory_desc_t *own = &m->forms->w;
	uint32_t n_threads;
	int rc = 0;

	*ret_bytes = dnnl_memory_desc_get_size(form);
	n_threads = copy_threads(m, *ret_bytes);
	if (is_gradient)
		rc = lh_onednn_init_copy(m->device, form, own, true, n_threads, ret_copy, err);
	else if (!dnnl_memory_desc_equal(form, own))
		rc = lh_onednn_init_copy(m->device, own, form, false, n_threads, ret_copy, err);
	lh_onednn_use_threads(m->n_threads); /* for the primitives that are made next */
	return rc;
}

static int make_forward(struct making *m, struct conv_plan *plan, struct lh_error *err)
{
	const struct forms *f = m->forms;
	struct lh_cpu *cpu = (struct lh_cpu *)m->device;
	dnnl_convolution_desc_t operation;
	const dnnl_memory_desc_t *w;
	dnnl_status_t status = dnnl_convolution_forward_desc_init(
		&operation, dnnl_forward_training, dnnl_convolution_direct, &f->x, &f->w_any,
		m->has_bias ? &f->bias : NULL, &f->y, f->strides, f->pads_before, f->pads_after);
	int rc;

	if (status == dnnl_success)
		status = dnnl_primitive_desc_create(&m->forward, &operation, m->attributes,
						    cpu->engine, NULL);
	rc = lh_onednn_check(status, "describing a convolution", err);
	if (rc)
		return rc;
	w = form_of(m->forward, dnnl_query_weights_md);
	rc = lh_onednn_init(m->device, m->forward, m->n_threads,
			    (const struct lh_onednn_arg[]){{DNNL_ARG_SRC, &f->x},
							   {DNNL_ARG_WEIGHTS, w},
							   {DNNL_ARG_DST, &f->y},
							   {DNNL_ARG_BIAS, &f->bias}},
			    m->has_bias ? 4 : 3, &plan->forward, err);
	return rc ? rc
		  : make_copy(m, w, false, &plan->copy_forward, &plan->forward_weights_bytes, err);
}

static int make_data(struct making *m, struct conv_plan *plan, struct lh_error *err)
{
	const struct forms *f = m->forms;
	struct lh_cpu *cpu = (struct lh_cpu *)m->device;
	dnnl_convolution_desc_t operation;
	dnnl_primitive_desc_t description = NULL;
	const dnnl_memory_desc_t *w;
	dnnl_status_t status =
		dnnl_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &f->x,
							 &f->w_any, &f->y, f->strides,
							 f->pads_before, f->pads_after);
	int rc;

	if (status == dnnl_success)
		status = dnnl_primitive_desc_create(&description, &operation, m->attributes,
						    cpu->engine, m->forward);
	rc = lh_onednn_check(status, "describing a convolution's gradient of the input", err);
	if (rc)
		return rc;
	w = form_of(description, dnnl_query_weights_md);
	rc = lh_onednn_init(m->device, description, m->n_threads,
			    (const struct lh_onednn_arg[]){{DNNL_ARG_DIFF_DST, &f->y},
							   {DNNL_ARG_WEIGHTS, w},
							   {DNNL_ARG_DIFF_SRC, &f->x}},
			    3, &plan->data, err);
	if (rc == 0)
		rc = make_copy(m, w, false, &plan->copy_data, &plan->data_weights_bytes, err);
	dnnl_primitive_desc_destroy(description);
	return rc;
}

static int make_weights(struct making *m, struct conv_plan *plan, struct lh_error *err)
{
	const struct forms *f = m->forms;
	struct lh_cpu *cpu = (struct lh_cpu *)m->device;
	dnnl_convolution_desc_t operation;
	dnnl_primitive_desc_t description = NULL;
	const dnnl_memory_desc_t *w;
	dnnl_status_t status = dnnl_convolution_backward_weights_desc_init(
		&operation, dnnl_convolution_direct, &f->x, &f->w_any, NULL, &f->y, f->strides,
		f->pads_before, f->pads_after);
	int rc;

	if (status == dnnl_success)
		status = dnnl_primitive_desc_create(&description, &operation, m->attributes,
						    cpu->engine, m->forward);
	rc = lh_onednn_check(status, "describing a convolution's gradient of the weights", err);
	if (rc)
		return rc;
	w = form_of(description, dnnl_query_diff_weights_md);
	rc = lh_onednn_init(m->device, description, m->n_threads,
			    (const struct lh_onednn_arg[]){{DNNL_ARG_SRC, &f->x},
							   {DNNL_ARG_DIFF_DST, &f->y},
							   {DNNL_ARG_DIFF_WEIGHTS, w}},
			    3, &plan->weights, err);
	if (rc == 0)
		rc = make_copy(m, w, true, &plan->copy_weights, &plan->weights_bytes, err);
	dnnl_primitive_desc_destroy(description);
	return rc;
}

/* Bytes of a copy of weights and, behind it, of the larger scratchpad. */
static size_t align(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static size_t bytes_of(const struct lh_onednn *op, const struct lh_onednn *copy, size_t weights)
{
	return align(weights) + align(op->scratch_bytes > copy->scratch_bytes
					      ? op->scratch_bytes
					      : copy->scratch_bytes);
}

static size_t max_of(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Bytes of dx where it is not written at its place, but added. */
static size_t summand_bytes(const struct lh_graph_node *node)
{
	return node->in[0]->wants_grad && node->adds[0]
		       ? align((size_t)node->in[0]->n * sizeof(float))
		       : 0;
}

static size_t workspace_bytes(const struct lh_graph_node *node, const struct conv_plan *p)
{
	const struct lh_conv2d *s = node->spec;
	size_t bytes = bytes_of(&p->forward, &p->copy_forward, p->forward_weights_bytes);

	bytes = max_of(bytes, bytes_of(&p->data, &p->copy_data, p->data_weights_bytes) +
				      summand_bytes(node));
	bytes = max_of(bytes, bytes_of(&p->weights, &p->copy_weights, p->weights_bytes));
	if (p->is_depthwise)
		bytes = max_of(bytes, lh_cpu_depthwise_bytes(s));
	if (s->has_bias)
		bytes = max_of(bytes, lh_cpu_partials_bytes(s->n * s->oh * s->ow, s->out_channels));
	return bytes;
}

int lh_cpu_conv2d_prepare(struct lh_device *device, struct lh_graph_node *node,
			  struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	struct conv_plan *plan = calloc(1, sizeof(*plan));
	struct forms forms = {0};
	double operations =
		2.0 * (double)node->out->n * (double)(s->kernel_h * s->kernel_w * s->c / s->groups);
	struct making m = {.device = device,
			   .forms = &forms,
			   .n_threads = lh_onednn_threads(device, operations),
			   .has_bias = s->has_bias};
	int rc;

	if (!plan)
		return lh_fail(err, LH_ESYS, 0, "no memory for a convolution");
	node->plan = plan;
	plan->is_depthwise = is_depthwise(s);
	rc = describe(s, &forms, err);
	if (rc == 0)
		rc = lh_onednn_attributes(&m.attributes, err);
	lh_onednn_use_threads(m.n_threads);
	if (rc == 0)
		rc = make_forward(&m, plan, err);
	if (rc == 0 && node->in[0]->wants_grad)
		rc = make_data(&m, plan, err);
	if (rc == 0 && !plan->is_depthwise)
		rc = make_weights(&m, plan, err);
	dnnl_primitive_desc_destroy(m.forward);
	dnnl_primitive_attr_destroy(m.attributes);
	node->workspace_bytes = workspace_bytes(node, plan);
	return rc;
}

void lh_cpu_conv2d_done(struct lh_graph_node *node)
{
	struct conv_plan *plan = node->plan;

	lh_onednn_done(&plan->forward);
	lh_onednn_done(&plan->copy_forward);
	lh_onednn_done(&plan->data);
	lh_onednn_done(&plan->copy_data);
	lh_onednn_done(&plan->weights);
	lh_onednn_done(&plan->copy_weights);
	free(plan);
	node->plan = NULL;
}

/* The weights in the form that a primitive wants, at the beginning of the workspace if copied. */
static int give_weights(struct lh_device *device, const struct lh_graph_node *node,
			struct lh_onednn *copy, size_t weights_bytes, void **ret_weights,
			struct lh_error *err)
{
	void *own = node->parameter[0]->data, *pointers[] = {own, node->workspace};

	*ret_weights = copy->primitive ? node->workspace : own;
	if (!copy->primitive)
		return 0;
	return lh_onednn_run(device, copy, pointers, (char *)node->workspace + align(weights_bytes),
			     err);
}

int lh_cpu_conv2d_forward(struct lh_device *device, const struct lh_graph_node *node,
			  const struct lh_pass *pass, struct lh_error *err)
{
	struct conv_plan *p = node->plan;
	void *pointers[4] = {node->in[0]->data, NULL, node->out->data, NULL};
	int rc = give_weights(device, node, &p->copy_forward, p->forward_weights_bytes,
			      &pointers[1], err);

	(void)pass;
	if (node->n_parameters > 1)
		pointers[3] = node->parameter[1]->data;
	if (rc)
		return rc;
	return lh_onednn_run(device, &p->forward, pointers,
			     (char *)node->workspace + align(p->forward_weights_bytes), err);
}

struct summands {
	const float *from;
	float *to;
};

static void add_span(const void *work, struct lh_cpu_span span)
{
	const struct summands *s = work;
	const float *from = s->from;
	float *to = s->to;

#pragma omp simd
	for (int64_t i = span.from; i < span.to; i++)
		to[i] += from[i];
}

static int backward_data(struct lh_device *device, const struct lh_graph_node *node,
			 struct lh_error *err)
{
	struct conv_plan *p = node->plan;
	const struct lh_tensor *x = node->in[0];
	char *scratch = (char *)node->workspace + align(p->data_weights_bytes);
	struct summands s = {(const float *)(const void *)((char *)node->workspace +
							   bytes_of(&p->data, &p->copy_data,
								    p->data_weights_bytes)),
			     x->grad};
	void *pointers[3] = {node->out->grad, NULL,
			     node->adds[0] ? (void *)(uintptr_t)s.from : x->grad};
	int rc =
		give_weights(device, node, &p->copy_data, p->data_weights_bytes, &pointers[1], err);

	if (rc == 0)
		rc = lh_onednn_run(device, &p->data, pointers, scratch, err);
	if (rc == 0 && node->adds[0])
		lh_cpu_for(device, x->n, LH_CPU_LINE_FLOATS, 3 * x->n, add_span, &s);
	return rc;
}

static int backward_weights(struct lh_device *device, const struct lh_graph_node *node,
			    struct lh_error *err)
{
	struct conv_plan *p = node->plan;
	char *scratch = (char *)node->workspace + align(p->weights_bytes);
	void *pointers[] = {node->in[0]->data, node->out->grad, node->workspace};
	void *copied[] = {node->workspace, node->parameter[0]->grad};
	int rc;

	if (p->is_depthwise) {
		lh_cpu_add_depthwise(device, node->spec, node->in[0]->data, node->out->grad,
				     node->workspace, node->parameter[0]->grad);
		return 0;
	}
	rc = lh_onednn_run(device, &p->weights, pointers, scratch, err);
	return rc ? rc : lh_onednn_run(device, &p->copy_weights, copied, scratch, err);
}

int lh_cpu_conv2d_backward(struct lh_device *device, const struct lh_graph_node *node,
			   const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_conv2d *s = node->spec;
	int rc = backward_weights(device, node, err);

	(void)pass;
	if (rc == 0 && s->has_bias)
		lh_cpu_add_columns(device, s->n * s->oh * s->ow, s->out_channels, node->out->grad,
				   NULL, node->workspace, node->parameter[1]->grad);
	if (rc == 0 && node->in[0]->grad)
		rc = backward_data(device, node, err);
	return rc;
}
