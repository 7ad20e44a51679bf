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

#include "tests/unit/layer_cases.h"
#include "tests/unit/test.h"

static const double DISTANCE_MAX = 1e-5;

static const struct lh_init SMALL = {.kind = LH_INIT_NORMAL, .scale = 0.05};

#define DIMS(...)                                                             \
	sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) \
	{                                                                     \
		__VA_ARGS__                                                   \
	}

static struct lh_tensor *numbers(struct lh_graph *graph, const char *name, size_t n_dims,
				 const int64_t *dims)
{
	struct lh_tensor *x = lh_graph_input(graph, name, LH_F32, (uint32_t)n_dims, dims);

	lh_graph_want_gradient(x);
	return x;
}

/* ---- larger graphs than the cases of all devices: several threads, several blocks -------------
 */

static struct lh_tensor *conv(struct lh_graph *g, const char *name, struct lh_tensor *x,
			      int64_t out, int64_t k, int64_t stride, int64_t groups)
{
	struct lh_conv2d spec = {.out_channels = out,
				 .kernel_h = k,
				 .kernel_w = k,
				 .stride_h = stride,
				 .stride_w = stride,
				 .pad_h = k / 2,
				 .pad_w = k / 2,
				 .groups = groups,
				 .has_bias = groups > 1};

	return lh_conv2d(g, name, x, spec, SMALL, SMALL);
}

static struct lh_tensor *conv_64(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(2, 14, 14, 64)), 64, 3, 1, 1);
}

static struct lh_tensor *conv_one_sample(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(1, 15, 13, 32)), 48, 3, 2, 1);
}

static struct lh_tensor *depthwise_7(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(3, 12, 14, 40)), 40, 7, 1, 40);
}

static struct lh_tensor *depthwise_3_strided(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(4, 13, 16, 72)), 72, 3, 2, 72);
}

static struct lh_tensor *depthwise_5(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(4, 11, 12, 32)), 32, 5, 1, 32);
}

/* An image smaller than the kernel. */
static struct lh_tensor *depthwise_tiny(struct lh_graph *g)
{
	return conv(g, "conv", numbers(g, "x", DIMS(2, 2, 3, 19)), 19, 7, 1, 19);
}

static struct lh_tensor *fc(struct lh_graph *g)
{
	return lh_linear(g, "fc", numbers(g, "x", DIMS(3, 37, 130)),
			 (struct lh_linear){.out_features = 201, .has_bias = true}, SMALL, SMALL);
}

static struct lh_tensor *batch_norm_of(struct lh_graph *g, int64_t n, int64_t c, bool has_relu)
{
	return lh_batch_norm(
		g, "bn", numbers(g, "x", DIMS(n, 9, 11, c)),
		(struct lh_batch_norm){.eps = 1e-5, .momentum = 0.1, .has_relu = has_relu});
}

static struct lh_tensor *batch_norm_16(struct lh_graph *g)
{
	return batch_norm_of(g, 60, 16, true);
}

static struct lh_tensor *batch_norm_7(struct lh_graph *g)
{
	return batch_norm_of(g, 130, 7, false);
}

static struct lh_tensor *batch_norm_192(struct lh_graph *g)
{
	return batch_norm_of(g, 6, 192, true);
}

static struct lh_tensor *batch_norm_one_row(struct lh_graph *g)
{
	return lh_batch_norm(g, "bn", numbers(g, "x", DIMS(1, 5)),
			     (struct lh_batch_norm){.eps = 1e-5, .momentum = 0.1});
}

static struct lh_tensor *layer_norm_768(struct lh_graph *g)
{
	return lh_layer_norm(g, "ln", numbers(g, "x", DIMS(2, 100, 768)), 1e-5);
}

static struct lh_tensor *layer_norm_17(struct lh_graph *g)
{
	return lh_layer_norm(g, "ln", numbers(g, "x", DIMS(9000, 17)), 1e-6);
}

static struct lh_tensor *gelu_large(struct lh_graph *g)
{
	return lh_activate(g, numbers(g, "x", DIMS(401, 333)), LH_GELU);
}

static struct lh_tensor *tanh_large(struct lh_graph *g)
{
	return lh_activate(g, lh_activate(g, numbers(g, "x", DIMS(401, 333)), LH_GELU_TANH),
			   LH_TANH);
}

static struct lh_tensor *add_large(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(7, 100, 129));

	x = lh_add(g, x, numbers(g, "positions", DIMS(100, 129)), true);
	return lh_add(g, lh_scale(g, "gamma", x, 0.5), x, false);
}

