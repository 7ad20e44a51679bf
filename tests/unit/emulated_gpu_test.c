/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device's kernels, run on the CPU (emulated_gpu/), against the reference device. What
 * this cannot show: that cuBLAS and cuDNN are called rightly, speed, and races that depend on more
 * than the order of threads; tests/gpu is for those.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/compress_compare.h"
#include "tests/unit/emulated_gpu/device.h"
#include "tests/unit/layer_compare.h"
#include "tests/unit/test.h"
#include "tests/unit/update_compare.h"

/*
 * Of the norm. fp32 sums in float where the reference sums in double. The 16-bit types round what
 * every layer hands on, with a relative error of up to 2^-11 (fp16) or 2^-8 (bf16), and the cases
 * chain up to five layers.
 */
static const double TOLERANCE_F32 = 1e-5;
static const double TOLERANCE_F16 = 2e-3;
static const double TOLERANCE_BF16 = 1.5e-2;

static void compare_all(const struct lh_layer_case *cases, enum lh_dtype compute, double tolerance)
{
	double worst = 0;

	for (const struct lh_layer_case *c = cases; c->name; c++)
		lh_case_compare(c, &lh_device_emulated_gpu, compute, tolerance, &worst);
	print_message("# %s: at most %.3g apart\n", lh_dtype_name(compute), worst);
}

static void test_fp32_agrees(void **state)
{
	(void)state;
	compare_all(lh_layer_cases, LH_F32, TOLERANCE_F32);
	compare_all(lh_wide_cases, LH_F32, TOLERANCE_F32);
}

static void test_fp16_agrees(void **state)
{
	(void)state;
	compare_all(lh_layer_cases, LH_F16, TOLERANCE_F16);
	compare_all(lh_wide_cases, LH_F16, TOLERANCE_F16);
}

static void test_bf16_agrees(void **state)
{
	(void)state;
	compare_all(lh_layer_cases, LH_BF16, TOLERANCE_BF16);
	compare_all(lh_wide_cases, LH_BF16, TOLERANCE_BF16);
}

static void test_the_first_of_equal_numbers_is_the_largest(void **state)
{
	(void)state;
	lh_ties_compare(&lh_device_emulated_gpu, LH_F32);
	lh_ties_compare(&lh_device_emulated_gpu, LH_F16);
}

/* Four steps, each with a few roundings of 6e-8. */
static void test_steps_of_optimizers_agree(void **state)
{
	(void)state;
	lh_update_compare(&lh_device_emulated_gpu, LH_F32, 5e-7);
}

static void test_codecs_give_the_references_bits(void **state)
{
	(void)state;
	for (int order = LH_ASCENDING; order <= LH_DESCENDING; order++) {
		lh_emulated_order = order;
		lh_codecs_compare(&lh_device_emulated_gpu);
	}
	lh_emulated_order = LH_ASCENDING;
}

static void test_mstopk_chooses_the_largest(void **state)
{
	(void)state;
	for (int order = LH_ASCENDING; order <= LH_DESCENDING; order++) {
		lh_emulated_order = order;
		lh_mstopk_compare(&lh_device_emulated_gpu);
	}
	lh_emulated_order = LH_ASCENDING;
}

/* All gradients of parameters, after a pass with threads in one order. */
static double *run_in_order(const struct lh_layer_case *c, enum lh_dtype compute,
			    enum lh_emulated_order order, int64_t *ret_n)
{
	struct lh_case_run run;
	double *gradients = NULL;
	uint32_t n;
	struct lh_tensor *const *tensors;

	*ret_n = 0;
	lh_emulated_order = order;
	lh_case_open(c, &lh_device_emulated_gpu, compute, &run);
	lh_case_forward(&run);
	lh_case_backward(&run);
	tensors = lh_graph_tensors(run.graph, &n);
	for (uint32_t i = 0; i < n; i++) {
		double *values;

		if (tensors[i]->view_of || tensors[i]->role >= LH_STATE || !tensors[i]->wants_grad)
			continue;
		values = lh_case_read(&run, tensors[i], LH_GRAD);
		gradients =
			realloc(gradients, (size_t)(*ret_n + tensors[i]->n) * sizeof(*gradients));
		assert_non_null(gradients);
		memcpy(gradients + *ret_n, values, (size_t)tensors[i]->n * sizeof(*values));
		*ret_n += tensors[i]->n;
		free(values);
	}
	lh_case_close(&run);
	lh_emulated_order = LH_ASCENDING;
	return gradients;
}

static void check_orders(const struct lh_layer_case *c, enum lh_dtype compute)
{
	const enum lh_emulated_order orders[] = {LH_DESCENDING, LH_WARP_BY_WARP};
	int64_t n, n_other;
	double *ascending = run_in_order(c, compute, LH_ASCENDING, &n);

	for (size_t i = 0; i < N_ELEMENTS(orders); i++) {
		double *other = run_in_order(c, compute, orders[i], &n_other);

		assert_int_equal(n, n_other);
		if (memcmp(ascending, other, (size_t)n * sizeof(*other)) != 0)
			fail_msg("%s in %s depends on the order of threads", c->name,
				 lh_dtype_name(compute));
		free(other);
	}
	free(ascending);
}

static void test_the_order_of_threads_changes_no_bit(void **state)
{
	const struct lh_layer_case *const lists[] = {lh_layer_cases, lh_wide_cases};

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	print_message("# takes minutes with AddressSanitizer, which sees no more than above\n");
	skip();
#endif
	for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
		for (const struct lh_layer_case *c = lists[i]; c->name; c++) {
			check_orders(c, LH_F32);
			check_orders(c, LH_BF16);
		}
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
	assert_int_equal(lh_device_emulated_gpu.open(&options, &device, &err), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fp32_agrees),
		cmocka_unit_test(test_fp16_agrees),
		cmocka_unit_test(test_bf16_agrees),
		cmocka_unit_test(test_the_first_of_equal_numbers_is_the_largest),
		cmocka_unit_test(test_steps_of_optimizers_agree),
		cmocka_unit_test(test_codecs_give_the_references_bits),
		cmocka_unit_test(test_mstopk_chooses_the_largest),
		cmocka_unit_test(test_the_order_of_threads_changes_no_bit),
		cmocka_unit_test(test_an_index_outside_the_table_is_told_when_the_host_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
