/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors: named arrays of up to five dimensions, dense and row-major. Images are
 * [N, H, W, C] and sequences [N, T, C]: channels last, on every device.
 */
#ifndef LH_TRAINER_TENSOR_H
#define LH_TRAINER_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lh_dtype { LH_F32, LH_F64, LH_F16, LH_BF16, LH_I32 };

enum { LH_TENSOR_DIMS_MAX = 5, LH_TENSOR_NAME_MAX = 96 };

enum lh_role {
	LH_INPUT,      /* written by the caller before every pass */
	LH_CONSTANT,   /* int32, written once */
	LH_PARAMETER,  /* learnt; in the graph's flat vector of parameters */
	LH_STATE,      /* kept from pass to pass but not learnt: running means */
	LH_ACTIVATION, /* written by a node */
	LH_SAVED,      /* written by a node's forward for its own backward */
};

/* How a parameter or state begins. */
enum lh_init_kind {
	LH_INIT_ZEROS,
	LH_INIT_ONES,
	LH_INIT_VALUE,
	LH_INIT_UNIFORM,
	LH_INIT_NORMAL,
	LH_INIT_SINUSOIDS, /* of two dimensions: row t holds sin(t f), then cos(t f), with f falling
			      from 1 to 1/10000 in equal ratios */
};

struct lh_init {
	enum lh_init_kind kind;
	double scale;	    /* VALUE: the value; UNIFORM: in [-scale, scale); NORMAL: the standard
			       deviation */
	double truncate_at; /* NORMAL: redrawn beyond this many standard deviations; 0: never */
	int64_t zero_row;   /* 1 + the row (of the first dimension) that is zero; 0: none */
};

struct lh_graph_node;

struct lh_tensor {
	char name[LH_TENSOR_NAME_MAX]; /* unique among inputs, parameters and state; else the node's
					*/
	enum lh_role role;
	enum lh_dtype dtype;
	uint32_t n_dims;
	int64_t dims[LH_TENSOR_DIMS_MAX];
	int64_t n;	 /* elements */
	void *data;	 /* on the device */
	void *grad;	 /* the loss's derivative, of the data's shape; NULL where not wanted */
	bool wants_grad; /* parameters, and whatever depends on one */
	bool is_kept;	 /* can be read after the passes: its memory is not reused */
	bool has_decay;	 /* PARAMETER: weight decay applies: of matrices and kernels */
	struct lh_init init;
	void *cast;  /* PARAMETER in a mixed-precision pass: data rounded to the compute type */
	int64_t at;  /* PARAMETER, STATE: first element in the flat vector */
	uint32_t id; /* in order of creation */
	int32_t producer;	   /* position of the node that writes it, -1: none */
	struct lh_tensor *view_of; /* whose memory it shares, under other dims; NULL: its own */
};

/* The bytes of an element. */
size_t lh_dtype_bytes(enum lh_dtype dtype);

const char *lh_dtype_name(enum lh_dtype dtype);

#endif
