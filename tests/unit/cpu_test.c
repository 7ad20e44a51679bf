/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU device against the reference device, with one, two and three threads, with oneDNN
 * limited to AVX2, and the memory that it takes from step to step.
 */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cpu_cases.h"
#include "tests/unit/test.h"

static const double DISTANCE_MAX = 1e-5;

#define DIMS(...)                                                             \
	sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) \
	{                                                                     \
		__VA_ARGS__                                                   \
	}

/* ---- what a run leaves: logits, gradients, state --------------------------------------------- */

enum { PARTS_MAX = 16 };

struct results {
	double loss;
	uint32_t n;
	char names[PARTS_MAX][LH_TENSOR_NAME_MAX];
	int64_t counts[PARTS_MAX];
	double *values[PARTS_MAX];
};

static void keep(struct results *r, struct lh_case_run *run, const struct lh_tensor *tensor,
		 enum lh_part part)
{
	assert_true(r->n < PARTS_MAX);
	snprintf(r->names[r->n], sizeof(r->names[0]), "%.*s%s", LH_TENSOR_NAME_MAX - 12,
		 tensor->name, part == LH_GRAD ? "'s gradient" : "");
	r->counts[r->n] = tensor->n;
	r->values[r->n++] = lh_case_read(run, tensor, part);
}

static void read_results(struct lh_case_run *run, struct results *ret_results)
{
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(run->graph, &n);

	*ret_results = (struct results){.loss = lh_case_forward(run)};
	lh_case_backward(run);
	keep(ret_results, run, run->logits, LH_DATA);
	for (uint32_t i = 0; i < n; i++) {
		if (tensors[i]->role == LH_STATE)
			keep(ret_results, run, tensors[i], LH_DATA);
		else if (tensors[i]->role < LH_STATE && tensors[i]->wants_grad &&
			 !tensors[i]->view_of)
			keep(ret_results, run, tensors[i], LH_GRAD);
	}
}

static struct results run_case(const struct lh_layer_case *c, const struct lh_device_ops *ops,
			       const struct lh_device_options *options)
{
	struct lh_case_run run;
	struct results results;

	lh_case_open_with(c, ops, options, &run);
	read_results(&run, &results);
	lh_case_close(&run);
	return results;
}

static void drop_results(struct results *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		free(r->values[i]);
}

/* Fails where a tensor is farther than max from b's; 0: other bits. */
static void compare(const char *name, const struct results *a, const struct results *b, double max)
{
	assert_int_equal(a->n, b->n);
	assert_true(fabs(a->loss - b->loss) <= max * (1 + fabs(b->loss)));
	for (uint32_t i = 0; i < a->n; i++) {
		double distance = lh_case_distance(a->values[i], b->values[i], a->counts[i]);

		assert_int_equal(a->counts[i], b->counts[i]);
		if (!(distance <= max))
			fail_msg("%s, %s: distance %.3g", name, a->names[i], distance);
	}
}

static const struct lh_device_options WITH_THREADS[] = {
	{.n_threads = 1, .compute = LH_F32},
	{.n_threads = 2, .compute = LH_F32},
	{.n_threads = 3, .compute = LH_F32},
};

static void check_against_reference(const struct lh_layer_case *c)
{
	const struct lh_device_options in_double = {.compute = LH_F64};
	struct results wide = run_case(c, &lh_device_reference64, &in_double);

	for (size_t i = 0; i < N_ELEMENTS(WITH_THREADS); i++) {
		struct results results = run_case(c, &lh_device_cpu, &WITH_THREADS[i]);

		compare(c->name, &results, &wide, DISTANCE_MAX);
		drop_results(&results);
	}
	drop_results(&wide);
}

static void test_every_layer_agrees_with_the_reference(void **state)
{
	(void)state;
	for (const struct lh_layer_case *c = lh_layer_cases; c->name; c++)
		check_against_reference(c);
}

static void test_larger_layers_agree_with_the_reference(void **state)
{
	(void)state;
	for (const struct lh_cpu_case *c = lh_cpu_cases; c->c.name; c++)
		check_against_reference(&c->c);
}

static void test_own_loops_give_the_same_bits_for_any_number_of_threads(void **state)
{
	(void)state;
	for (const struct lh_cpu_case *c = lh_cpu_cases; c->c.name; c++) {
		struct results one = run_case(&c->c, &lh_device_cpu, &WITH_THREADS[0]);

		for (size_t j = 1; c->is_own && j < N_ELEMENTS(WITH_THREADS); j++) {
			struct results more = run_case(&c->c, &lh_device_cpu, &WITH_THREADS[j]);

			compare(c->c.name, &more, &one, 0);
			drop_results(&more);
		}
		drop_results(&one);
	}
}

static void test_a_second_run_gives_the_same_bits(void **state)
{
	(void)state;
	for (const struct lh_cpu_case *c = lh_cpu_cases; c->c.name; c++) {
		struct results first, second, other;
		struct lh_case_run run;

		lh_case_open_with(&c->c, &lh_device_cpu, &WITH_THREADS[1], &run);
		read_results(&run, &first);
		read_results(&run, &second);
		lh_case_close(&run);
		other = run_case(&c->c, &lh_device_cpu, &WITH_THREADS[1]);
		compare(c->c.name, &second, &first, 0);
		compare(c->c.name, &other, &first, 0);
		drop_results(&first);
		drop_results(&second);
		drop_results(&other);
	}
}

