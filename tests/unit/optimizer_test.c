/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers of a graph: closed forms, decay, clipping, divisors, what is refused. */
#include "trainer/optim/optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/small_net.h"
#include "tests/unit/test.h"

enum { HIDDEN = 7 };

static struct lh_optimizer *new_optimizer(struct lh_small_net *net,
					  const struct lh_optimizer_options *options)
{
	struct lh_optimizer *optimizer;
	struct lh_error err = {0};

	if (lh_optimizer_new(net->graph, options, &optimizer, &err))
		fail_msg("%s", err.message);
	return optimizer;
}

static struct lh_optimizer_options defaults(const char *kind)
{
	struct lh_optimizer_options options;
	struct lh_error err = {0};

	assert_int_equal(lh_optimizer_options_init(kind, &options, &err), 0);
	return options;
}

/* A network in double and an optimizer; parameters and gradients as they lie on the host. */
struct bench {
	struct lh_small_net net;
	struct lh_optimizer *optimizer;
	double *w, *g;
	int64_t n;
};

static void bench_open(struct bench *bench, const struct lh_optimizer_options *options)
{
	lh_small_net_open(LH_SMALL_DOUBLE, HIDDEN, &bench->net);
	bench->optimizer = new_optimizer(&bench->net, options);
	bench->w = lh_graph_parameters(bench->net.graph);
	bench->g = lh_graph_gradients(bench->net.graph);
	bench->n = lh_graph_n_parameters(bench->net.graph);
}

static void bench_close(struct bench *bench)
{
	lh_optimizer_free(bench->optimizer);
	lh_small_net_close(&bench->net);
}

static double step(struct bench *bench, double lr, double divisor)
{
	struct lh_error err = {0};
	double norm;

	if (lh_optimizer_step(bench->optimizer, lr, divisor, &norm, &err))
		fail_msg("%s", err.message);
	return norm;
}

static double norm_of(const double *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	return sqrt(sum);
}

static double *copy_of(const double *x, int64_t n)
{
	double *copy = malloc((size_t)n * sizeof(*copy));

	assert_non_null(copy);
	memcpy(copy, x, (size_t)n * sizeof(*copy));
	return copy;
}

/* ---- closed forms ---------------------------------------------------------------------------- */

/* x_t of x_{t+1} = p x_t - q x_{t-1}, whose roots are real. */
static double recurrence(double p, double q, double x0, double x1, int t)
{
	double root = sqrt(p * p - 4 * q), a = (p + root) / 2, b = (p - root) / 2;
	double c = (x1 - b * x0) / (a - b);

	return c * pow(a, t) + (x0 - c) * pow(b, t);
}

/* On a quadratic with curvature 1: the gradient is w. first: w_1 / w_0. */
static void check_quadratic(double momentum, bool nesterov, double lr, double p, double q,
			    double first)
{
	enum { T = 40 };
	struct lh_optimizer_options options = defaults("sgd");
	struct bench bench;
	double *w0;

	options.momentum = momentum;
	options.nesterov = nesterov;
	bench_open(&bench, &options);
	w0 = copy_of(bench.w, bench.n);
	for (int t = 0; t < T; t++) {
		memcpy(bench.g, bench.w, (size_t)bench.n * sizeof(*bench.g));
		step(&bench, lr, 1);
	}
	for (int64_t i = 0; i < bench.n; i++)
		assert_near(bench.w[i], recurrence(p, q, w0[i], first * w0[i], T), 1e-13);
	assert_true(lh_optimizer_steps(bench.optimizer) == T);
	free(w0);
	bench_close(&bench);
}

static void test_sgd_on_a_quadratic_has_its_closed_form(void **state)
{
	(void)state;
	check_quadratic(0, false, 0.05, 0.95, 0, 0.95);
	check_quadratic(0.5, false, 0.05, 1.5 - 0.05, 0.5, 0.95);
	check_quadratic(0.5, true, 0.05, 0.95 * 1.5, 0.95 * 0.5, 1 - 0.05 - 0.5 * 0.05);
}

