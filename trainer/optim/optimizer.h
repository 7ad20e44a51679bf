/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers: steps on a graph's flat vector of parameters, on the graph's device, with the
 * gradients divided and clipped on the way. Formulas: trainer/device/update.h.
 *
 * Gradients of parameters add up over backward passes (graph.h), so accumulation over k passes is
 * k backward passes and one step with a divisor of k; zeroing them is the caller's.
 */
#ifndef LH_TRAINER_OPTIMIZER_H
#define LH_TRAINER_OPTIMIZER_H

#include "trainer/device/update.h"
#include "trainer/tensor/graph.h"

/* Hyper-parameters; an optimizer ignores those that its formula lacks. */
struct lh_optimizer_options {
	const char *kind;    /* a name of lh_optimizers[] */
	double lr;	     /* highest learning rate, > 0; what a step uses is given to it */
	double momentum;     /* [0, 1) */
	double beta1, beta2; /* [0, 1) */
	double eps;	     /* > 0 */
	double weight_decay; /* >= 0 */
	double trust;	     /* LARS: trust coefficient, > 0 */
	double clip_norm;    /* > 0: gradients are scaled by min(1, clip_norm / (norm + 1e-6)), norm
				over all of them; 0: they are not */
	bool nesterov;	     /* SGD; wants momentum > 0 */
	bool decays_all;     /* weight decay also of tensors of one dimension */
	bool adapts_all;     /* LAMB, LARS: trust ratio also of tensors of one dimension */
};

/* A kind of optimizer. */
struct lh_optimizer_kind {
	const char *name;
	const char *doc; /* one line */
	enum lh_rule rule;
	struct lh_optimizer_options defaults;
	uint32_t n_states;		/* vectors as long as the parameters */
	const char *const *state_names; /* of these, as in checkpoints */
	/* How many it needs with these options; NULL: n_states. */
	uint32_t (*count_states)(const struct lh_optimizer_options *options);
	int (*check)(const struct lh_optimizer_options *options, struct lh_error *err);
};

extern const struct lh_optimizer_kind *const lh_optimizers[]; /* NULL at the end */

/* The optimizer of that name, or NULL. */
const struct lh_optimizer_kind *lh_optimizer_find(const char *kind);

/* The defaults of a kind. LH_EINPUT naming those that exist. */
int lh_optimizer_options_init(const char *kind, struct lh_optimizer_options *ret_options,
			      struct lh_error *err);

/* LH_EINPUT with the hyper-parameter that is out of range and what it may be. */
int lh_optimizer_options_check(const struct lh_optimizer_options *options, struct lh_error *err);

struct lh_optimizer;

/* An optimizer of a finished graph, which must outlive it; its state is zero. LH_EINPUT (options,
 * or the device lacks the optimizer), LH_EENV (memory), LH_ESYS. */
int lh_optimizer_new(struct lh_graph *graph, const struct lh_optimizer_options *options,
		     struct lh_optimizer **ret_optimizer, struct lh_error *err);

void lh_optimizer_free(struct lh_optimizer *optimizer);

/*
 * One step with the learning rate lr and the graph's gradients divided by divisor (the number of
 * accumulated passes, times the loss scale where there is one). *ret_grad_norm: the norm of all
 * divided gradients, before clipping. Where it is not finite nothing is changed and the step does
 * not count: the caller decides what that means. Allocates nothing.
 * LH_EINPUT: lr or divisor is not a positive number (lr may be 0); errors of the device.
 */
int lh_optimizer_step(struct lh_optimizer *optimizer, double lr, double divisor,
		      double *ret_grad_norm, struct lh_error *err);

/* The same with other gradients, laid out as the graph's, on its device. */
int lh_optimizer_step_with(struct lh_optimizer *optimizer, const void *gradients, double lr,
			   double divisor, double *ret_grad_norm, struct lh_error *err);

const struct lh_optimizer_kind *lh_optimizer_kind(const struct lh_optimizer *optimizer);
const struct lh_optimizer_options *lh_optimizer_options(const struct lh_optimizer *optimizer);

/* Steps done. */
uint64_t lh_optimizer_steps(const struct lh_optimizer *optimizer);
void lh_optimizer_set_steps(struct lh_optimizer *optimizer, uint64_t steps);

/* The state vectors that it has, flat like the parameters, on the device; in the order of
 * kind->state_names. */
uint32_t lh_optimizer_n_states(const struct lh_optimizer *optimizer);
void *lh_optimizer_state(const struct lh_optimizer *optimizer, uint32_t i);

/* Bytes of its state on the device. */
uint64_t lh_optimizer_state_bytes(const struct lh_optimizer *optimizer);

#endif