/* ---- functions of one number ---------------------------------------------------------------- */

static double gelu(double x)
{
	return 0.5 * x * erfc(-x * sqrt(0.5));
}

static double gelu_tanh(double x)
{
	return x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static const struct {
	enum lh_activation f;
	double (*exact)(double x);
	double least, most; /* where results are normal numbers in single precision */
	double error_max;   /* relative */
} FUNCTIONS[] = {
	{LH_GELU, gelu, -12, 12, 1e-6},
	/* the polynomial within is rounded before it is exponentiated */
	{LH_GELU_TANH, gelu_tanh, -8, 12, 1e-5},
	{LH_SIGMOID, sigmoid, -80, 80, 1e-6},
	{LH_TANH, tanh, -20, 20, 1e-6},
	{LH_TANH, tanh, -1e-3, 1e-3, 1e-6},
};

static void check_function(size_t i)
{
	enum { N = 100003 };
	const struct lh_device_options options = {.n_threads = 2, .compute = LH_F32};
	struct lh_pass pass = {.is_training = false};
	struct lh_device *device;
	struct lh_graph *graph;
	struct lh_tensor *x, *y;
	struct lh_error err = {0};
	float *from = calloc(N, sizeof(*from)), *to = calloc(N, sizeof(*to));

	assert_true(from && to);
	assert_int_equal(lh_device_cpu.open(&options, &device, &err), 0);
	assert_int_equal(lh_graph_new(device, &graph, &err), 0);
	x = lh_graph_input(graph, "x", LH_F32, DIMS(N));
	y = lh_activate(graph, x, FUNCTIONS[i].f);
	lh_graph_keep(y);
	assert_int_equal(lh_graph_finish(graph, NULL, false, &err), 0);
	for (int j = 0; j < N; j++)
		from[j] = (float)(FUNCTIONS[i].least +
				  (FUNCTIONS[i].most - FUNCTIONS[i].least) * j / (N - 1));
	assert_int_equal(lh_tensor_write(graph, x, from, &err), 0);
	assert_int_equal(lh_graph_forward(graph, &pass, &err), 0);
	assert_int_equal(lh_tensor_read(graph, y, LH_DATA, to, &err), 0);
	for (int j = 0; j < N; j++) {
		double exact = FUNCTIONS[i].exact((double)from[j]);

		if (!(fabs((double)to[j] - exact) <= FUNCTIONS[i].error_max * fabs(exact)))
			fail_msg("function %zu of %.9g: %.9g; expected %.9g", i, (double)from[j],
				 (double)to[j], exact);
	}
	free(from);
	free(to);
	lh_graph_free(graph);
	device->ops->close(device);
}

static void test_functions_of_one_number_are_exact_to_a_millionth(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(FUNCTIONS); i++)
		check_function(i);
}

/* ---- portable numbers: another process, since oneDNN has begun to compute in this one ---------
 */

static void run_portably(int to)
{
	const struct lh_device_options options = {
		.n_threads = 1, .compute = LH_F32, .is_portable = true};

	for (const struct lh_cpu_case *c = lh_cpu_cases; c->c.name; c++) {
		struct results r = run_case(&c->c, &lh_device_cpu, &options);

		for (uint32_t j = 0; j < r.n; j++) {
			size_t bytes = (size_t)r.counts[j] * sizeof(double);

			for (size_t at = 0; at < bytes;) {
				ssize_t put = write(to, (char *)r.values[j] + at, bytes - at);

				if (put <= 0)
					_exit(1);
				at += (size_t)put;
			}
		}
		drop_results(&r);
	}
	_exit(0);
}

static void read_all(int from, void *bytes, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = read(from, (char *)bytes + at, n - at);

		assert_true(got > 0);
		at += (size_t)got;
	}
}

