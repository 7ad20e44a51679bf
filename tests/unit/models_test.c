/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models on the reference device: published numbers of parameters, gradients against finite
 * differences in double precision, devices in float against double, memory and training.
 */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/yaml.h"
#include "tests/unit/model_runs.h"
#include "tests/unit/test.h"
#include "trainer/optim/optimizer.h"

enum { ELEMENTS_CHECKED = 2, STEPS_TO_LEARN = 30, PATH_SIZE = 4096 };
static const double LEARNING_RATE = 0.01;

/* Over a smaller step, no activation crosses the kink of a ReLU that it crossed over the first, but
 * rounding weighs more. */
static const double STEPS[] = {1e-5, 3e-7};
static const double DIFFERENCES_MAX[] = {1e-8, 1e-7};

/* A gradient this small beside that of all parameters is rounding: attention does not see a bias
 * of keys. */
static const double ZERO_WIDE = 1e-12, ZERO_NARROW = 1e-6;

static struct lh_device *open_reference(void)
{
	struct lh_device_options options = {.compute = LH_F32};
	struct lh_error err = {0};
	struct lh_device *device;

	assert_int_equal(lh_device_reference32.open(&options, &device, &err), 0);
	return device;
}

/* ---- counts --------------------------------------------------------------------------------- */

/* A graph without memory of its own. */
static struct lh_graph *build_dry(struct lh_device *device, const struct lh_model_config *config,
				  int64_t batch)
{
	struct lh_error err = {0};
	struct lh_built_model model;
	struct lh_graph *graph;

	assert_int_equal(lh_graph_new(device, &graph, &err), 0);
	lh_model_build(graph, config, batch, &model);
	if (lh_graph_finish(graph, model.loss, true, &err))
		fail_msg("%s: %s", config->preset->name, err.message);
	return graph;
}

static int64_t count_parameters(const char *name)
{
	struct lh_device *device = open_reference();
	struct lh_error err = {0};
	struct lh_model_config config;
	int64_t n;

	if (lh_model_config_init(name, &config, &err) ||
	    lh_model_count_parameters(device, &config, &n, &err))
		fail_msg("%s", err.message);
	device->ops->close(device);
	return n;
}

static void test_presets_have_the_published_numbers_of_parameters(void **state)
{
	int n_published = 0;

	(void)state;
	for (const struct lh_model_preset *preset = lh_model_presets; preset->name; preset++) {
		if (preset->parameters == 0)
			continue;
		assert_non_null(preset->source);
		if (count_parameters(preset->name) != preset->parameters)
			fail_msg("%s: %ld parameters; published are %ld", preset->name,
				 (long)count_parameters(preset->name), (long)preset->parameters);
		n_published++;
	}
	assert_int_equal(n_published, 15);
	/* 26,013 rows of 1 + 10, then 390-400-400-400-1 */
	assert_int_equal(count_parameters("deepfm"), 763744);
}

static void compare_catalog_file(const char *path)
{
	struct lh_diag diag = {0};
	struct lh_error err = {0};
	struct lh_yaml *root, *name, *parameters;

	if (lh_yaml_read(path, &root, &diag, &err))
		fail_msg("%s", err.message);
	name = lh_yaml_get(root, "model");
	parameters = lh_yaml_get(root, "parameters");
	assert_non_null(name);
	assert_non_null(parameters);
	if (count_parameters(name->text) != atol(parameters->text))
		fail_msg("%s: the engine counts %ld", path, (long)count_parameters(name->text));
	lh_yaml_free(root);
	lh_diag_done(&diag);
}

