/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of optimizers on flat vectors: against formulas written down once more, tensor by tensor
 * in double; single precision against double; the CPU's loops against the reference, whatever the
 * number of threads.
 */
#include "trainer/device/update.h"

#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "tests/unit/test.h"

enum { STEPS = 12, THREADS_MAX = 5 };

/* Of one chunk of the CPU's, of several, at their borders, odd, and tiny. */
static const struct lh_segment segments[] = {
	{.at = 0, .n = 33008, .has_decay = true, .is_adapted = true},
	{.at = 33008, .n = 16384, .has_decay = true, .is_adapted = true},
	{.at = 49392, .n = 16},
	{.at = 49408, .n = 16385, .has_decay = true, .is_adapted = true},
	{.at = 65793, .n = 1, .has_decay = true},
	{.at = 65794, .n = 263, .is_adapted = true},
	{.at = 66057, .n = 5},
	{.at = 66062, .n = 7, .has_decay = true, .is_adapted = true}, /* zero at first */
};
enum { N = 66069, ZEROS_AT = 66062 };

struct form {
	const char *name;
	enum lh_rule rule;
	struct lh_update update;
	uint32_t n_states;
};

/* clang-format off */
static const struct form forms[] = {
	{"sgd", LH_RULE_SGD, {.lr = 0.1, .weight_decay = 0.01}, 0},
	{"sgd without decay", LH_RULE_SGD, {.lr = 0.1}, 0},
	{"momentum", LH_RULE_SGD, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, 1},
	{"nesterov", LH_RULE_SGD,
	 {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, 1},
	{"adamw", LH_RULE_ADAMW,
	 {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1}, 2},
	{"adamw with other betas", LH_RULE_ADAMW,
	 {.lr = 0.01, .beta1 = 0, .beta2 = 0.5, .eps = 1e-3}, 2},
	{"lamb", LH_RULE_LAMB,
	 {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .weight_decay = 0.1}, 2},
	{"lars", LH_RULE_LARS, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .trust = 0.2}, 1},
	{"lars without momentum", LH_RULE_LARS, {.lr = 0.1, .trust = 0.2}, 1},
};
/* clang-format on */

/* ---- the formulas once more ------------------------------------------------------------------ */

struct vectors {
	double w[N], g[N], a[N], b[N]; /* a, b: state */
};

static double norm_of(const double *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = n; i-- > 0;)
		sum += x[i] * x[i];
	return sqrt(sum);
}

static double ratio_or_one(const struct lh_segment *s, double numerator, double a, double b)
{
	return s->is_adapted && a > 0 && b > 0 ? numerator : 1;
}

/* g holds the scaled gradient; changes g. */
static void expect_sgd(const struct lh_update *u, double *w, double *g, double *v, int64_t n,
		       double decay)
{
	for (int64_t i = 0; i < n; i++) {
		g[i] += decay * w[i];
		v[i] = u->t == 1 ? g[i] : u->momentum * v[i] + g[i];
		w[i] -= u->lr * (u->nesterov ? g[i] + u->momentum * v[i] : v[i]);
	}
}

static void expect_adamw(const struct lh_update *u, double *w, const double *g, double *m,
			 double *v, int64_t n, double decay)
{
	double correction1 = 1 - pow(u->beta1, (double)u->t);
	double correction2 = 1 - pow(u->beta2, (double)u->t);

	for (int64_t i = 0; i < n; i++) {
		w[i] *= 1 - u->lr * decay;
		m[i] += (g[i] - m[i]) * (1 - u->beta1);
		v[i] = u->beta2 * v[i] + (1 - u->beta2) * (g[i] * g[i]);
		w[i] -= u->lr / correction1 * m[i] / (sqrt(v[i]) / sqrt(correction2) + u->eps);
	}
}