static struct lh_tensor *add_itself(struct lh_graph *g)
{
	struct lh_tensor *x = lh_activate(g, numbers(g, "x", DIMS(5, 33)), LH_SIGMOID);

	return lh_add(g, x, x, false);
}

static struct lh_tensor *dropout_large(struct lh_graph *g)
{
	struct lh_tensor *x = lh_dropout(g, numbers(g, "x", DIMS(30, 70, 65)), 0.1, false);

	return lh_dropout(g, lh_scale(g, "gamma", x, 1), 0.3, true);
}

static struct lh_tensor *pools_large(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(2, 29, 31, 80));

	return lh_pool(g, lh_pool(g, x, true, 3, 2, 1), false, 3, 1, 1);
}

/* A stride wider than the window leaves pixels without a gradient. */
static struct lh_tensor *pool_gaps(struct lh_graph *g)
{
	return lh_pool(g, lh_pool(g, numbers(g, "x", DIMS(2, 11, 10, 3)), true, 2, 3, 0), false, 0,
		       0, 0);
}

static struct lh_tensor *shortcut_large(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(8, 16, 16, 32));

	return lh_add(g, conv(g, "conv", x, 64, 3, 2, 1), lh_shortcut(g, x, 2, 64), true);
}

static struct lh_tensor *embedding_large(struct lh_graph *g)
{
	return lh_embedding(g, "wte", lh_graph_input(g, "tokens/50", LH_I32, DIMS(8, 128)), 50, 96,
			    SMALL);
}

static struct lh_tensor *fields_large(struct lh_graph *g)
{
	struct lh_tensor *ids = lh_graph_input(g, "ids/40", LH_I32, DIMS(400, 13));
	struct lh_tensor *values = numbers(g, "values", DIMS(400, 6)), *xs[2];
	struct lh_field_embedding spec = {.buckets = 40, .k = 18};

	xs[0] = lh_reshape(g, lh_field_embedding(g, "fields", ids, values, spec, SMALL),
			   DIMS(400, 19 * 18));
	spec.is_summed = true;
	xs[1] = lh_field_embedding(g, "sums", ids, values, spec, SMALL);
	return lh_concat(g, xs, 2);
}

static struct lh_tensor *attention_of(struct lh_graph *g, bool is_causal, bool has_lengths,
				      double dropout)
{
	struct lh_tensor *lengths =
		has_lengths ? lh_graph_input(g, "lengths/128+1", LH_I32, DIMS(2)) : NULL;

	return lh_attention(
		g, numbers(g, "qkv", DIMS(2, 128, 3 * 96)), NULL, NULL, lengths,
		(struct lh_attention){.heads = 3, .is_causal = is_causal, .dropout = dropout});
}

static struct lh_tensor *attention_128(struct lh_graph *g)
{
	return attention_of(g, false, true, 0.1);
}

static struct lh_tensor *attention_causal_128(struct lh_graph *g)
{
	return attention_of(g, true, false, 0);
}

static struct lh_tensor *attention_across(struct lh_graph *g)
{
	return lh_attention(g, numbers(g, "q", DIMS(3, 53, 60)), numbers(g, "k", DIMS(3, 101, 60)),
			    numbers(g, "v", DIMS(3, 101, 60)), NULL,
			    (struct lh_attention){.heads = 3});
}

/* Queries, keys and values are one tensor: its gradient is that of all three. */
static struct lh_tensor *attention_to_itself(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(2, 70, 32));

	return lh_attention(g, x, x, x, NULL, (struct lh_attention){.heads = 2});
}

static struct lh_tensor *classes_large(struct lh_graph *g)
{
	return lh_scale(g, "gamma", numbers(g, "x", DIMS(64, 5003)), 3);
}

static struct lh_tensor *factorization_large(struct lh_graph *g)
{
	struct lh_tensor *x = numbers(g, "x", DIMS(300, 26, 19));
	struct lh_tensor *xs[] = {lh_factorization(g, x), lh_reshape(g, x, DIMS(300, 26 * 19))};

	return lh_concat(g, xs, 2);
}

/* Whether every number is one of own loops, the same for any number of threads. */
struct large_case {
	struct lh_layer_case c;
	bool is_own;
};