/* Adam's moments of a constant gradient, freed of their bias, are the gradient and its square. */
static void test_adamw_on_a_constant_gradient_moves_evenly(void **state)
{
	struct lh_optimizer_options options = defaults("adamw");
	struct bench bench;
	double *w0;

	(void)state;
	options.weight_decay = 0;
	options.eps = 0.25;
	bench_open(&bench, &options);
	w0 = copy_of(bench.w, bench.n);
	for (int64_t i = 0; i < bench.n; i++)
		bench.g[i] = i % 2 ? 0.75 : -1.75;
	for (int t = 0; t < 30; t++)
		step(&bench, 0.01, 1);
	for (int64_t i = 0; i < bench.n; i++)
		assert_near(bench.w[i], w0[i] - 30 * 0.01 * (i % 2 ? 0.75 : -1.75 / 2), 1e-12);
	free(w0);
	bench_close(&bench);
}

/* The share of each tensor's norm that a step moves it by. */
static void check_moves(const char *kind, bool adapts_all, double expected)
{
	struct lh_optimizer_options options = defaults(kind);
	struct lh_tensor *const *tensors;
	struct bench bench;
	uint32_t n;

	options.weight_decay = 0;
	options.adapts_all = adapts_all;
	bench_open(&bench, &options);
	tensors = lh_graph_tensors(bench.net.graph, &n);
	for (uint32_t i = 0; i < n; i++) {
		const struct lh_tensor *tensor = tensors[i];
		double *w, *w0;

		if (tensor->role != LH_PARAMETER || (tensor->n_dims == 1 && !adapts_all))
			continue;
		w = bench.w + tensor->at;
		for (int64_t j = 0; j < tensor->n; j++) {
			w[j] = 1 + (double)(j % 5);
			bench.g[tensor->at + j] = 1 + (double)(j % 3);
		}
		w0 = copy_of(w, tensor->n);
		step(&bench, 0.01, 1);
		for (int64_t j = 0; j < tensor->n; j++)
			w[j] -= w0[j];
		assert_near(norm_of(w, tensor->n) / norm_of(w0, tensor->n), expected, 1e-12);
		/* only the first step has this form */
		memset(bench.g, 0, (size_t)bench.n * sizeof(*bench.g));
		memset(bench.w, 0, (size_t)bench.n * sizeof(*bench.w));
		lh_optimizer_set_steps(bench.optimizer, 0);
		for (uint32_t k = 0; k < lh_optimizer_n_states(bench.optimizer); k++)
			memset(lh_optimizer_state(bench.optimizer, k), 0,
			       (size_t)bench.n * sizeof(double));
		free(w0);
	}
	bench_close(&bench);
}

static void test_lamb_and_lars_move_in_proportion_to_the_norm(void **state)
{
	(void)state;
	check_moves("lamb", true, 0.01);
	check_moves("lamb", false, 0.01);
	check_moves("lars", true, 0.01 * 0.001);
	check_moves("lars", false, 0.01 * 0.001);
}

/* ---- decay, clipping, divisors --------------------------------------------------------------- */

static void check_decay(const char *kind, bool decays_all)
{
	struct lh_optimizer_options options = defaults(kind);
	struct lh_tensor *const *tensors;
	struct bench bench;
	double *w0;
	uint32_t n;

	options.weight_decay = 0.1;
	options.decays_all = decays_all;
	bench_open(&bench, &options);
	for (int64_t i = 0; i < bench.n; i++)
		bench.w[i] = 1 + (double)i;
	w0 = copy_of(bench.w, bench.n);
	step(&bench, 0.5, 1);
	tensors = lh_graph_tensors(bench.net.graph, &n);
	for (uint32_t i = 0; i < n; i++)
		for (int64_t j = 0; tensors[i]->role == LH_PARAMETER && j < tensors[i]->n; j++) {
			double ratio = bench.w[tensors[i]->at + j] / w0[tensors[i]->at + j];

			if (decays_all || tensors[i]->n_dims > 1)
				assert_true(ratio < 0.96);
			else
				assert_near(ratio, 1, 0);
		}
	free(w0);
	bench_close(&bench);
}

