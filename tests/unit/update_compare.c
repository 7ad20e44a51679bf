/* SPDX-License-Identifier: Apache-2.0 */
/* See update_compare.h. */
#include "tests/unit/update_compare.h"

#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

enum { STEPS = 4 };

/* Of several chunks of a GPU's, at their borders, odd, and tiny. */
static const struct lh_segment segments[] = {
	{.at = 0, .n = 16400, .has_decay = true, .is_adapted = true},
	{.at = 16400, .n = 8192, .has_decay = true, .is_adapted = true},
	{.at = 24592, .n = 16},
	{.at = 24608, .n = 8193, .has_decay = true, .is_adapted = true},
	{.at = 32801, .n = 1, .has_decay = true},
	{.at = 32802, .n = 263, .is_adapted = true},
	{.at = 33065, .n = 7, .has_decay = true, .is_adapted = true}, /* zero at first */
};
enum { N = 33072, ZEROS_AT = 33065 };

struct form {
	const char *name;
	enum lh_rule rule;
	struct lh_update update;
	uint32_t n_states;
};

/* clang-format off */
static const struct form forms[] = {
	{"sgd", LH_RULE_SGD, {.lr = 0.1, .weight_decay = 0.01}, 0},
	{"momentum", LH_RULE_SGD, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, 1},
	{"nesterov", LH_RULE_SGD,
	 {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, 1},
	{"adamw", LH_RULE_ADAMW,
	 {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1}, 2},
	{"lamb", LH_RULE_LAMB,
	 {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .weight_decay = 0.1}, 2},
	{"lars", LH_RULE_LARS, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .trust = 0.2}, 1},
};
/* clang-format on */

/* Vectors on a device. */
struct run {
	struct lh_device *device;
	void *plan;
	void *w, *g, *states[LH_UPDATE_STATES_MAX];
};

static void must(int rc, const struct lh_error *err)
{
	if (rc)
		fail_msg("%s", err->message);
}

static void run_open(struct run *run, const struct lh_device_ops *ops, enum lh_dtype compute)
{
	struct lh_device_options options = {.n_threads = 1, .compute = compute};
	void **const vectors[] = {&run->w, &run->g, &run->states[0], &run->states[1]};
	struct lh_error err = {0};
	size_t bytes;

	*run = (struct run){0};
	must(ops->open(&options, &run->device, &err), &err);
	bytes = N * lh_dtype_bytes(run->device->master);
	for (size_t i = 0; i < N_ELEMENTS(vectors); i++)
		must(ops->alloc(run->device, bytes, vectors[i], &err), &err);
	must(ops->update->prepare(run->device, segments, N_ELEMENTS(segments), &run->plan, &err),
	     &err);
}

static void run_close(struct run *run)
{
	const struct lh_device_ops *ops = run->device->ops;

	ops->update->done(run->device, run->plan);
	ops->free(run->device, run->w);
	ops->free(run->device, run->g);
	ops->free(run->device, run->states[0]);
	ops->free(run->device, run->states[1]);
	ops->close(run->device);
}

static void write_vector(struct run *run, void *to, const double *values)
{
	bool is_double = run->device->master == LH_F64;
	float *narrow = calloc(N, sizeof(*narrow));
	struct lh_error err = {0};

	assert_non_null(narrow);
	for (int64_t i = 0; i < N; i++)
		narrow[i] = (float)values[i];
	must(run->device->ops->write(run->device, to, run->device->master,
				     is_double ? (const void *)values : (const void *)narrow, N,
				     &err),
	     &err);
	free(narrow);
}

static void read_vector(struct run *run, const void *from, double *ret_values)
{
	struct lh_error err = {0};

	must(run->device->ops->read(run->device, from, run->device->master, ret_values, N, &err),
	     &err);
	for (int64_t i = run->device->master == LH_F64 ? 0 : N; i-- > 0;)
		ret_values[i] = (double)((const float *)ret_values)[i];
}

/* Numbers that float holds; the last tensor's are zero. */
static void draw(const char *name, int step, double *ret_values)
{
	struct lh_rng rng;

	lh_rng_init(&rng, (uint64_t)step, name);
	for (int64_t i = 0; i < N; i++)
		ret_values[i] = i < ZEROS_AT || step > 1 ? (float)(0.1 * lh_rng_normal(&rng)) : 0;
}