static void expect_lamb(const struct lh_update *u, const struct lh_segment *s, double *w, double *g,
			double *m, double *v, double decay)
{
	double ratio;

	for (int64_t i = 0; i < s->n; i++) {
		m[i] = u->beta1 * m[i] + (1 - u->beta1) * g[i];
		v[i] = u->beta2 * v[i] + (1 - u->beta2) * (g[i] * g[i]);
		g[i] = m[i] / (1 - pow(u->beta1, (double)u->t)) /
			       (sqrt(v[i] / (1 - pow(u->beta2, (double)u->t))) + u->eps) +
		       decay * w[i];
	}
	ratio = ratio_or_one(s, norm_of(w, s->n) / norm_of(g, s->n), norm_of(w, s->n),
			     norm_of(g, s->n));
	for (int64_t i = 0; i < s->n; i++)
		w[i] -= u->lr * ratio * g[i];
}

static void expect_lars(const struct lh_update *u, const struct lh_segment *s, double *w,
			const double *g, double *v, double decay)
{
	double w_norm = norm_of(w, s->n), g_norm = norm_of(g, s->n);
	double ratio =
		ratio_or_one(s, u->trust * w_norm / (g_norm + decay * w_norm), w_norm, g_norm);

	for (int64_t i = 0; i < s->n; i++) {
		v[i] = u->momentum * v[i] + u->lr * ratio * (g[i] + decay * w[i]);
		w[i] -= v[i];
	}
}

static void expect_step(const struct form *form, const struct lh_update *u, struct vectors *x)
{
	for (int64_t i = 0; i < N; i++)
		x->g[i] *= u->gradient_scale;
	for (size_t k = 0; k < N_ELEMENTS(segments); k++) {
		const struct lh_segment *s = &segments[k];
		double decay = s->has_decay ? u->weight_decay : 0;
		double *w = x->w + s->at, *g = x->g + s->at, *a = x->a + s->at, *b = x->b + s->at;

		switch (form->rule) {
		case LH_RULE_SGD:
			expect_sgd(u, w, g, a, s->n, decay);
			break;
		case LH_RULE_ADAMW:
			expect_adamw(u, w, g, a, b, s->n, decay);
			break;
		case LH_RULE_LAMB:
			expect_lamb(u, s, w, g, a, b, decay);
			break;
		default:
			expect_lars(u, s, w, g, a, decay);
			break;
		}
	}
}

/* ---- running --------------------------------------------------------------------------------- */

/* Parameters, gradients and state of a device that computes on the host. */
struct run {
	const struct lh_update_ops *ops;
	struct lh_device device;
	bool is_double;
	void *plan;
	void *w, *g, *states[LH_UPDATE_STATES_MAX];
};

static void run_open(struct run *run, const struct lh_update_ops *ops, uint32_t n_threads)
{
	struct lh_error err = {0};

	*run = (struct run){.ops = ops,
			    .device = {.n_threads = n_threads},
			    .is_double = ops == &lh_update_reference64};
	run->w = calloc(N, sizeof(double));
	run->g = calloc(N, sizeof(double));
	run->states[0] = calloc(N, sizeof(double));
	run->states[1] = calloc(N, sizeof(double));
	assert_true(run->w && run->g && run->states[0] && run->states[1]);
	assert_int_equal(
		ops->prepare(&run->device, segments, N_ELEMENTS(segments), &run->plan, &err), 0);
}

static void run_close(struct run *run)
{
	run->ops->done(&run->device, run->plan);
	free(run->w);
	free(run->g);
	free(run->states[0]);
	free(run->states[1]);
}

static void put(const struct run *run, void *to, int64_t i, double value)
{
	if (run->is_double)
		((double *)to)[i] = value;
	else
		((float *)to)[i] = (float)value;
}