static void test_only_matrices_decay_unless_all_are_to(void **state)
{
	(void)state;
	for (size_t i = 0; lh_optimizers[i]; i++) {
		check_decay(lh_optimizers[i]->name, false);
		check_decay(lh_optimizers[i]->name, true);
	}
}

static void test_gradients_are_clipped_to_their_norm(void **state)
{
	static const double limits[] = {0, 0.5, 1.75, 100};
	struct lh_optimizer_options options = defaults("sgd");

	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(limits); k++) {
		struct bench bench;
		double norm, factor, *w0;

		options.clip_norm = limits[k];
		bench_open(&bench, &options);
		w0 = copy_of(bench.w, bench.n);
		for (int64_t i = 0; i < bench.n; i++)
			bench.g[i] = sin((double)i);
		/* the divisor comes before the limit */
		norm = norm_of(bench.g, bench.n) / 4;
		factor = limits[k] > 0 && limits[k] < norm ? limits[k] / (norm + 1e-6) : 1;
		assert_near(step(&bench, 1, 4), norm, 1e-12);
		for (int64_t i = 0; i < bench.n; i++)
			assert_near(bench.w[i], w0[i] - factor * bench.g[i] / 4, 1e-14);
		free(w0);
		bench_close(&bench);
	}
}

static void test_accumulated_gradients_are_divided_exactly(void **state)
{
	(void)state;
	for (size_t i = 0; lh_optimizers[i]; i++) {
		struct lh_optimizer_options options = defaults(lh_optimizers[i]->name);
		struct bench once, twice;

		bench_open(&once, &options);
		bench_open(&twice, &options);
		for (int t = 0; t < 3; t++) {
			for (int64_t j = 0; j < once.n; j++) {
				once.g[j] = cos((double)(j + t));
				twice.g[j] = 2 * once.g[j];
			}
			step(&once, 0.1, 1);
			step(&twice, 0.1, 2);
		}
		assert_memory_equal(once.w, twice.w, (size_t)once.n * sizeof(double));
		bench_close(&once);
		bench_close(&twice);
	}
}

static void test_other_gradients_than_the_graphs_are_taken(void **state)
{
	struct lh_optimizer_options options = defaults("adamw");
	struct lh_error err = {0};
	struct bench own, other;
	double *gradients, norm;

	(void)state;
	bench_open(&own, &options);
	bench_open(&other, &options);
	for (int64_t i = 0; i < own.n; i++)
		own.g[i] = cos((double)i);
	gradients = copy_of(own.g, own.n);
	step(&own, 0.1, 1);
	assert_int_equal(lh_optimizer_step_with(other.optimizer, gradients, 0.1, 1, &norm, &err),
			 0);
	assert_memory_equal(own.w, other.w, (size_t)own.n * sizeof(double));
	free(gradients);
	bench_close(&own);
	bench_close(&other);
}