/* clang-format off */
static const struct large_case large_cases[] = {
	{{"conv_64", conv_64, false}, false},
	{{"conv_one_sample", conv_one_sample, false}, false},
	{{"depthwise_7", depthwise_7, false}, false},
	{{"depthwise_3_strided", depthwise_3_strided, false}, false},
	{{"depthwise_5", depthwise_5, false}, false},
	{{"depthwise_tiny", depthwise_tiny, false}, false},
	{{"fc", fc, false}, false},
	{{"batch_norm_16", batch_norm_16, false}, true},
	{{"batch_norm_16_evaluating", batch_norm_16, true}, true},
	{{"batch_norm_7", batch_norm_7, false}, true},
	{{"batch_norm_192", batch_norm_192, false}, true},
	{{"batch_norm_one_row", batch_norm_one_row, false}, true},
	{{"layer_norm_768", layer_norm_768, false}, true},
	{{"layer_norm_17", layer_norm_17, false}, true},
	{{"gelu_large", gelu_large, false}, true},
	{{"tanh_large", tanh_large, false}, true},
	{{"add_large", add_large, false}, true},
	{{"add_itself", add_itself, false}, true},
	{{"dropout_large", dropout_large, false}, true},
	{{"dropout_large_evaluating", dropout_large, true}, true},
	{{"pools_large", pools_large, false}, true},
	{{"pool_gaps", pool_gaps, false}, true},
	{{"shortcut_large", shortcut_large, false}, false},
	{{"embedding_large", embedding_large, false}, true},
	{{"fields_large", fields_large, false}, true},
	{{"attention_128", attention_128, false}, true},
	{{"attention_causal_128", attention_causal_128, false}, true},
	{{"attention_across", attention_across, false}, true},
	{{"attention_to_itself", attention_to_itself, false}, true},
	{{"classes_large", classes_large, false}, true},
	{{"factorization_large", factorization_large, false}, true},
};
/* clang-format on */

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
	for (size_t i = 0; i < N_ELEMENTS(large_cases); i++)
		check_against_reference(&large_cases[i].c);
}

static void test_own_loops_give_the_same_bits_for_any_number_of_threads(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(large_cases); i++) {
		const struct large_case *c = &large_cases[i];
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
	for (size_t i = 0; i < N_ELEMENTS(large_cases); i++) {
		const struct lh_layer_case *c = &large_cases[i].c;
		struct results first, second, other;
		struct lh_case_run run;

		lh_case_open_with(c, &lh_device_cpu, &WITH_THREADS[1], &run);
		read_results(&run, &first);
		read_results(&run, &second);
		lh_case_close(&run);
		other = run_case(c, &lh_device_cpu, &WITH_THREADS[1]);
		compare(c->name, &second, &first, 0);
		compare(c->name, &other, &first, 0);
		drop_results(&first);
		drop_results(&second);
		drop_results(&other);
	}
}

/* ---- portable numbers: another process, since oneDNN has begun to compute in this one ---------
 */

static void run_portably(int to)
{
	const struct lh_device_options options = {
		.n_threads = 1, .compute = LH_F32, .is_portable = true};

	for (size_t i = 0; i < N_ELEMENTS(large_cases); i++) {
		struct results r = run_case(&large_cases[i].c, &lh_device_cpu, &options);

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
	for (size_t i = 0; i < N_ELEMENTS(large_cases); i++) {
		const struct large_case *c = &large_cases[i];
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
	const struct lh_layer_case c = {"embedding", embedding_large, false};
	struct lh_case_run run;
	struct lh_error err = {0};
	int32_t tokens[8 * 128] = {[1000] = 50};

	(void)state;
	lh_case_open(&c, &lh_device_cpu, LH_F32, &run);
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
	const struct lh_layer_case c = {"conv_64", conv_64, false};
	struct results wide = run_case(&c, &lh_device_reference64, &in_double);
	struct results results = run_case(&c, &lh_device_cpu, &WITH_THREADS[2]);
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
	for (size_t i = 0; i < N_ELEMENTS(large_cases); i++) {
		struct lh_error err = {0};
		struct lh_case_run run;
		struct mallinfo2 before, after;

		lh_case_open(&large_cases[i].c, &lh_device_cpu, LH_F32, &run);
		lh_case_forward(&run);
		lh_case_backward(&run);
		before = mallinfo2();
		for (int step = 0; step < 3; step++) {
			assert_int_equal(lh_graph_forward(run.graph, &run.pass, &err), 0);
			assert_int_equal(lh_graph_backward(run.graph, &run.pass, 1, &err), 0);
		}
		after = mallinfo2();
		if (after.uordblks + after.hblkhd != before.uordblks + before.hblkhd)
			fail_msg("%s: %zu bytes became %zu", large_cases[i].c.name,
				 before.uordblks + before.hblkhd, after.uordblks + after.hblkhd);
		lh_case_close(&run);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_portable_numbers_are_close_and_own_loops_the_same),
		cmocka_unit_test(test_every_layer_agrees_with_the_reference),
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