static void run_steps(struct run *run, const struct form *form)
{
	double *values = calloc(N, sizeof(*values));
	struct lh_error err = {0};

	assert_non_null(values);
	draw("w", 0, values);
	write_vector(run, run->w, values);
	for (int t = 1; t <= STEPS; t++) {
		struct lh_update update = form->update;

		update.parameters = run->w;
		update.gradients = run->g;
		for (uint32_t k = 0; k < form->n_states; k++)
			update.states[k] = run->states[k];
		update.gradient_scale = 0.25;
		update.t = (uint64_t)t;
		draw("g", t, values);
		write_vector(run, run->g, values);
		must(run->device->ops->update->step[form->rule](run->device, run->plan, &update,
								&err),
		     &err);
	}
	free(values);
}

static void compare_vectors(const char *what, struct run *a, const void *x, struct run *b,
			    const void *y, double tolerance)
{
	double *left = calloc(N, sizeof(*left)), *right = calloc(N, sizeof(*right));

	assert_true(left && right);
	read_vector(a, x, left);
	read_vector(b, y, right);
	for (size_t k = 0; k < N_ELEMENTS(segments); k++) {
		double difference = 0, norm = 0;

		for (int64_t i = segments[k].at; i < segments[k].at + segments[k].n; i++) {
			difference += (left[i] - right[i]) * (left[i] - right[i]);
			norm += right[i] * right[i];
		}
		if (!(sqrt(difference) <= tolerance * sqrt(norm)))
			fail_msg("%s, tensor %zu: distance %.3g of %.3g", what, k, sqrt(difference),
				 sqrt(norm));
	}
	free(left);
	free(right);
}

static void compare_sums(struct run *a, struct run *b)
{
	double left[N_ELEMENTS(segments)], right[N_ELEMENTS(segments)];
	double *values = calloc(N, sizeof(*values));
	struct lh_error err = {0};

	assert_non_null(values);
	must(a->device->ops->update->sum_squares(a->device, a->plan, a->g, left, &err), &err);
	must(b->device->ops->update->sum_squares(b->device, b->plan, b->g, right, &err), &err);
	for (size_t k = 0; k < N_ELEMENTS(segments); k++)
		assert_near(left[k], right[k], 1e-12 * right[k]);
	values[segments[3].at + 5] = NAN;
	write_vector(a, a->g, values);
	must(a->device->ops->update->sum_squares(a->device, a->plan, a->g, left, &err), &err);
	for (size_t k = 0; k < N_ELEMENTS(segments); k++)
		assert_true(k == 3 ? isnan(left[k]) : left[k] == 0);
	free(values);
}

/* From an element on that is not aligned. */
static void scale_and_add(struct run *run)
{
	const struct lh_update_ops *ops = run->device->ops->update;
	size_t width = lh_dtype_bytes(run->device->master);
	struct lh_error err = {0};

	must(ops->scale(run->device, 0.3, (char *)run->w + width, N - 3, &err), &err);
	must(ops->axpy(run->device, -0.7, run->w, (char *)run->g + width, N - 3, &err), &err);
}

void lh_update_compare(const struct lh_device_ops *ops, enum lh_dtype compute, double tolerance)
{
	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		struct run device, reference;

		run_open(&device, ops, compute);
		run_open(&reference, &lh_device_reference64, LH_F64);
		run_steps(&device, &forms[f]);
		run_steps(&reference, &forms[f]);
		compare_vectors(forms[f].name, &device, device.w, &reference, reference.w,
				tolerance);
		scale_and_add(&device);
		scale_and_add(&reference);
		compare_vectors("scale", &device, device.w, &reference, reference.w, tolerance);
		compare_vectors("axpy", &device, device.g, &reference, reference.g, tolerance);
		/* The numbers that the sums are of must be the same to the last bit. */
		run_steps(&device, &forms[0]);
		run_steps(&reference, &forms[0]);
		compare_sums(&device, &reference);
		run_close(&device);
		run_close(&reference);
	}
}
