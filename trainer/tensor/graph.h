/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A static graph of layers: built once, given its memory once, then run forward and
 * backward any number of times without allocating.
 *
 * The builders of trainer/layers/layers.h add nodes. A mistake made while building (shapes that
 * do not fit, no memory) is kept, builders return NULL from then on and take NULL, and
 * lh_graph_finish tells it: models need not check every call.
 *
 * All parameters lie in one flat vector, their gradients in another of the same order. A
 * parameter's gradient is added to, until lh_graph_zero_gradients; other gradients live only
 * as long as the backward pass needs them.
 */
#ifndef LH_TRAINER_GRAPH_H
#define LH_TRAINER_GRAPH_H

#include "core/error.h"
#include "trainer/device/device.h"
#include "trainer/tensor/tensor.h"

struct lh_graph;

/* One forward or backward pass. */
struct lh_pass {
	bool is_training; /* batch statistics, dropout */
	uint64_t seed;	  /* of dropout */
	uint64_t step;	  /* of dropout: another mask each */
};

/* Bytes on the device. */
struct lh_graph_memory {
	uint64_t parameters_bytes;
	uint64_t casts_bytes;	  /* parameters again, in the compute type */
	uint64_t gradients_bytes; /* of parameters */
	uint64_t state_bytes;
	uint64_t inputs_bytes;	    /* and constants */
	uint64_t activations_bytes; /* alive at once at the peak: activations, what layers save, and
				       the gradients of activations */
	uint64_t workspace_bytes;   /* what layers need within one call */
	uint64_t arena_bytes;	    /* what holds the activations: more where they do not pack */
};

/* An empty graph for device, which must outlive it. LH_ESYS. */
int lh_graph_new(struct lh_device *device, struct lh_graph **ret_graph, struct lh_error *err);

void lh_graph_free(struct lh_graph *graph);

/* Names: those of parameters are the layer's after those of the scopes that it stands in,
 * joined by dots. */
void lh_graph_enter(struct lh_graph *graph, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void lh_graph_leave(struct lh_graph *graph);

/* An input: floats (of the device's compute type) or int32. The first dimension is the batch. */
struct lh_tensor *lh_graph_input(struct lh_graph *graph, const char *name, enum lh_dtype dtype,
				 uint32_t n_dims, const int64_t *dims);

/* int32 numbers that never change; values is copied. */
struct lh_tensor *lh_graph_constant(struct lh_graph *graph, const char *name, uint32_t n_dims,
				    const int64_t *dims, const int32_t *values);

/* Has the backward pass compute the gradient of an input, too, and keep it. */
void lh_graph_want_gradient(struct lh_tensor *input);

/* Keeps tensor's data until the next pass, so that it can be read. */
void lh_graph_keep(struct lh_tensor *tensor);

/*
 * Ends building: plans memory for forward and backward of loss and allocates it on the
 * device. loss must be a scalar; NULL: the last node's output, and no backward.
 * is_dry: only checks and counts; nothing is allocated, and the graph cannot run.
 * The first mistake made while building, LH_EINPUT; LH_ESYS; LH_EENV where the device's memory is
 * too small.
 */
int lh_graph_finish(struct lh_graph *graph, struct lh_tensor *loss, bool is_dry,
		    struct lh_error *err);

/* Draws all parameters and state anew, each from its own stream "init/<name>" of seed. */
int lh_graph_init_parameters(struct lh_graph *graph, uint64_t seed, struct lh_error *err);

int lh_graph_forward(struct lh_graph *graph, const struct lh_pass *pass, struct lh_error *err);

/* After a forward pass: adds loss_scale times the loss's derivative to the parameters' gradients.
 */
int lh_graph_backward(struct lh_graph *graph, const struct lh_pass *pass, double loss_scale,
		      struct lh_error *err);

int lh_graph_zero_gradients(struct lh_graph *graph, struct lh_error *err);

/* Copies between host and device. Floats on the host are float (double for a device that
 * computes in double), int32 as they are; which: the data or the gradient. */
enum lh_part { LH_DATA, LH_GRAD };
int lh_tensor_write(struct lh_graph *graph, struct lh_tensor *tensor, const void *host,
		    struct lh_error *err);
int lh_tensor_read(struct lh_graph *graph, const struct lh_tensor *tensor, enum lh_part part,
		   void *ret_host, struct lh_error *err);

/* The flat vectors, on the device, of lh_device.master type; a tensor begins at element
 * lh_tensor.at. They hold nothing else: n_parameters is the model's count. Tensors of a multiple of
 * 16 elements come first, so that they are aligned, then the others. */
void *lh_graph_parameters(const struct lh_graph *graph);
void *lh_graph_gradients(const struct lh_graph *graph);
void *lh_graph_state(const struct lh_graph *graph);
int64_t lh_graph_n_parameters(const struct lh_graph *graph);
int64_t lh_graph_n_state(const struct lh_graph *graph);

/* All tensors in order of creation; *ret_n of them; owned by the graph. */
struct lh_tensor *const *lh_graph_tensors(const struct lh_graph *graph, uint32_t *ret_n);

struct lh_graph_node *const *lh_graph_nodes(const struct lh_graph *graph, uint32_t *ret_n);

/* The input, parameter or state of that name, or NULL. */
struct lh_tensor *lh_graph_find(const struct lh_graph *graph, const char *name);

struct lh_device *lh_graph_device(const struct lh_graph *graph);

void lh_graph_count_memory(const struct lh_graph *graph, struct lh_graph_memory *ret_memory);

/* ---- for the builders of layers ------------------------------------------------------------ */

/* Keeps the first mistake; returns NULL, so that a builder can return it. */
void *lh_graph_fail(struct lh_graph *graph, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Whether a mistake has been made. */
bool lh_graph_has_failed(const struct lh_graph *graph);

/* A node of kind with a copy of spec (spec_size bytes), to which the functions below add;
 * name is its layer's, within the scopes. NULL after a mistake. */
struct lh_graph_node *lh_node_new(struct lh_graph *graph, enum lh_layer layer, const char *name,
				  const void *spec, size_t spec_size);

void lh_node_add_input(struct lh_graph *graph, struct lh_graph_node *node, struct lh_tensor *x);

/* A new parameter called <node>.<name>, or an old one to be shared. */
struct lh_tensor *lh_node_add_parameter(struct lh_graph *graph, struct lh_graph_node *node,
					const char *name, uint32_t n_dims, const int64_t *dims,
					struct lh_init init, bool has_decay);
void lh_node_share_parameter(struct lh_graph *graph, struct lh_graph_node *node,
			     struct lh_tensor *parameter);

struct lh_tensor *lh_node_add_state(struct lh_graph *graph, struct lh_graph_node *node,
				    const char *name, int64_t n, struct lh_init init);

/* n floats of the master type (LH_F32 or LH_F64) that the forward keeps for the backward. */
void lh_node_add_saved(struct lh_graph *graph, struct lh_graph_node *node, int64_t n);

/* The node's output; the node is complete then. */
struct lh_tensor *lh_node_set_output(struct lh_graph *graph, struct lh_graph_node *node,
				     uint32_t n_dims, const int64_t *dims);

#endif