static void test_gradients_that_are_not_finite_change_nothing(void **state)
{
	static const double bad[] = {INFINITY, -INFINITY, NAN};

	(void)state;
	for (size_t i = 0; lh_optimizers[i]; i++) {
		struct lh_optimizer_options options = defaults(lh_optimizers[i]->name);
		struct bench bench;
		double *w0, *states[LH_UPDATE_STATES_MAX] = {NULL};

		bench_open(&bench, &options);
		for (int64_t j = 0; j < bench.n; j++)
			bench.g[j] = cos((double)j);
		step(&bench, 0.1, 1);
		w0 = copy_of(bench.w, bench.n);
		for (uint32_t k = 0; k < lh_optimizer_n_states(bench.optimizer); k++)
			states[k] = copy_of(lh_optimizer_state(bench.optimizer, k), bench.n);
		for (size_t b = 0; b < N_ELEMENTS(bad); b++) {
			bench.g[bench.n - 1] = bad[b];
			assert_true(!isfinite(step(&bench, 0.1, 1)));
		}
		assert_memory_equal(bench.w, w0, (size_t)bench.n * sizeof(double));
		for (uint32_t k = 0; k < lh_optimizer_n_states(bench.optimizer); k++) {
			assert_memory_equal(lh_optimizer_state(bench.optimizer, k), states[k],
					    (size_t)bench.n * sizeof(double));
			free(states[k]);
		}
		assert_true(lh_optimizer_steps(bench.optimizer) == 1);
		free(w0);
		bench_close(&bench);
	}
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static void test_every_optimizer_learns_on_every_device(void **state)
{
	static const double lr[] = {[LH_RULE_SGD] = 0.1,
				    [LH_RULE_ADAMW] = 0.02,
				    [LH_RULE_LAMB] = 0.01,
				    [LH_RULE_LARS] = 2};

	(void)state;
	for (size_t i = 0; lh_optimizers[i]; i++) {
		struct lh_optimizer_options options = defaults(lh_optimizers[i]->name);
		double losses[LH_SMALL_N_DEVICES];

		options.lr = lr[lh_optimizers[i]->rule];
		options.clip_norm = 1;
		for (int d = 0; d < LH_SMALL_N_DEVICES; d++) {
			struct lh_small_net net;
			struct lh_optimizer *optimizer;

			lh_small_net_open((enum lh_small_net_device)d, 32, &net);
			optimizer = new_optimizer(&net, &options);
			assert_true(lh_small_net_train(&net, optimizer, 5) > 0.9);
			lh_small_net_train(&net, optimizer, 65);
			losses[d] = lh_small_net_train(&net, optimizer, 30);
			if (!(losses[d] < 0.7))
				fail_msg("%s: a loss of %g after 70 steps", lh_optimizers[i]->name,
					 losses[d]);
			assert_near(losses[d], losses[0], 1e-5);
			lh_optimizer_free(optimizer);
			lh_small_net_close(&net);
		}
	}
}

static void test_states_have_the_names_and_sizes_that_are_said(void **state)
{
	(void)state;
	for (size_t i = 0; lh_optimizers[i]; i++) {
		const struct lh_optimizer_kind *kind = lh_optimizers[i];
		struct lh_optimizer_options options = defaults(kind->name);
		struct bench bench;

		options.momentum = kind->rule == LH_RULE_SGD ? 0.9 : options.momentum;
		bench_open(&bench, &options);
		assert_ptr_equal(lh_optimizer_find(kind->name), kind);
		assert_ptr_equal(lh_optimizer_kind(bench.optimizer), kind);
		assert_int_equal(lh_optimizer_n_states(bench.optimizer), kind->n_states);
		assert_true(lh_optimizer_state_bytes(bench.optimizer) ==
			    kind->n_states * (uint64_t)bench.n * sizeof(double));
		for (uint32_t k = 0; k < kind->n_states; k++) {
			assert_non_null(kind->state_names[k]);
			assert_non_null(lh_optimizer_state(bench.optimizer, k));
		}
		bench_close(&bench);
	}
}

static void test_sgd_without_momentum_keeps_no_state(void **state)
{
	struct lh_optimizer_options options = defaults("sgd");
	struct bench bench;

	(void)state;
	bench_open(&bench, &options);
	assert_int_equal(lh_optimizer_n_states(bench.optimizer), 0);
	assert_true(lh_optimizer_state_bytes(bench.optimizer) == 0);
	bench_close(&bench);
}

/* ---- what is refused --------------------------------------------------------------------------
 */

static void test_options_out_of_range_are_refused_by_name(void **state)
{
	static const struct {
		struct lh_optimizer_options options;
		const char *message;
	} cases[] = {
		{{.kind = "adam"}, "no optimizer is called adam; expected one of sgd, adamw, lamb"},
		{{.kind = NULL}, "no optimizer is called (nothing)"},
		{{.kind = "sgd", .lr = 0}, "sgd: lr is 0; expected more than 0"},
		{{.kind = "sgd", .lr = NAN}, "lr is nan"},
		{{.kind = "sgd", .lr = 1, .momentum = 1},
		 "momentum is 1; expected at least 0 and "
		 "less than 1"},
		{{.kind = "sgd", .lr = 1, .nesterov = true}, "nesterov without momentum"},
		{{.kind = "sgd", .lr = 1, .weight_decay = -1}, "weight_decay is -1"},
		{{.kind = "sgd", .lr = 1, .clip_norm = NAN}, "clip_norm is nan"},
		{{.kind = "adamw", .lr = 1, .beta1 = 1}, "beta1 is 1"},
		{{.kind = "adamw", .lr = 1, .beta2 = -0.1}, "beta2 is -0.1"},
		{{.kind = "lamb", .lr = 1, .eps = 0}, "lamb: eps is 0; expected more than 0"},
		{{.kind = "lars", .lr = 1, .trust = -1}, "trust is -1"},
	};
	struct lh_small_net net;

	(void)state;
	lh_small_net_open(LH_SMALL_FLOAT, HIDDEN, &net);
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_optimizer *optimizer = NULL;
		struct lh_error err = {0};

		assert_int_equal(lh_optimizer_new(net.graph, &cases[i].options, &optimizer, &err),
				 LH_EINPUT);
		if (!strstr(err.message, cases[i].message))
			fail_msg("'%s' lacks '%s'", err.message, cases[i].message);
		assert_null(optimizer);
	}
	lh_small_net_close(&net);
}

