/* SPDX-License-Identifier: Apache-2.0 */
/* What all optimizers share. See optimizer.h. */
#include "trainer/optim/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/optim/optimizer_internal.h"

/* Keeps the clipping factor finite where the norm is 0; PyTorch's number. */
static const double CLIP_EPS = 1e-6;

struct lh_optimizer {
	struct lh_graph *graph;
	struct lh_device *device;
	const struct lh_optimizer_kind *kind;
	struct lh_optimizer_options options;
	uint32_t n_states;
	void *states[LH_UPDATE_STATES_MAX]; /* on the device */
	uint64_t steps;
	uint32_t n_segments;
	struct lh_segment *segments;
	double *sums; /* by segment */
	void *plan;   /* the device's */
};

const struct lh_optimizer_kind *const lh_optimizers[] = {
	&lh_optimizer_sgd, &lh_optimizer_adamw, &lh_optimizer_lamb, &lh_optimizer_lars, NULL,
};

/* ---- options -------------------------------------------------------------------------------- */

const struct lh_optimizer_kind *lh_optimizer_find(const char *kind)
{
	for (size_t i = 0; lh_optimizers[i]; i++)
		if (strcmp(lh_optimizers[i]->name, kind) == 0)
			return lh_optimizers[i];
	return NULL;
}

static int fail_unknown(const char *kind, struct lh_error *err)
{
	char names[256] = "";
	size_t at = 0;

	for (size_t i = 0; lh_optimizers[i] && at < sizeof(names); i++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? ", " : "",
				       lh_optimizers[i]->name);
	return lh_fail(err, LH_EINPUT, 0, "no optimizer is called %s; expected one of %s",
		       kind ? kind : "(nothing)", names);
}

int lh_optimizer_options_init(const char *kind, struct lh_optimizer_options *ret_options,
			      struct lh_error *err)
{
	const struct lh_optimizer_kind *found = kind ? lh_optimizer_find(kind) : NULL;

	if (!found)
		return fail_unknown(kind, err);
	*ret_options = found->defaults;
	return 0;
}

int lh_optimizer_check_range(const char *optimizer, const char *name, double value, double min,
			     double below, struct lh_error *err)
{
	if (value >= min && value < below)
		return 0;
	return lh_fail(err, LH_EINPUT, 0,
		       "optimizer %s: %s is %g; expected at least %g and less than %g", optimizer,
		       name, value, min, below);
}

int lh_optimizer_check_positive(const char *optimizer, const char *name, double value,
				struct lh_error *err)
{
	if (value > 0 && isfinite(value))
		return 0;
	return lh_fail(err, LH_EINPUT, 0, "optimizer %s: %s is %g; expected more than 0", optimizer,
		       name, value);
}

int lh_optimizer_options_check(const struct lh_optimizer_options *options, struct lh_error *err)
{
	const struct lh_optimizer_kind *kind =
		options->kind ? lh_optimizer_find(options->kind) : NULL;
	int rc;

	if (!kind)
		return fail_unknown(options->kind, err);
	rc = lh_optimizer_check_positive(kind->name, "lr", options->lr, err);
	if (rc == 0)
		rc = lh_optimizer_check_range(kind->name, "weight_decay", options->weight_decay, 0,
					      INFINITY, err);
	if (rc == 0)
		rc = lh_optimizer_check_range(kind->name, "clip_norm", options->clip_norm, 0,
					      INFINITY, err);
	return rc ? rc : kind->check(options, err);
}

/* ---- making --------------------------------------------------------------------------------- */

