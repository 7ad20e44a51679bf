/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference device, oracle of the others: its gradients against finite differences in double
 * precision, its float against its double.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/layer_cases.h"
#include "tests/unit/test.h"

enum { ELEMENTS_CHECKED = 24 };

/* Central differences with this step are wrong by about the step's square and by rounding / step.
 */
static const double STEP = 1e-5;
static const double DIFFERENCE_MAX = 1e-7;

static double loss_at(struct lh_case_run *run, struct lh_tensor *tensor, double *values, int64_t i,
		      double step)
{
	struct lh_error err = {0};
	struct lh_loss loss;
	double old = values[i];

	values[i] = old + step;
	lh_case_write(run, tensor, values);
	values[i] = old;
	if (lh_graph_forward(run->graph, &run->pass, &err) ||
	    lh_loss_read(run->graph, run->loss, &loss, &err))
		fail_msg("%s", err.message);
	return loss.mean;
}

static void check_tensor(const struct lh_layer_case *c, struct lh_case_run *run,
			 struct lh_tensor *tensor, const double *grad)
{
	double *values = lh_case_read(run, tensor, LH_DATA);
	int64_t stride = tensor->n / ELEMENTS_CHECKED + 1;

	for (int64_t i = 0; i < tensor->n; i += stride) {
		double difference = (loss_at(run, tensor, values, i, STEP) -
				     loss_at(run, tensor, values, i, -STEP)) /
				    (2 * STEP);

		if (!(fabs(difference - grad[i]) < DIFFERENCE_MAX))
			fail_msg("%s, %s[%ld]: gradient %.10g, differences %.10g", c->name,
				 tensor->name, (long)i, grad[i], difference);
	}
	lh_case_write(run, tensor, values);
	free(values);
}

/* All gradients are read first: another forward pass overwrites those of inputs. */
static void check_case(const struct lh_layer_case *c)
{
	double *grads[64] = {NULL};
	struct lh_tensor *const *tensors;
	struct lh_case_run run;
	uint32_t n;

	lh_case_open(c, &lh_device_reference64, LH_F64, &run);
	lh_case_forward(&run);
	lh_case_backward(&run);
	tensors = lh_graph_tensors(run.graph, &n);
	assert_true(n <= N_ELEMENTS(grads));
	for (uint32_t i = 0; i < n; i++)
		if (tensors[i]->role < LH_STATE && tensors[i]->wants_grad)
			grads[i] = lh_case_read(&run, tensors[i], LH_GRAD);
	for (uint32_t i = 0; i < n; i++)
		if (grads[i])
			check_tensor(c, &run, tensors[i], grads[i]);
	for (uint32_t i = 0; i < n; i++)
		free(grads[i]);
	lh_case_close(&run);
}

static void test_gradients_are_those_of_finite_differences(void **state)
{
	(void)state;
	for (const struct lh_layer_case *c = lh_layer_cases; c->name; c++)
		check_case(c);
}

static void compare_tensor(const struct lh_layer_case *c, struct lh_case_run *a,
			   struct lh_case_run *b, uint32_t id, enum lh_part part)
{
	uint32_t n;
	const struct lh_tensor *tensor = lh_graph_tensors(a->graph, &n)[id];
	double *x = lh_case_read(a, tensor, part);
	double *y = lh_case_read(b, lh_graph_tensors(b->graph, &n)[id], part);
	double distance = lh_case_distance(x, y, tensor->n);

	if (!(distance < 1e-5))
		fail_msg("%s, %s of %s: distance %.3g", c->name, part ? "gradient" : "data",
			 tensor->name, distance);
	free(x);
	free(y);
}