static void test_the_catalog_has_the_same_counts(void **state)
{
	const char *folder = getenv("LONGHAUL_DATADIR");
	char pattern[PATH_SIZE];
	glob_t found;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/models/*.yaml", folder ? folder : "scenarios");
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		compare_catalog_file(found.gl_pathv[i]);
	assert_true(found.gl_pathc >= 11);
	globfree(&found);
}

/* ---- gradients ------------------------------------------------------------------------------ */

static double loss_at(struct lh_case_run *run, struct lh_tensor *tensor, double *values, int64_t i,
		      double value)
{
	double old = values[i];
	struct lh_error err = {0};
	struct lh_loss loss;

	values[i] = value;
	lh_case_write(run, tensor, values);
	values[i] = old;
	if (lh_graph_forward(run->graph, &run->pass, &err) ||
	    lh_loss_read(run->graph, run->loss, &loss, &err))
		fail_msg("%s", err.message);
	return loss.mean;
}

static void check_element(const struct lh_model_case *c, struct lh_case_run *run,
			  struct lh_tensor *tensor, double *values, int64_t i, double grad)
{
	double difference = 0;

	for (size_t k = 0; k < N_ELEMENTS(STEPS); k++) {
		double above = loss_at(run, tensor, values, i, values[i] + STEPS[k]);
		double below = loss_at(run, tensor, values, i, values[i] - STEPS[k]);

		difference = (above - below) / (2 * STEPS[k]);
		if (fabs(difference - grad) < DIFFERENCES_MAX[k] * (1 + fabs(grad)))
			return;
	}
	fail_msg("%s, %s[%ld]: gradient %.10g, differences %.10g", c->name, tensor->name, (long)i,
		 grad, difference);
}

static void check_parameter(const struct lh_model_case *c, struct lh_case_run *run,
			    struct lh_tensor *tensor)
{
	double *grad = lh_case_read(run, tensor, LH_GRAD);
	double *values = lh_case_read(run, tensor, LH_DATA);

	for (int k = 0; k < ELEMENTS_CHECKED; k++) {
		int64_t i = (2 * k + 1) * tensor->n / (2 * ELEMENTS_CHECKED);

		check_element(c, run, tensor, values, i, grad[i]);
	}
	lh_case_write(run, tensor, values);
	free(values);
	free(grad);
}

static void test_gradients_are_those_of_finite_differences(void **state)
{
	(void)state;
	for (const struct lh_model_case *c = lh_model_cases; c->name; c++) {
		struct lh_tensor *const *tensors;
		struct lh_case_run run;
		uint32_t n;

		lh_model_case_open(c, &lh_device_reference64, LH_F64, &run);
		lh_model_case_forward(c, &run);
		lh_case_backward(&run);
		tensors = lh_graph_tensors(run.graph, &n);
		for (uint32_t i = 0; i < n; i++)
			if (tensors[i]->role == LH_PARAMETER)
				check_parameter(c, &run, tensors[i]);
		lh_case_close(&run);
	}
}

static double norm_of(const double *values, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += values[i] * values[i];
	return sqrt(sum);
}

static double norm_of_gradients(struct lh_case_run *run)
{
	uint32_t n;
	struct lh_tensor *const *tensors = lh_graph_tensors(run->graph, &n);
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		double *grad, norm;

		if (tensors[i]->role != LH_PARAMETER)
			continue;
		grad = lh_case_read(run, tensors[i], LH_GRAD);
		norm = norm_of(grad, tensors[i]->n);
		sum += norm * norm;
		free(grad);
	}
	return sqrt(sum);
}

static void compare_gradient(const struct lh_model_case *c, struct lh_case_run *narrow,
			     struct lh_case_run *wide, const struct lh_tensor *tensor, double whole)
{
	double *a = lh_case_read(narrow, tensor, LH_GRAD);
	double *b = lh_case_read(wide, lh_graph_find(wide->graph, tensor->name), LH_GRAD);
	bool is_zero = norm_of(b, tensor->n) < ZERO_WIDE * whole;

	if (is_zero ? norm_of(a, tensor->n) > ZERO_NARROW * whole
		    : !(lh_case_distance(a, b, tensor->n) < 1e-5))
		fail_msg("%s, gradient of %s: distance %.3g, norm %.3g", c->name, tensor->name,
			 lh_case_distance(a, b, tensor->n), norm_of(b, tensor->n));
	free(a);
	free(b);
}

static void compare_with_double(const struct lh_model_case *c, const struct lh_device_ops *ops)
{
	struct lh_case_run narrow, wide;
	struct lh_tensor *const *tensors;
	double loss, whole;
	uint32_t n;

	lh_model_case_open(c, ops, LH_F32, &narrow);
	lh_model_case_open(c, &lh_device_reference64, LH_F64, &wide);
	loss = lh_model_case_forward(c, &wide);
	assert_near(lh_model_case_forward(c, &narrow), loss, 1e-5 * loss);
	lh_case_backward(&narrow);
	lh_case_backward(&wide);
	whole = norm_of_gradients(&wide);
	tensors = lh_graph_tensors(narrow.graph, &n);
	for (uint32_t i = 0; i < n; i++)
		if (tensors[i]->role == LH_PARAMETER)
			compare_gradient(c, &narrow, &wide, tensors[i], whole);
	lh_case_close(&narrow);
	lh_case_close(&wide);
}

