/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device on a GPU against the reference device. Without CUDA or a GPU it says why and
 * exits with 77; --check does no more than that. tests/gpu/cuda.bats runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LH_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "tests/unit/compress_compare.h"
#include "tests/unit/layer_compare.h"
#include "tests/unit/test.h"
#include "tests/unit/update_compare.h"

enum { EXIT_SKIPPED = 77 };

/*
 * Of the norm. fp32: sums in float, in another order than the reference's in double; cuDNN may
 * choose Winograd's or FFT's sums, which lose a digit. The 16-bit types round what every layer
 * hands on, with a relative error of up to 2^-11 (fp16) or 2^-8 (bf16), and the cases chain up to
 * five layers; cuDNN rounds weights' gradients, too.
 */
static const double TOLERANCE_F32 = 1e-4;
static const double TOLERANCE_F16 = 3e-3;
static const double TOLERANCE_BF16 = 2e-2;

static void compare_all(enum lh_dtype compute, double tolerance)
{
	const struct lh_layer_case *const lists[] = {lh_layer_cases, lh_wide_cases};
	double worst = 0;

	for (size_t i = 0; i < N_ELEMENTS(lists); i++)
		for (const struct lh_layer_case *c = lists[i]; c->name; c++)
			lh_case_compare(c, lh_device_find("cuda"), compute, tolerance, &worst);
	print_message("# %s: at most %.3g apart\n", lh_dtype_name(compute), worst);
}

static void test_fp32_agrees_with_the_reference(void **state)
{
	(void)state;
	compare_all(LH_F32, TOLERANCE_F32);
}

static void test_fp16_agrees_with_the_reference(void **state)
{
	(void)state;
	compare_all(LH_F16, TOLERANCE_F16);
}

static void test_bf16_agrees_with_the_reference(void **state)
{
	struct lh_device_options options = {.compute = LH_BF16};
	struct lh_device *device;
	struct lh_error err = {0};

	(void)state;
	if (lh_device_open("cuda", &options, &device, &err)) {
		print_message("# %s\n", err.message);
		skip();
	}
	device->ops->close(device);
	compare_all(LH_BF16, TOLERANCE_BF16);
}

static void test_the_first_of_equal_numbers_is_the_largest(void **state)
{
	(void)state;
	lh_ties_compare(lh_device_find("cuda"), LH_F32);
	lh_ties_compare(lh_device_find("cuda"), LH_F16);
}

/* Four steps, each with a few roundings of 6e-8. */
static void test_steps_of_optimizers_agree_with_the_reference(void **state)
{
	(void)state;
	lh_update_compare(lh_device_find("cuda"), LH_F16, 5e-7);
}

#ifdef LH_HAVE_CUDA
static void test_codecs_give_the_references_bits(void **state)
{
	(void)state;
	lh_codecs_compare(lh_device_find("cuda"));
}

static void test_mstopk_chooses_the_largest(void **state)
{
	(void)state;
	lh_mstopk_compare(lh_device_find("cuda"));
}
#endif

/* The flat vector of gradients after a pass. */
static float *run_once(const struct lh_layer_case *c, int64_t *ret_n)
{
	struct lh_error err = {0};
	struct lh_case_run run;
	float *gradients;

	lh_case_open(c, lh_device_find("cuda"), LH_F16, &run);
	lh_case_forward(&run);
	lh_case_backward(&run);
	*ret_n = lh_graph_n_parameters(run.graph);
	gradients = calloc((size_t)*ret_n + 1, sizeof(*gradients));
	assert_non_null(gradients);
	assert_int_equal(run.device->ops->read(run.device, lh_graph_gradients(run.graph), LH_F32,
					       gradients, *ret_n, &err),
			 0);
	lh_case_close(&run);
	return gradients;
}

static void test_gradients_are_the_same_in_every_run(void **state)
{
	const struct lh_layer_case *const lists[] = {lh_layer_cases, lh_wide_cases};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
		for (const struct lh_layer_case *c = lists[i]; c->name; c++) {
			int64_t n;
			float *first = run_once(c, &n), *second = run_once(c, &n);

			if (memcmp(first, second, (size_t)n * sizeof(*first)) != 0)
				fail_msg("%s: two runs differ", c->name);
			free(first);
			free(second);
		}
	}
}

static size_t unused_bytes(void)
{
	size_t unused = 0;
#ifdef LH_HAVE_CUDA
	size_t all;

	assert_int_equal(cudaMemGetInfo(&unused, &all), cudaSuccess);
#endif
	return unused;
}

static void test_steps_after_the_first_take_no_memory(void **state)
{
	(void)state;
	for (const struct lh_layer_case *c = lh_layer_cases; c->name; c++) {
		struct lh_case_run run;
		size_t unused;

		lh_case_open(c, lh_device_find("cuda"), LH_F16, &run);
		lh_case_forward(&run);
		lh_case_backward(&run);
		unused = unused_bytes();
		for (int i = 0; i < 5; i++) {
			lh_case_forward(&run);
			lh_case_backward(&run);
		}
		assert_true(unused_bytes() >= unused);
		lh_case_close(&run);
	}
}

static void test_an_index_outside_the_table_is_told_when_the_host_waits(void **state)
{
	struct lh_device_options options = {.compute = LH_F32};
	const int32_t tokens[] = {0, 3, 5, 1};
	struct lh_pass pass = {.is_training = true};
	struct lh_error err = {0};
	struct lh_device *device;
	struct lh_graph *graph;
	struct lh_tensor *x;

	(void)state;
	assert_int_equal(lh_device_open("cuda", &options, &device, &err), 0);
	assert_int_equal(lh_graph_new(device, &graph, &err), 0);
	x = lh_graph_input(graph, "tokens", LH_I32, 1, (const int64_t[]){4});
	lh_embedding(graph, "wte", x, 5, 8, (struct lh_init){.kind = LH_INIT_ONES});
	assert_int_equal(lh_graph_finish(graph, NULL, false, &err), 0);
	assert_int_equal(lh_tensor_write(graph, x, tokens, &err), 0);
	assert_int_equal(lh_graph_forward(graph, &pass, &err), 0);
	assert_int_equal(device->ops->synchronize(device, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "index 5 at 2"));
	assert_int_equal(device->ops->synchronize(device, &err), 0);
	lh_graph_free(graph);
	device->ops->close(device);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fp32_agrees_with_the_reference),
		cmocka_unit_test(test_fp16_agrees_with_the_reference),
		cmocka_unit_test(test_bf16_agrees_with_the_reference),
		cmocka_unit_test(test_the_first_of_equal_numbers_is_the_largest),
		cmocka_unit_test(test_steps_of_optimizers_agree_with_the_reference),
#ifdef LH_HAVE_CUDA
		cmocka_unit_test(test_codecs_give_the_references_bits),
		cmocka_unit_test(test_mstopk_chooses_the_largest),
#endif
		cmocka_unit_test(test_gradients_are_the_same_in_every_run),
		cmocka_unit_test(test_steps_after_the_first_take_no_memory),
		cmocka_unit_test(test_an_index_outside_the_table_is_told_when_the_host_waits),
	};
	struct lh_device_options options = {.compute = LH_F32};
	struct lh_error err = {0};
	struct lh_device *device;

	if (lh_device_open("cuda", &options, &device, &err)) {
		printf("%s\n", err.message);
		return err.code == LH_EENV ? EXIT_SKIPPED : 1;
	}
	device->ops->close(device);
	if (argc > 1 && strcmp(argv[1], "--check") == 0)
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
