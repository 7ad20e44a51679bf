/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU device's use of oneDNN (2.6 and later 2.x): primitives made once, with memory that
 * others own. oneDNN may allocate small things of its own in a call, and dnnl_sgemm its buffers.
 */
#ifndef LH_TRAINER_CPU_ONEDNN_H
#define LH_TRAINER_CPU_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "trainer/device/device.h"

struct lh_cpu {
	struct lh_device device; /* first */
	dnnl_engine_t engine;
	dnnl_stream_t stream;
};

/* A primitive with its arguments. All zero: none. */
enum { LH_ONEDNN_ARGS_MAX = 5 };
struct lh_onednn {
	dnnl_primitive_t primitive;
	uint32_t n_args; /* with the scratchpad, the last one */
	dnnl_exec_arg_t args[LH_ONEDNN_ARGS_MAX];
	size_t scratch_bytes;
	uint32_t n_threads; /* that it was made for */
};

/* One argument's name (DNNL_ARG_...) and form. */
struct lh_onednn_arg {
	int name;
	const dnnl_memory_desc_t *form;
};

/* 0, or LH_ESYS with what oneDNN was to do. */
int lh_onednn_check(dnnl_status_t status, const char *what, struct lh_error *err);

/* Threads for work of this many floating-point operations, and their number for oneDNN's calls. */
uint32_t lh_onednn_threads(const struct lh_device *device, double operations);
void lh_onednn_use_threads(uint32_t n_threads);

/* The form of a tensor of fp32. strides NULL: oneDNN chooses. */
int lh_onednn_form(int n_dims, const int64_t *dims, const int64_t *strides,
		   dnnl_memory_desc_t *ret_form, struct lh_error *err);

/* How primitives are made here: the caller gives their scratchpad. The caller destroys it. */
int lh_onednn_attributes(dnnl_primitive_attr_t *ret_attributes, struct lh_error *err);

/* Makes the primitive that `description` describes, which stays the caller's. */
int lh_onednn_init(struct lh_device *device, dnnl_primitive_desc_t description, uint32_t n_threads,
		   const struct lh_onednn_arg *args, uint32_t n_args, struct lh_onednn *ret_op,
		   struct lh_error *err);

/* Makes a copy from one form to another; adds: onto what is there. */
int lh_onednn_init_copy(struct lh_device *device, const dnnl_memory_desc_t *from,
			const dnnl_memory_desc_t *to, bool adds, uint32_t n_threads,
			struct lh_onednn *ret_op, struct lh_error *err);

/* Runs it: one pointer per argument, in order, and the scratchpad. */
int lh_onednn_run(struct lh_device *device, struct lh_onednn *op, void *const *pointers,
		  void *scratch, struct lh_error *err);

void lh_onednn_done(struct lh_onednn *op);

#endif