static void test_float_agrees_with_double(void **state)
{
	(void)state;
	for (const struct lh_model_case *c = lh_model_cases; c->name; c++)
		compare_with_double(c, &lh_device_reference32);
}

static void test_the_cpu_device_agrees_with_double(void **state)
{
	(void)state;
	for (const struct lh_model_case *c = lh_model_cases; c->name; c++)
		compare_with_double(c, &lh_device_cpu);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void check_memory(struct lh_device *device, const struct lh_model_config *config,
			 int64_t batch)
{
	struct lh_graph *graph = build_dry(device, config, batch);
	struct lh_graph_memory memory;

	lh_graph_count_memory(graph, &memory);
	assert_true(memory.arena_bytes >= memory.activations_bytes);
	if ((double)memory.arena_bytes > 1.1 * (double)memory.activations_bytes)
		fail_msg("%s, batches of %ld: an arena of %lu bytes for %lu", config->preset->name,
			 (long)batch, (unsigned long)memory.arena_bytes,
			 (unsigned long)memory.activations_bytes);
	lh_graph_free(graph);
}

static void test_memory_is_within_a_tenth_of_what_must_be_alive(void **state)
{
	static const int64_t batches[] = {1, 2, 5, 32, 256};
	struct lh_device *device = open_reference();
	struct lh_error err = {0};
	struct lh_model_config config;

	(void)state;
	for (const struct lh_model_case *c = lh_model_cases; c->name; c++) {
		assert_int_equal(lh_model_case_config(c, &config, &err), 0);
		check_memory(device, &config, c->batch);
	}
	for (const struct lh_model_preset *preset = lh_model_presets; preset->name; preset++) {
		assert_int_equal(lh_model_config_init(preset->name, &config, &err), 0);
		for (size_t i = 0; i < N_ELEMENTS(batches); i++)
			check_memory(device, &config, batches[i]);
	}
	device->ops->close(device);
}

/* ---- training ------------------------------------------------------------------------------- */

/* The loss after some steps on one batch over that before them. */
static double learn_by_heart(const struct lh_model_case *c, struct lh_case_run *run)
{
	struct lh_optimizer_options options;
	struct lh_optimizer *optimizer;
	struct lh_model_config config;
	struct lh_error err = {0};
	struct lh_loss first, last = {0};
	double norm;

	if (lh_optimizer_options_init("adamw", &options, &err) ||
	    lh_optimizer_new(run->graph, &options, &optimizer, &err) ||
	    lh_model_case_config(c, &config, &err) ||
	    lh_graph_init_parameters(run->graph, 1, &err) ||
	    lh_model_batch_write(run->graph, &config, 1, 0, &err))
		fail_msg("%s: %s", c->name, err.message);
	for (int step = 0; step <= STEPS_TO_LEARN; step++) {
		if (lh_graph_zero_gradients(run->graph, &err) ||
		    lh_graph_forward(run->graph, &run->pass, &err) ||
		    lh_loss_read(run->graph, run->loss, step ? &last : &first, &err) ||
		    lh_graph_backward(run->graph, &run->pass, 1, &err) ||
		    lh_optimizer_step(optimizer, LEARNING_RATE, 1, &norm, &err))
			fail_msg("%s: %s", c->name, err.message);
	}
	lh_optimizer_free(optimizer);
	return last.mean / first.mean;
}

static void test_every_model_learns_a_batch_by_heart(void **state)
{
	(void)state;
	for (const struct lh_model_case *c = lh_model_cases; c->name; c++) {
		struct lh_case_run run;
		double left;

		lh_model_case_open(c, &lh_device_reference32, LH_F32, &run);
		left = learn_by_heart(c, &run);
		if (!(left < 0.1))
			fail_msg("%s: %.3g of the loss is left", c->name, left);
		lh_case_close(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_presets_have_the_published_numbers_of_parameters),
		cmocka_unit_test(test_the_catalog_has_the_same_counts),
		cmocka_unit_test(test_gradients_are_those_of_finite_differences),
		cmocka_unit_test(test_float_agrees_with_double),
		cmocka_unit_test(test_the_cpu_device_agrees_with_double),
		cmocka_unit_test(test_memory_is_within_a_tenth_of_what_must_be_alive),
		cmocka_unit_test(test_every_model_learns_a_batch_by_heart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