static double get(const struct run *run, const void *from, int64_t i)
{
	return run->is_double ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* Numbers that float holds, of sizes that differ by tensor. */
static void draw(const char *name, int step, double size, double *ret_values)
{
	struct lh_rng rng;

	lh_rng_init(&rng, (uint64_t)step, name);
	for (int64_t i = 0; i < N; i++)
		ret_values[i] = (float)(size * (1 + (double)(i / 8192)) * lh_rng_normal(&rng));
}

/* The last tensor's gradient begins with zeros, as the tensor itself does; another's is zero once.
 */
static void draw_gradients(int t, double *ret_values)
{
	draw("g", t, 0.2, ret_values);
	if (t < 3)
		memset(ret_values + ZEROS_AT, 0, (N - ZEROS_AT) * sizeof(*ret_values));
	if (t == 2)
		memset(ret_values + segments[1].at, 0, (size_t)segments[1].n * sizeof(*ret_values));
}

static void run_steps(struct run *run, const struct form *form, struct vectors *expected)
{
	static double values[N];
	struct lh_error err = {0};

	memset(expected, 0, sizeof(*expected));
	draw("w", 0, 0.1, expected->w);
	memset(expected->w + ZEROS_AT, 0, (N - ZEROS_AT) * sizeof(expected->w[0]));
	for (int64_t i = 0; i < N; i++)
		put(run, run->w, i, expected->w[i]);
	for (int t = 1; t <= STEPS; t++) {
		struct lh_update u = form->update;

		u.parameters = run->w;
		u.gradients = run->g;
		for (uint32_t k = 0; k < form->n_states; k++)
			u.states[k] = run->states[k];
		u.gradient_scale = 0.25;
		u.t = (uint64_t)t;
		draw_gradients(t, values);
		memcpy(expected->g, values, sizeof(values));
		for (int64_t i = 0; i < N; i++)
			put(run, run->g, i, values[i]);
		assert_int_equal(run->ops->step[form->rule](&run->device, run->plan, &u, &err), 0);
		expect_step(form, &u, expected);
	}
}

static void compare(const struct run *run, const struct form *form, const struct vectors *expected,
		    double tolerance)
{
	for (size_t k = 0; k < N_ELEMENTS(segments); k++) {
		const struct lh_segment *s = &segments[k];
		double difference = 0, norm = norm_of(expected->w + s->at, s->n);

		for (int64_t i = s->at; i < s->at + s->n; i++) {
			double d = get(run, run->w, i) - expected->w[i];

			difference += d * d;
		}
		if (!(sqrt(difference) <= tolerance * norm))
			fail_msg("%s, tensor %zu: distance %.3g of %.3g", form->name, k,
				 sqrt(difference), norm);
	}
}

static void check_against_formulas(const struct lh_update_ops *ops, double tolerance)
{
	static struct vectors expected;

	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		struct run run;

		run_open(&run, ops, 2);
		run_steps(&run, &forms[f], &expected);
		compare(&run, &forms[f], &expected, tolerance);
		run_close(&run);
	}
}

static void test_reference_in_double_follows_the_formulas(void **state)
{
	(void)state;
	check_against_formulas(&lh_update_reference64, 1e-13);
}

/* Twelve steps, each with a few roundings of 6e-8. */
static void test_reference_in_float_agrees_with_double(void **state)
{
	(void)state;
	check_against_formulas(&lh_update_reference32, 3e-7);
}

static void test_cpu_agrees_with_double(void **state)
{
	(void)state;
	check_against_formulas(&lh_update_cpu, 5e-7);
}

static void test_cpu_gives_the_same_bits_with_any_number_of_threads(void **state)
{
	static struct vectors expected;

	(void)state;
	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		struct run one, many;

		run_open(&one, &lh_update_cpu, 1);
		run_steps(&one, &forms[f], &expected);
		for (uint32_t n = 2; n <= THREADS_MAX; n++) {
			run_open(&many, &lh_update_cpu, n);
			run_steps(&many, &forms[f], &expected);
			assert_memory_equal(one.w, many.w, N * sizeof(float));
			assert_memory_equal(one.states[0], many.states[0], N * sizeof(float));
			assert_memory_equal(one.states[1], many.states[1], N * sizeof(float));
			run_close(&many);
		}
		run_close(&one);
	}
}

/* ---- sums and whole vectors ------------------------------------------------------------------ */

static const struct lh_update_ops *const all_ops[] = {&lh_update_reference64,
						      &lh_update_reference32, &lh_update_cpu};

