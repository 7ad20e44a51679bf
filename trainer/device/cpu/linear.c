/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear layers of the CPU device, by oneDNN: the forward product as a primitive, which is the
 * fastest for x w^T, those of the gradients as dnnl_sgemm, which adds in place. See cpu.h.
 */
#include <stdlib.h>

#include "trainer/device/cpu/cpu.h"
#include "trainer/device/cpu/onednn.h"

struct linear_plan {
	struct lh_onednn forward;
	uint32_t n_threads;
};

static int make_forward(struct lh_device *device, const struct lh_linear *s,
			struct linear_plan *plan, struct lh_error *err)
{
	const int64_t x[] = {s->rows, s->in_features}, w[] = {s->in_features, s->out_features};
	const int64_t y[] = {s->rows, s->out_features}, b[] = {1, s->out_features};
	struct lh_cpu *cpu = (struct lh_cpu *)device;
	dnnl_memory_desc_t x_form, w_form, y_form, b_form;
	dnnl_primitive_attr_t attributes = NULL;
	dnnl_primitive_desc_t description = NULL;
	dnnl_matmul_desc_t operation;
	dnnl_status_t status;
	int rc = lh_onednn_form(2, x, (const int64_t[]){s->in_features, 1}, &x_form, err);

	if (rc == 0)
		rc = lh_onednn_form(2, w, (const int64_t[]){1, s->in_features}, &w_form, err);
	if (rc == 0)
		rc = lh_onednn_form(2, y, (const int64_t[]){s->out_features, 1}, &y_form, err);
	if (rc == 0)
		rc = lh_onednn_form(2, b, (const int64_t[]){s->out_features, 1}, &b_form, err);
	if (rc == 0)
		rc = lh_onednn_attributes(&attributes, err);
	if (rc)
		return rc;
	status = dnnl_matmul_desc_init(&operation, &x_form, &w_form, s->has_bias ? &b_form : NULL,
				       &y_form);
	if (status == dnnl_success)
		status = dnnl_primitive_desc_create(&description, &operation, attributes,
						    cpu->engine, NULL);
	rc = lh_onednn_check(status, "describing a matrix product", err);
	if (rc == 0)
		rc = lh_onednn_init(device, description, plan->n_threads,
				    (const struct lh_onednn_arg[]){{DNNL_ARG_SRC, &x_form},
								   {DNNL_ARG_WEIGHTS, &w_form},
								   {DNNL_ARG_DST, &y_form},
								   {DNNL_ARG_BIAS, &b_form}},
				    s->has_bias ? 4 : 3, &plan->forward, err);
	dnnl_primitive_desc_destroy(description);
	dnnl_primitive_attr_destroy(attributes);
	return rc;
}

int lh_cpu_linear_prepare(struct lh_device *device, struct lh_graph_node *node,
			  struct lh_error *err)
{
	const struct lh_linear *s = node->spec;
	struct linear_plan *plan = calloc(1, sizeof(*plan));
	size_t partials = s->has_bias ? lh_cpu_partials_bytes(s->rows, s->out_features) : 0;
	int rc;

	if (!plan)
		return lh_fail(err, LH_ESYS, 0, "no memory for a linear layer");
	node->plan = plan;
	plan->n_threads = lh_onednn_threads(device, 2.0 * (double)s->rows * (double)s->in_features *
							    (double)s->out_features);
	lh_onednn_use_threads(plan->n_threads);
	rc = make_forward(device, s, plan, err);
	node->workspace_bytes =
		partials > plan->forward.scratch_bytes ? partials : plan->forward.scratch_bytes;
	return rc;
}

void lh_cpu_linear_done(struct lh_graph_node *node)
{
	struct linear_plan *plan = node->plan;

	lh_onednn_done(&plan->forward);
	free(plan);
	node->plan = NULL;
}

int lh_cpu_linear_forward(struct lh_device *device, const struct lh_graph_node *node,
			  const struct lh_pass *pass, struct lh_error *err)
{
	struct linear_plan *plan = node->plan;
	void *pointers[] = {node->in[0]->data, node->parameter[0]->data, node->out->data,
			    node->n_parameters > 1 ? node->parameter[1]->data : NULL};

	(void)pass;
	return lh_onednn_run(device, &plan->forward, pointers, node->workspace, err);
}

int lh_cpu_linear_backward(struct lh_device *device, const struct lh_graph_node *node,
			   const struct lh_pass *pass, struct lh_error *err)
{
	const struct lh_linear *s = node->spec;
	const struct linear_plan *plan = node->plan;
	const float *x = node->in[0]->data, *dy = node->out->grad, *w = node->parameter[0]->data;
	float *dx = node->in[0]->grad, *dw = node->parameter[0]->grad;
	int64_t rows = s->rows, in = s->in_features, out = s->out_features;
	dnnl_status_t status;

	(void)pass;
	if (s->has_bias)
		lh_cpu_add_columns(device, rows, out, dy, NULL, node->workspace,
				   node->parameter[1]->grad);
	lh_onednn_use_threads(plan->n_threads);
	status = dnnl_sgemm('T', 'N', out, in, rows, 1, dy, out, x, in, 1, dw, in);
	if (status == dnnl_success && dx)
		status = dnnl_sgemm('N', 'N', rows, in, out, 1, dy, out, w, in,
				    node->adds[0] ? 1 : 0, dx, in);
	return lh_onednn_check(status, "a matrix product", err);
}
