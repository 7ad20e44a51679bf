/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: what a graph runs on. A device is a table of kernels, one per kind of layer, and
 * a few functions for memory. The reference device is plain C and the oracle of the others; it
 * comes in single and double precision.
 */
#ifndef LH_TRAINER_DEVICE_H
#define LH_TRAINER_DEVICE_H

#include "core/error.h"
#include "trainer/tensor/tensor.h"

/* The kinds of layers. Specs and builders are in trainer/layers/layers.h. */
enum lh_layer {
	LH_CONV2D,
	LH_LINEAR,
	LH_BATCH_NORM,
	LH_LAYER_NORM,
	LH_ACTIVATE,
	LH_ADD,
	LH_SCALE,
	LH_DROPOUT,
	LH_POOL,
	LH_SHORTCUT,
	LH_EMBEDDING,
	LH_FIELD_EMBEDDING,
	LH_ATTENTION,
	LH_CONCAT,
	LH_FACTORIZATION,
	LH_CROSS_ENTROPY,
	LH_BINARY_CROSS_ENTROPY,
	LH_N_LAYERS,
};

enum {
	LH_NODE_INPUTS_MAX = 4,
	LH_NODE_PARAMETERS_MAX = 2,
	LH_NODE_STATES_MAX = 2,
	LH_NODE_SAVED_MAX = 2
};

/* One layer of one graph. */
struct lh_graph_node {
	enum lh_layer layer;
	char name[LH_TENSOR_NAME_MAX];
	uint32_t position;
	const void *spec; /* the layer's own struct */
	uint32_t n_in, n_parameters, n_states, n_saved;
	struct lh_tensor *in[LH_NODE_INPUTS_MAX];
	struct lh_tensor *parameter[LH_NODE_PARAMETERS_MAX];
	struct lh_tensor *state[LH_NODE_STATES_MAX];
	struct lh_tensor *saved[LH_NODE_SAVED_MAX];
	struct lh_tensor *out;
	/* Whether the backward adds to in[i]->grad (another consumer has written it) or writes it.
	 */
	bool adds[LH_NODE_INPUTS_MAX];
	size_t workspace_bytes; /* asked for by prepare */
	void *workspace;	/* shared by all nodes: holds nothing from call to call */
	void *plan;		/* the kernel's own, from prepare */
};

struct lh_pass;
struct lh_device;
struct lh_update_ops;

/*
 * A layer on a device.
 * forward reads in[]->data and writes out->data and saved[]->data.
 * backward reads out->grad, and writes or adds to (adds[i]) in[i]->grad where that is not NULL, and
 * adds to parameter[i]->grad where that is not NULL. out->grad may be the same memory as
 * in[i]->grad where the layer's kind allows it (trainer/layers/layers.c).
 */
struct lh_kernel {
	int (*prepare)(struct lh_device *device, struct lh_graph_node *node,
		       struct lh_error *err); /* may be NULL */
	int (*forward)(struct lh_device *device, const struct lh_graph_node *node,
		       const struct lh_pass *pass, struct lh_error *err);
	int (*backward)(struct lh_device *device, const struct lh_graph_node *node,
			const struct lh_pass *pass, struct lh_error *err);
	void (*done)(struct lh_graph_node *node); /* frees plan; may be NULL */
};

struct lh_device_options {
	uint32_t n_threads;    /* 0: as many as there are processors */
	enum lh_dtype compute; /* of activations; devices refuse what they lack */
	bool is_portable; /* only instructions of x86-64-v3, so that other machines give the same
			     bits */
};

struct lh_device_ops {
	const char *name;
	const char *doc; /* one line */
	int (*open)(const struct lh_device_options *options, struct lh_device **ret_device,
		    struct lh_error *err);
	void (*close)(struct lh_device *device);
	/* Memory: aligned to 64 bytes, zeroed. LH_EENV with the size where there is too little. */
	int (*alloc)(struct lh_device *device, size_t bytes, void **ret_memory,
		     struct lh_error *err);
	void (*free)(struct lh_device *device, void *memory);
	int (*zero)(struct lh_device *device, void *memory, size_t bytes, struct lh_error *err);
	/* Copies n elements between host (float, double where compute is LH_F64, or int32) and
	 * device. */
	int (*write)(struct lh_device *device, void *memory, enum lh_dtype dtype, const void *host,
		     int64_t n, struct lh_error *err);
	int (*read)(struct lh_device *device, const void *memory, enum lh_dtype dtype,
		    void *ret_host, int64_t n, struct lh_error *err);
	/* ret_cast[i] = data[i] rounded to the compute type, n numbers of the master type; NULL
	 * where the two are one. */
	int (*cast)(struct lh_device *device, void *ret_cast, const void *data, int64_t n,
		    struct lh_error *err);
	/* Tells profilers that a part of a step begins; name NULL: that it ends. May be NULL. */
	void (*phase)(struct lh_device *device, const char *name);
	/* Waits until all that was asked for is done. */
	int (*synchronize)(struct lh_device *device, struct lh_error *err);
	const struct lh_kernel *(*kernel)(enum lh_layer layer); /* NULL: the device lacks it */
	const struct lh_update_ops *update; /* of flat vectors (trainer/device/update.h) */
};

struct lh_device {
	const struct lh_device_ops *ops;
	enum lh_dtype compute; /* of activations and their gradients */
	enum lh_dtype master;  /* of parameters, their gradients and what layers save */
	uint32_t n_threads;
	/* What results depend on, for records of runs and profiles; empty: on nothing. */
	char processor[64]; /* the name of the processor or GPU */
	char software[96];  /* libraries with versions, instruction sets, drivers */
};

extern const struct lh_device_ops lh_device_cpu;
extern const struct lh_device_ops lh_device_reference32;
extern const struct lh_device_ops lh_device_reference64;
extern const struct lh_device_ops lh_device_cuda; /* where built with CUDA */

/* All devices of this build, the default first, NULL at the end. */
extern const struct lh_device_ops *const lh_devices[];

/* The device of that name, or NULL. */
const struct lh_device_ops *lh_device_find(const char *name);

/* Opens the device of that name. LH_EUSAGE: there is none of that name, and which there are;
 * LH_EENV: this build lacks it, and what to install; and what its open returns. */
int lh_device_open(const char *name, const struct lh_device_options *options,
		   struct lh_device **ret_device, struct lh_error *err);

/* Begins (name) or ends (NULL) a part of a step for profilers. */
static inline void lh_device_phase(struct lh_device *device, const char *name)
{
	if (device->ops->phase)
		device->ops->phase(device, name);
}

#endif