static void test_sums_of_squares_are_those_of_each_tensor(void **state)
{
	static double values[N];
	double sums[N_ELEMENTS(segments)], again[N_ELEMENTS(segments)];
	struct lh_error err = {0};
	struct run run;

	(void)state;
	draw("x", 1, 3, values);
	for (size_t o = 0; o < N_ELEMENTS(all_ops); o++) {
		run_open(&run, all_ops[o], 1);
		for (int64_t i = 0; i < N; i++)
			put(&run, run.w, i, values[i]);
		all_ops[o]->sum_squares(&run.device, run.plan, run.w, sums, &err);
		for (size_t k = 0; k < N_ELEMENTS(segments); k++) {
			double norm = norm_of(values + segments[k].at, segments[k].n);

			assert_near(sums[k], norm * norm, 1e-12 * norm * norm);
		}
		for (uint32_t n = 2; n <= THREADS_MAX; n++) {
			run.device.n_threads = n;
			all_ops[o]->sum_squares(&run.device, run.plan, run.w, again, &err);
			assert_memory_equal(sums, again, sizeof(sums));
		}
		run_close(&run);
	}
}

static void test_sums_of_squares_tell_what_is_not_finite(void **state)
{
	static const int64_t places[] = {0, 33007, 33008, 65793, 66061, N - 1};
	static const double values[] = {INFINITY, -INFINITY, NAN};
	double sums[N_ELEMENTS(segments)];
	struct lh_error err = {0};
	struct run run;

	(void)state;
	for (size_t o = 0; o < N_ELEMENTS(all_ops); o++) {
		run_open(&run, all_ops[o], 2);
		/* the largest of all floats is still finite, squared */
		put(&run, run.w, 5, 3.4e38);
		all_ops[o]->sum_squares(&run.device, run.plan, run.w, sums, &err);
		assert_near(sums[0] / (3.4e38 * 3.4e38), 1, 1e-6);
		for (size_t p = 0; p < N_ELEMENTS(places); p++)
			for (size_t v = 0; v < N_ELEMENTS(values); v++) {
				int n_bad = 0;

				put(&run, run.w, places[p], values[v]);
				all_ops[o]->sum_squares(&run.device, run.plan, run.w, sums, &err);
				put(&run, run.w, places[p], 0);
				for (size_t k = 0; k < N_ELEMENTS(segments); k++)
					n_bad += !isfinite(sums[k]);
				assert_int_equal(n_bad, 1);
			}
		run_close(&run);
	}
}

static void test_scale_and_axpy(void **state)
{
	static double x[N], y[N];
	struct lh_error err = {0};
	struct run run;

	(void)state;
	draw("x", 1, 1, x);
	draw("y", 1, 1, y);
	for (size_t o = 0; o < N_ELEMENTS(all_ops); o++)
		for (uint32_t n = 1; n <= 3; n++) {
			run_open(&run, all_ops[o], n);
			for (int64_t i = 0; i < N; i++) {
				put(&run, run.w, i, x[i]);
				put(&run, run.g, i, y[i]);
			}
			/* all but the last, which stays */
			assert_int_equal(all_ops[o]->scale(&run.device, 0.3, run.w, N - 8, &err),
					 0);
			assert_int_equal(
				all_ops[o]->axpy(&run.device, -0.7, run.w, run.g, N - 8, &err), 0);
			for (int64_t i = 0; i < N; i++) {
				double scaled = i < N - 8 ? 0.3 * x[i] : x[i];
				double added = i < N - 8 ? y[i] - 0.7 * scaled : y[i];

				assert_near(get(&run, run.w, i), scaled, 2e-7 * fabs(scaled));
				assert_near(get(&run, run.g, i), added,
					    2e-7 * (fabs(y[i]) + fabs(scaled)));
			}
			run_close(&run);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference_in_double_follows_the_formulas),
		cmocka_unit_test(test_reference_in_float_agrees_with_double),
		cmocka_unit_test(test_cpu_agrees_with_double),
		cmocka_unit_test(test_cpu_gives_the_same_bits_with_any_number_of_threads),
		cmocka_unit_test(test_sums_of_squares_are_those_of_each_tensor),
		cmocka_unit_test(test_sums_of_squares_tell_what_is_not_finite),
		cmocka_unit_test(test_scale_and_axpy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