/* Own loops have the same bits, oneDNN's sums other orders. Runs first: see above. */
static void test_portable_numbers_are_close_and_own_loops_the_same(void **state)
{
	int pipes[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		run_portably(pipes[1]);
	close(pipes[1]);
	for (const struct lh_cpu_case *c = lh_cpu_cases; c->c.name; c++) {
		struct results native = run_case(&c->c, &lh_device_cpu, &WITH_THREADS[0]);
		struct results portable = native;

		for (uint32_t j = 0; j < native.n; j++) {
			portable.values[j] = calloc((size_t)native.counts[j], sizeof(double));
			read_all(pipes[0], portable.values[j],
				 (size_t)native.counts[j] * sizeof(double));
		}
		compare(c->c.name, &portable, &native, c->is_own ? 0 : DISTANCE_MAX);
		drop_results(&native);
		drop_results(&portable);
	}
	close(pipes[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_a_limit_that_comes_too_late_is_refused(void **state)
{
	struct lh_device_options options = {.compute = LH_F32, .is_portable = true};
	struct lh_device *device;
	struct lh_error err = {0};
	int rc;

	(void)state;
	options.is_portable = false;
	assert_int_equal(lh_device_cpu.open(&options, &device, &err), 0);
	assert_true(strncmp(device->software, "oneDNN 2.", 9) == 0);
	assert_true(strlen(device->processor) > 0);
	if (strstr(device->software, "AVX-512")) {
		options.is_portable = true;
		rc = lh_device_cpu.open(&options, &device, &err);
		assert_int_equal(rc, LH_EENV);
		assert_non_null(strstr(err.message, "AVX2 from the beginning"));
	}
	device->ops->close(device);
}

static void test_other_precisions_are_refused(void **state)
{
	const struct lh_device_options options = {.compute = LH_BF16};
	struct lh_device *device;
	struct lh_error err = {0};

	(void)state;
	assert_int_equal(lh_device_cpu.open(&options, &device, &err), LH_EINPUT);
	assert_string_equal(err.message, "this device computes in fp32, not in bf16");
}

static void test_indexes_outside_are_refused(void **state)
{
	struct lh_case_run run;
	struct lh_error err = {0};
	int32_t tokens[8 * 128] = {[1000] = 50};

	(void)state;
	lh_case_open(lh_cpu_case_find("embedding_large"), &lh_device_cpu, LH_F32, &run);
	lh_case_forward(&run);
	assert_int_equal(
		lh_tensor_write(run.graph, lh_graph_find(run.graph, "tokens/50"), tokens, &err), 0);
	assert_int_equal(lh_graph_forward(run.graph, &run.pass, &err), LH_EINPUT);
	assert_string_equal(err.message, "layer wte, forward: index 50 at 1000; expected 0 to 49");
	lh_case_close(&run);
}

/* ---- fewer threads than asked for: another process, since OpenMP reads its limit when it starts
 * --
 */

static void test_results_are_right_with_fewer_threads_than_asked_for(void **state)
{
	const char *const limits[] = {"OMP_THREAD_LIMIT=1", "OMP_DYNAMIC=true"};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(limits); i++) {
		char *const arguments[] = {(char[]){"cpu_test"}, (char[]){"limited"}, NULL};
		char limit[32], *const environment[] = {limit, NULL};
		int status;
		pid_t pid;

		snprintf(limit, sizeof(limit), "%s", limits[i]);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			execve("/proc/self/exe", arguments, environment);
			_exit(127);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			fail_msg("%s: wrong results", limit);
	}
}

/* What that process does; its exit status. */
static int run_limited(void)
{
	const struct lh_device_options in_double = {.compute = LH_F64};
	const struct lh_layer_case *c = lh_cpu_case_find("conv_64");
	struct results wide = run_case(c, &lh_device_reference64, &in_double);
	struct results results = run_case(c, &lh_device_cpu, &WITH_THREADS[2]);
	int status = 0;

	for (uint32_t i = 0; i < wide.n; i++)
		if (!(lh_case_distance(results.values[i], wide.values[i], wide.counts[i]) <
		      DISTANCE_MAX))
			status = 1;
	drop_results(&wide);
	drop_results(&results);
	return status;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Steps after the first leave the heap and the mappings as they are. */
static void test_steps_take_no_memory(void **state)
{
	(void)state;
	for (const struct lh_cpu_case *c = lh_cpu_cases; c->c.name; c++) {
		struct lh_error err = {0};
		struct lh_case_run run;
		struct mallinfo2 before, after;

		lh_case_open(&c->c, &lh_device_cpu, LH_F32, &run);
		lh_case_forward(&run);
		lh_case_backward(&run);
		before = mallinfo2();
		for (int step = 0; step < 3; step++) {
			assert_int_equal(lh_graph_forward(run.graph, &run.pass, &err), 0);
			assert_int_equal(lh_graph_backward(run.graph, &run.pass, 1, &err), 0);
		}
		after = mallinfo2();
		if (after.uordblks + after.hblkhd != before.uordblks + before.hblkhd)
			fail_msg("%s: %zu bytes became %zu", c->c.name,
				 before.uordblks + before.hblkhd, after.uordblks + after.hblkhd);
		lh_case_close(&run);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_portable_numbers_are_close_and_own_loops_the_same),
		cmocka_unit_test(test_every_layer_agrees_with_the_reference),
		cmocka_unit_test(test_functions_of_one_number_are_exact_to_a_millionth),
		cmocka_unit_test(test_larger_layers_agree_with_the_reference),
		cmocka_unit_test(test_own_loops_give_the_same_bits_for_any_number_of_threads),
		cmocka_unit_test(test_a_second_run_gives_the_same_bits),
		cmocka_unit_test(test_a_limit_that_comes_too_late_is_refused),
		cmocka_unit_test(test_other_precisions_are_refused),
		cmocka_unit_test(test_indexes_outside_are_refused),
		cmocka_unit_test(test_results_are_right_with_fewer_threads_than_asked_for),
		cmocka_unit_test(test_steps_take_no_memory),
	};

	if (argc > 1 && strcmp(argv[1], "limited") == 0)
		return run_limited();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
