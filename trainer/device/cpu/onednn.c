/* SPDX-License-Identifier: Apache-2.0 */
/* Primitives of oneDNN. See onednn.h. */
#include "trainer/device/cpu/onednn.h"

#include <omp.h>
#include <string.h>

/* Work below this, about 30 us, is done sooner by one thread. */
static const double OPERATIONS_MIN = 4e6;

static const char *status_text(dnnl_status_t status)
{
	switch (status) {
	case dnnl_out_of_memory:
		return "out of memory";
	case dnnl_invalid_arguments:
		return "invalid arguments";
	case dnnl_unimplemented:
		return "not implemented";
	default:
		return "failed";
	}
}

int lh_onednn_check(dnnl_status_t status, const char *what, struct lh_error *err)
{
	if (status == dnnl_success)
		return 0;
	return lh_fail(err, LH_ESYS, 0, "oneDNN: %s: %s (status %d)", what, status_text(status),
		       (int)status);
}

uint32_t lh_onednn_threads(const struct lh_device *device, double operations)
{
	return operations < OPERATIONS_MIN ? 1 : device->n_threads;
}

void lh_onednn_use_threads(uint32_t n_threads)
{
	omp_set_num_threads((int)n_threads);
}

int lh_onednn_form(int n_dims, const int64_t *dims, const int64_t *strides,
		   dnnl_memory_desc_t *ret_form, struct lh_error *err)
{
	dnnl_dims_t all_dims = {0}, all_strides = {0};
	dnnl_status_t status;

	memcpy(all_dims, dims, (size_t)n_dims * sizeof(*dims));
	if (!strides) {
		status = dnnl_memory_desc_init_by_tag(ret_form, n_dims, all_dims, dnnl_f32,
						      dnnl_format_tag_any);
	} else {
		memcpy(all_strides, strides, (size_t)n_dims * sizeof(*strides));
		status = dnnl_memory_desc_init_by_strides(ret_form, n_dims, all_dims, dnnl_f32,
							  all_strides);
	}
	return lh_onednn_check(status, "describing a tensor", err);
}

int lh_onednn_attributes(dnnl_primitive_attr_t *ret_attributes, struct lh_error *err)
{
	dnnl_status_t status = dnnl_primitive_attr_create(ret_attributes);

	if (status == dnnl_success)
		status = dnnl_primitive_attr_set_scratchpad_mode(*ret_attributes,
								 dnnl_scratchpad_mode_user);
	return lh_onednn_check(status, "setting attributes", err);
}

static int add_arg(struct lh_cpu *cpu, struct lh_onednn *op, int name,
		   const dnnl_memory_desc_t *form, struct lh_error *err)
{
	dnnl_exec_arg_t *arg = &op->args[op->n_args];
	dnnl_status_t status =
		dnnl_memory_create(&arg->memory, form, cpu->engine, DNNL_MEMORY_NONE);

	if (status != dnnl_success)
		return lh_onednn_check(status, "describing memory", err);
	arg->arg = name;
	op->n_args++;
	return 0;
}

int lh_onednn_init(struct lh_device *device, dnnl_primitive_desc_t description, uint32_t n_threads,
		   const struct lh_onednn_arg *args, uint32_t n_args, struct lh_onednn *ret_op,
		   struct lh_error *err)
{
	struct lh_cpu *cpu = (struct lh_cpu *)device;
	const dnnl_memory_desc_t *scratchpad =
		dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
	int rc;

	*ret_op = (struct lh_onednn){.n_threads = n_threads};
	ret_op->scratch_bytes = dnnl_memory_desc_get_size(scratchpad);
	rc = lh_onednn_check(dnnl_primitive_create(&ret_op->primitive, description),
			     "making a primitive", err);
	for (uint32_t i = 0; rc == 0 && i < n_args; i++)
		rc = add_arg(cpu, ret_op, args[i].name, args[i].form, err);
	if (rc == 0)
		rc = add_arg(cpu, ret_op, DNNL_ARG_SCRATCHPAD, scratchpad, err);
	if (rc)
		lh_onednn_done(ret_op);
	return rc;
}

int lh_onednn_init_copy(struct lh_device *device, const dnnl_memory_desc_t *from,
			const dnnl_memory_desc_t *to, bool adds, uint32_t n_threads,
			struct lh_onednn *ret_op, struct lh_error *err)
{
	struct lh_cpu *cpu = (struct lh_cpu *)device;
	const struct lh_onednn_arg args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
	dnnl_primitive_attr_t attributes = NULL;
	dnnl_primitive_desc_t description = NULL;
	dnnl_post_ops_t after = NULL;
	dnnl_status_t status = dnnl_success;
	int rc = lh_onednn_attributes(&attributes, err);

	lh_onednn_use_threads(n_threads);
	if (rc == 0 && adds) {
		status = dnnl_post_ops_create(&after);
		if (status == dnnl_success)
			status = dnnl_post_ops_append_sum(after, 1);
		if (status == dnnl_success)
			status = dnnl_primitive_attr_set_post_ops(attributes, after);
	}
	if (rc == 0 && status == dnnl_success)
		status = dnnl_reorder_primitive_desc_create(&description, from, cpu->engine, to,
							    cpu->engine, attributes);
	if (rc == 0)
		rc = lh_onednn_check(status, "describing a copy", err);
	if (rc == 0)
		rc = lh_onednn_init(device, description, n_threads, args, 2, ret_op, err);
	dnnl_primitive_desc_destroy(description);
	dnnl_post_ops_destroy(after);
	dnnl_primitive_attr_destroy(attributes);
	return rc;
}

static int point(struct lh_cpu *cpu, dnnl_memory_t memory, void *pointer, struct lh_error *err)
{
	void *old = NULL;

	dnnl_memory_get_data_handle(memory, &old);
	if (old == pointer)
		return 0;
	return lh_onednn_check(dnnl_memory_set_data_handle_v2(memory, pointer, cpu->stream),
			       "setting memory", err);
}

int lh_onednn_run(struct lh_device *device, struct lh_onednn *op, void *const *pointers,
		  void *scratch, struct lh_error *err)
{
	struct lh_cpu *cpu = (struct lh_cpu *)device;
	int rc = 0;

	lh_onednn_use_threads(op->n_threads);
	for (uint32_t i = 0; rc == 0 && i < op->n_args; i++)
		rc = point(cpu, op->args[i].memory, i + 1 < op->n_args ? pointers[i] : scratch,
			   err);
	if (rc)
		return rc;
	return lh_onednn_check(dnnl_primitive_execute(op->primitive, cpu->stream, (int)op->n_args,
						      op->args),
			       "running a primitive", err);
}

void lh_onednn_done(struct lh_onednn *op)
{
	for (uint32_t i = 0; i < op->n_args; i++)
		dnnl_memory_destroy(op->args[i].memory);
	if (op->primitive)
		dnnl_primitive_destroy(op->primitive);
	*op = (struct lh_onednn){0};
}
