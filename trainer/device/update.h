/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device does with the flat vectors of parameters, gradients and optimizer state:
 * sums of squares, scaling, adding, and the steps of the optimizers, in place. Vectors lie on the
 * device and are of its master type; the segments of a vector are its tensors, each with norms of
 * its own.
 *
 * Which hyper-parameters mean what, and who calls this: trainer/optim/optimizer.h.
 */
#ifndef LH_TRAINER_UPDATE_H
#define LH_TRAINER_UPDATE_H

#include "trainer/device/device.h"

/* One tensor within a flat vector. */
struct lh_segment {
	int64_t at;	 /* its first element */
	int64_t n;	 /* elements, 1 or more */
	bool has_decay;	 /* weight decay applies to it */
	bool is_adapted; /* LAMB, LARS: the trust ratio applies to it, else 1 */
};

/* The formulas of steps, w: parameter, g: gradient_scale times the gradient, norms over a segment,
 * wd: weight_decay where the segment has decay, else 0. */
enum lh_rule {
	/* g += wd w; v = momentum v + g; w -= lr (nesterov ? g + momentum v : v).
	 * states: v, or NULL where momentum is 0. Source: PyTorch's torch.optim.SGD */
	LH_RULE_SGD,
	/* w *= 1 - lr wd; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
	 * w -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
	 * states: m, v. Source: arXiv 1711.05101, PyTorch's torch.optim.AdamW */
	LH_RULE_ADAMW,
	/* m, v as above; u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + wd w;
	 * w -= lr ||w|| / ||u|| u, the ratio 1 where a norm is 0.
	 * states: m, v. Source: arXiv 1904.00962, algorithm 2 with phi(x) = x */
	LH_RULE_LAMB,
	/* ratio = trust ||w|| / (||g|| + wd ||w||), 1 where ||w|| or ||g|| is 0;
	 * v = momentum v + lr ratio (g + wd w); w -= v.
	 * states: v. Source: arXiv 1708.03888, algorithm 1 */
	LH_RULE_LARS,
	LH_N_RULES,
};

enum { LH_UPDATE_STATES_MAX = 2 };

/* One step of an optimizer. Vectors do not overlap. */
struct lh_update {
	void *parameters;
	const void *gradients; /* finite */
	void *states[LH_UPDATE_STATES_MAX];
	double gradient_scale;
	double lr;
	double momentum;
	double beta1, beta2, eps;
	double weight_decay;
	double trust;
	bool nesterov;
	uint64_t t; /* number of the step, from 1 */
};

/* Steps allocate nothing. Results do not depend on the number of threads. */
struct lh_update_ops {
	/* What the device needs for a vector of these segments (copied): *ret_plan is the
	 * device's own, until done. LH_ESYS, LH_EENV. */
	int (*prepare)(struct lh_device *device, const struct lh_segment *segments,
		       uint32_t n_segments, void **ret_plan, struct lh_error *err);
	void (*done)(struct lh_device *device, void *plan);
	/* ret_sums[i], on the host: the sum of the squares of segment i of x, added in double; not
	 * finite where an element is not. Waits for what was asked for before. */
	int (*sum_squares)(struct lh_device *device, void *plan, const void *x, double *ret_sums,
			   struct lh_error *err);
	/* By enum lh_rule; NULL: the device lacks it. */
	int (*step[LH_N_RULES])(struct lh_device *device, void *plan,
				const struct lh_update *update, struct lh_error *err);
	/* x *= factor, n elements */
	int (*scale)(struct lh_device *device, double factor, void *x, int64_t n,
		     struct lh_error *err);
	/* y += factor x, n elements */
	int (*axpy)(struct lh_device *device, double factor, const void *x, void *y, int64_t n,
		    struct lh_error *err);
};

extern const struct lh_update_ops lh_update_reference32;
extern const struct lh_update_ops lh_update_reference64;

/* Of a CPU in single precision, device->n_threads threads. */
extern const struct lh_update_ops lh_update_cpu;

/* Of a GPU, where built with CUDA. */
extern const struct lh_update_ops lh_update_cuda;

#endif