static void test_a_step_without_sense_is_refused(void **state)
{
	static const double lr[] = {-1, NAN, INFINITY, 1, 1, 1};
	static const double divisor[] = {1, 1, 1, 0, -2, NAN};
	struct lh_optimizer_options options = defaults("sgd");
	struct bench bench;

	(void)state;
	bench_open(&bench, &options);
	for (size_t i = 0; i < N_ELEMENTS(lr); i++) {
		struct lh_error err = {0};
		double norm;

		assert_int_equal(lh_optimizer_step(bench.optimizer, lr[i], divisor[i], &norm, &err),
				 LH_EINPUT);
	}
	assert_true(lh_optimizer_steps(bench.optimizer) == 0);
	bench_close(&bench);
}

static void test_a_device_without_updates_is_refused(void **state)
{
	struct lh_optimizer_options options = defaults("lamb");
	struct lh_update_ops some = lh_update_reference32;
	struct lh_optimizer *optimizer;
	struct lh_small_net net;
	struct lh_error err = {0};

	(void)state;
	lh_small_net_open(LH_SMALL_FLOAT, HIDDEN, &net);
	some.step[LH_RULE_LAMB] = NULL;
	net.ops.update = &some;
	assert_int_equal(lh_optimizer_new(net.graph, &options, &optimizer, &err), LH_EINPUT);
	assert_string_equal(err.message, "device reference has no optimizer lamb");
	net.ops.update = NULL;
	assert_int_equal(lh_optimizer_new(net.graph, &options, &optimizer, &err), LH_EINPUT);
	lh_small_net_close(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sgd_on_a_quadratic_has_its_closed_form),
		cmocka_unit_test(test_adamw_on_a_constant_gradient_moves_evenly),
		cmocka_unit_test(test_lamb_and_lars_move_in_proportion_to_the_norm),
		cmocka_unit_test(test_only_matrices_decay_unless_all_are_to),
		cmocka_unit_test(test_gradients_are_clipped_to_their_norm),
		cmocka_unit_test(test_accumulated_gradients_are_divided_exactly),
		cmocka_unit_test(test_other_gradients_than_the_graphs_are_taken),
		cmocka_unit_test(test_gradients_that_are_not_finite_change_nothing),
		cmocka_unit_test(test_every_optimizer_learns_on_every_device),
		cmocka_unit_test(test_states_have_the_names_and_sizes_that_are_said),
		cmocka_unit_test(test_sgd_without_momentum_keeps_no_state),
		cmocka_unit_test(test_options_out_of_range_are_refused_by_name),
		cmocka_unit_test(test_a_step_without_sense_is_refused),
		cmocka_unit_test(test_a_device_without_updates_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