static int compare_segments(const void *a, const void *b)
{
	const struct lh_segment *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static int find_segments(struct lh_optimizer *o, struct lh_error *err)
{
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(o->graph, &n);

	o->segments = calloc(n + !n, sizeof(*o->segments));
	o->sums = calloc(n + !n, sizeof(*o->sums));
	if (!o->segments || !o->sums)
		return lh_fail(err, LH_ESYS, 0, "no memory for an optimizer");
	for (uint32_t i = 0; i < n; i++) {
		const struct lh_tensor *tensor = tensors[i];

		if (tensor->role != LH_PARAMETER || tensor->view_of)
			continue;
		o->segments[o->n_segments++] = (struct lh_segment){
			.at = tensor->at,
			.n = tensor->n,
			.has_decay = tensor->has_decay || o->options.decays_all,
			.is_adapted = tensor->n_dims > 1 || o->options.adapts_all,
		};
	}
	qsort(o->segments, o->n_segments, sizeof(*o->segments), compare_segments);
	return 0;
}

static int give_memory(struct lh_optimizer *o, struct lh_error *err)
{
	uint64_t bytes = lh_optimizer_state_bytes(o);
	int rc;

	for (uint32_t i = 0; i < o->n_states; i++) {
		rc = o->device->ops->alloc(o->device, bytes / o->n_states, &o->states[i], err);
		if (rc)
			return lh_error_prefix(err, "state of optimizer %s", o->kind->name);
	}
	return o->device->ops->update->prepare(o->device, o->segments, o->n_segments, &o->plan,
					       err);
}

static int check_graph(const struct lh_graph *graph, const struct lh_optimizer_kind *kind,
		       struct lh_error *err)
{
	const struct lh_device_ops *ops = lh_graph_device(graph)->ops;

	if (!lh_graph_parameters(graph))
		return lh_fail(err, LH_EINPUT, 0,
			       "optimizer %s: the graph has no parameters in memory; expected a "
			       "finished one",
			       kind->name);
	if (!ops->update || !ops->update->step[kind->rule])
		return lh_fail(err, LH_EINPUT, 0, "device %s has no optimizer %s", ops->name,
			       kind->name);
	return 0;
}

int lh_optimizer_new(struct lh_graph *graph, const struct lh_optimizer_options *options,
		     struct lh_optimizer **ret_optimizer, struct lh_error *err)
{
	struct lh_optimizer *o;
	int rc = lh_optimizer_options_check(options, err);

	if (rc == 0)
		rc = check_graph(graph, lh_optimizer_find(options->kind), err);
	if (rc)
		return rc;
	o = calloc(1, sizeof(*o));
	if (!o)
		return lh_fail(err, LH_ESYS, 0, "no memory for an optimizer");
	o->graph = graph;
	o->device = lh_graph_device(graph);
	o->kind = lh_optimizer_find(options->kind);
	o->options = *options;
	o->options.kind = o->kind->name;
	o->n_states = o->kind->count_states ? o->kind->count_states(options) : o->kind->n_states;
	rc = find_segments(o, err);
	if (rc == 0)
		rc = give_memory(o, err);
	if (rc) {
		lh_optimizer_free(o);
		return rc;
	}
	*ret_optimizer = o;
	return 0;
}

void lh_optimizer_free(struct lh_optimizer *optimizer)
{
	if (!optimizer)
		return;
	if (optimizer->plan)
		optimizer->device->ops->update->done(optimizer->device, optimizer->plan);
	for (uint32_t i = 0; i < LH_UPDATE_STATES_MAX; i++)
		optimizer->device->ops->free(optimizer->device, optimizer->states[i]);
	free(optimizer->segments);
	free(optimizer->sums);
	free(optimizer);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int measure_norm(struct lh_optimizer *o, const void *gradients, double *ret_norm,
			struct lh_error *err)
{
	double sum = 0;
	int rc = o->device->ops->update->sum_squares(o->device, o->plan, gradients, o->sums, err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < o->n_segments; i++)
		sum += o->sums[i];
	*ret_norm = sqrt(sum);
	return 0;
}

/* What clipping multiplies gradients of that norm with. */
static double clip_factor(const struct lh_optimizer *o, double norm)
{
	double factor = o->options.clip_norm / (norm + CLIP_EPS);

	return o->options.clip_norm > 0 && factor < 1 ? factor : 1;
}

/* The step itself, once the norm is known to be finite. */
static int apply(struct lh_optimizer *optimizer, struct lh_update *update, double divisor,
		 double *ret_grad_norm, struct lh_error *err)
{
	double norm;
	int rc = measure_norm(optimizer, update->gradients, &norm, err);

	if (rc)
		return rc;
	norm /= divisor;
	*ret_grad_norm = norm;
	if (!isfinite(norm))
		return 0;
	update->gradient_scale = clip_factor(optimizer, norm) / divisor;
	rc = optimizer->device->ops->update->step[optimizer->kind->rule](
		optimizer->device, optimizer->plan, update, err);
	if (rc == 0)
		optimizer->steps++;
	return rc;
}

int lh_optimizer_step_with(struct lh_optimizer *optimizer, const void *gradients, double lr,
			   double divisor, double *ret_grad_norm, struct lh_error *err)
{
	const struct lh_optimizer_options *options = &optimizer->options;
	struct lh_update update = {
		.parameters = lh_graph_parameters(optimizer->graph),
		.gradients = gradients,
		.states = {optimizer->states[0], optimizer->states[1]},
		.lr = lr,
		.momentum = options->momentum,
		.beta1 = options->beta1,
		.beta2 = options->beta2,
		.eps = options->eps,
		.weight_decay = options->weight_decay,
		.trust = options->trust,
		.nesterov = options->nesterov,
		.t = optimizer->steps + 1,
	};
	int rc;

	if (!(lr >= 0) || !isfinite(lr) || !(divisor > 0) || !isfinite(divisor))
		return lh_fail(err, LH_EINPUT, 0,
			       "a step with the learning rate %g and the divisor %g; expected "
			       "finite numbers, at least 0 and more than 0",
			       lr, divisor);
	lh_device_phase(optimizer->device, "update");
	rc = apply(optimizer, &update, divisor, ret_grad_norm, err);
	lh_device_phase(optimizer->device, NULL);
	return rc;
}

int lh_optimizer_step(struct lh_optimizer *optimizer, double lr, double divisor,
		      double *ret_grad_norm, struct lh_error *err)
{
	const void *gradients = lh_graph_gradients(optimizer->graph);

	if (!gradients)
		return lh_fail(err, LH_EINPUT, 0, "a graph without a loss has no gradients");
	return lh_optimizer_step_with(optimizer, gradients, lr, divisor, ret_grad_norm, err);
}

/* ---- access --------------------------------------------------------------------------------- */

const struct lh_optimizer_kind *lh_optimizer_kind(const struct lh_optimizer *optimizer)
{
	return optimizer->kind;
}

const struct lh_optimizer_options *lh_optimizer_options(const struct lh_optimizer *optimizer)
{
	return &optimizer->options;
}

uint64_t lh_optimizer_steps(const struct lh_optimizer *optimizer)
{
	return optimizer->steps;
}

void lh_optimizer_set_steps(struct lh_optimizer *optimizer, uint64_t steps)
{
	optimizer->steps = steps;
}

uint32_t lh_optimizer_n_states(const struct lh_optimizer *optimizer)
{
	return optimizer->n_states;
}

void *lh_optimizer_state(const struct lh_optimizer *optimizer, uint32_t i)
{
	return optimizer->states[i];
}

uint64_t lh_optimizer_state_bytes(const struct lh_optimizer *optimizer)
{
	return (uint64_t)lh_graph_n_parameters(optimizer->graph) * optimizer->n_states *
	       lh_dtype_bytes(optimizer->device->master);
}