static void test_float_agrees_with_double(void **state)
{
	(void)state;
	for (const struct lh_layer_case *c = lh_layer_cases; c->name; c++) {
		struct lh_case_run narrow, wide;
		struct lh_tensor *const *tensors;
		uint32_t n;

		lh_case_open(c, &lh_device_reference32, LH_F32, &narrow);
		lh_case_open(c, &lh_device_reference64, LH_F64, &wide);
		assert_true(fabs(lh_case_forward(&narrow) - lh_case_forward(&wide)) < 1e-5);
		lh_case_backward(&narrow);
		lh_case_backward(&wide);
		tensors = lh_graph_tensors(narrow.graph, &n);
		compare_tensor(c, &narrow, &wide, narrow.logits->id, LH_DATA);
		for (uint32_t i = 0; i < n; i++) {
			if (tensors[i]->role == LH_STATE)
				compare_tensor(c, &narrow, &wide, i, LH_DATA);
			else if (tensors[i]->role < LH_STATE && tensors[i]->wants_grad)
				compare_tensor(c, &narrow, &wide, i, LH_GRAD);
		}
		lh_case_close(&narrow);
		lh_case_close(&wide);
	}
}

static void test_gradients_of_parameters_accumulate(void **state)
{
	const struct lh_layer_case *c = &lh_layer_cases[0];
	struct lh_error err = {0};
	struct lh_case_run run;
	struct lh_tensor *weight;
	double *once, *twice;

	(void)state;
	lh_case_open(c, &lh_device_reference64, LH_F64, &run);
	lh_case_forward(&run);
	lh_case_backward(&run);
	weight = lh_graph_find(run.graph, "conv.weight");
	once = lh_case_read(&run, weight, LH_GRAD);
	lh_case_forward(&run);
	assert_int_equal(lh_graph_backward(run.graph, &run.pass, 0.5, &err), 0);
	twice = lh_case_read(&run, weight, LH_GRAD);
	for (int64_t i = 0; i < weight->n; i++)
		assert_true(fabs(twice[i] - 1.5 * once[i]) < 1e-12);
	free(once);
	free(twice);
	lh_case_close(&run);
}

static void test_memory_holds_no_more_than_it_must(void **state)
{
	(void)state;
	for (const struct lh_layer_case *c = lh_layer_cases; c->name; c++) {
		struct lh_graph_memory memory;
		struct lh_case_run run;

		lh_case_open(c, &lh_device_reference32, LH_F32, &run);
		lh_graph_count_memory(run.graph, &memory);
		assert_true(memory.arena_bytes >= memory.activations_bytes);
		if ((double)memory.arena_bytes > 1.25 * (double)memory.activations_bytes)
			fail_msg("%s: an arena of %lu bytes for %lu", c->name,
				 (unsigned long)memory.arena_bytes,
				 (unsigned long)memory.activations_bytes);
		lh_case_close(&run);
	}
}

static void test_mistakes_are_told_at_the_end(void **state)
{
	struct lh_device_options options = {.compute = LH_F32};
	struct lh_error err = {0};
	struct lh_device *device;
	struct lh_graph *graph;
	struct lh_tensor *x;

	(void)state;
	assert_int_equal(lh_device_reference32.open(&options, &device, &err), 0);
	assert_int_equal(lh_graph_new(device, &graph, &err), 0);
	x = lh_graph_input(graph, "x", LH_F32, 2, (const int64_t[]){2, 3});
	x = lh_attention(graph, x, NULL, NULL, NULL, (struct lh_attention){.heads = 2});
	assert_null(x);
	assert_null(lh_activate(graph, x, LH_RELU));
	assert_int_equal(lh_graph_finish(graph, x, false, &err), LH_EINPUT);
	assert_non_null(strstr(err.message, "attention: queries that are not [N, T, C]"));
	lh_graph_free(graph);
	device->ops->close(device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gradients_are_those_of_finite_differences),
		cmocka_unit_test(test_float_agrees_with_double),
		cmocka_unit_test(test_gradients_of_parameters_accumulate),
		cmocka_unit_test(test_memory_holds_no_more_than_it_must),
		cmocka_unit_test(test_mistakes_are_told_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
