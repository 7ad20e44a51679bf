/* SPDX-License-Identifier: Apache-2.0 */
/* Models' initial values and settings: what they are, what is refused, and what docs/models.md says
 * of them. With --document it prints that file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "tests/unit/model_runs.h"
#include "tests/unit/test.h"

enum { PATH_SIZE = 4096 };

static struct lh_device *open_reference(void)
{
	struct lh_device_options options = {.compute = LH_F32};
	struct lh_error err = {0};
	struct lh_device *device;

	assert_int_equal(lh_device_reference32.open(&options, &device, &err), 0);
	return device;
}

/* ---- initial values ------------------------------------------------------------------------- */

/* Mean and standard deviation of a parameter. */
static void measure(struct lh_case_run *run, const char *name, double *ret_mean, double *ret_std)
{
	struct lh_tensor *tensor = lh_graph_find(run->graph, name);
	double *values, sum = 0, squares = 0;

	assert_non_null(tensor);
	values = lh_case_read(run, tensor, LH_DATA);
	for (int64_t i = 0; i < tensor->n; i++) {
		sum += values[i];
		squares += values[i] * values[i];
	}
	*ret_mean = sum / (double)tensor->n;
	*ret_std = sqrt(squares / (double)tensor->n - *ret_mean * *ret_mean);
	free(values);
}

static void test_initial_values_are_those_of_the_models_authors(void **state)
{
	/* Deviations that the schemes give; a uniform one's is its bound over sqrt(3). */
	static const struct {
		const char *preset, *setting, *parameter;
		double mean, deviation;
	} cases[] = {
		{"lenet5", "image=28", "fc1.weight", 0, 0.05 / 1.7320508},
		{"resnet18", "image=32", "layer4.1.conv2.weight", 0, 0.0208333},
		{"resnet18", "image=32", "layer4.1.bn2.weight", 1, 0},
		{"convnext-tiny", "image=32", "stages.0.0.layer_scale", 1e-6, 0},
		{"gpt-small", "layers=8", "layers.0.mlp.up.weight", 0, 0.02},
		{"gpt-small", "layers=8", "layers.0.mlp.down.weight", 0, 0.005},
		{"gpt-small", "layers=8", "layers.7.attention.output.weight", 0, 0.005},
		{"deepfm", "layers=3", "linear.weight", 0, 0},
		{"deepfm", "layers=3", "embedding.weight", 0, 0.01},
		{"deepfm", "layers=3", "mlp.1.weight", 0, 0.05 / 1.7320508},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_model_case c = {"init", cases[i].preset, {cases[i].setting, NULL}, 1};
		struct lh_error err = {0};
		struct lh_case_run run;
		double mean, deviation;

		lh_model_case_open(&c, &lh_device_reference32, LH_F32, &run);
		assert_int_equal(lh_graph_init_parameters(run.graph, 4, &err), 0);
		measure(&run, cases[i].parameter, &mean, &deviation);
		assert_near(mean, cases[i].mean, 0.03 * cases[i].deviation + 1e-9);
		assert_near(deviation, cases[i].deviation, 0.02 * cases[i].deviation + 1e-9);
		lh_case_close(&run);
	}
}

static void test_frame_positions_begin_as_sinusoids(void **state)
{
	static const struct lh_model_case c = {"sinusoids",
					       "whisper-tiny",
					       {"width=6", "heads=1", "frame_positions=5",
						"frames=10", "vocabulary=9", NULL},
					       1};
	struct lh_error err = {0};
	struct lh_case_run run;
	double *values;

	(void)state;
	lh_model_case_open(&c, &lh_device_reference64, LH_F64, &run);
	assert_int_equal(lh_graph_init_parameters(run.graph, 4, &err), 0);
	values = lh_case_read(&run, lh_graph_find(run.graph, "encoder.position.weight"), LH_DATA);
	for (int t = 0; t < 5; t++) {
		for (int j = 0; j < 3; j++) {
			double angle = t * pow(10000, -j / 2.0);

			assert_near(values[6 * t + j], sin(angle), 1e-6);
			assert_near(values[6 * t + 3 + j], cos(angle), 1e-6);
		}
	}
	free(values);
	lh_case_close(&run);
}

/* ---- settings ------------------------------------------------------------------------------- */

static void check_preset(const struct lh_model_preset *preset)
{
	const struct lh_model_setting *setting = preset->family->settings;
	struct lh_error err = {0};
	struct lh_model_config config;
	char text[128];

	assert_ptr_equal(lh_model_find(preset->name), preset);
	assert_int_equal(lh_model_config_init(preset->name, &config, &err), 0);
	for (int i = 0; setting[i].name; i++) {
		assert_true(i < LH_MODEL_SETTINGS_MAX);
		snprintf(text, sizeof(text), "%s=%.17g", setting[i].name, config.values[i]);
		if (lh_model_config_set(&config, text, &err))
			fail_msg("%s: %s", preset->name, err.message);
		assert_true(lh_model_setting(&config, setting[i].name) == config.values[i]);
	}
	for (const struct lh_model_value *value = preset->values; value->name; value++)
		assert_true(lh_model_setting(&config, value->name) == value->value);
}

static void test_presets_stay_within_their_families_ranges(void **state)
{
	(void)state;
	for (const struct lh_model_preset *preset = lh_model_presets; preset->name; preset++)
		check_preset(preset);
}

static void test_a_setting_changes_what_it_names(void **state)
{
	struct lh_error err = {0};
	struct lh_model_config config;

	(void)state;
	assert_int_equal(lh_model_config_init("resnet18", &config, &err), 0);
	assert_int_equal(lh_model_config_set(&config, "classes=10", &err), 0);
	assert_int_equal(lh_model_size(&config, "classes"), 10);
	assert_int_equal(lh_model_size(&config, "width"), 64);
}

static void test_wrong_settings_are_refused_with_what_would_be_right(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"clases=10", "resnet18 has no setting clases; did you mean classes?"},
		{"xyzzy=1", "resnet18 has no setting xyzzy"},
		{"classes=1", "classes=1: expected a whole number from 2 to 1000000"},
		{"classes=10.5", "classes=10.5: expected a whole number from 2 to 1000000"},
		{"classes=nan", "classes=nan: expected a whole number from 2 to 1000000"},
		{"classes=inf", "classes=inf: expected a whole number from 2 to 1000000"},
		{"classes=", "classes=: expected a whole number from 2 to 1000000"},
		{"classes=10x", "classes=10x: expected a whole number from 2 to 1000000"},
		{"classes", "\"classes\" is no setting; expected NAME=NUMBER, such as image=224"},
		{"=3", "\"=3\" is no setting; expected NAME=NUMBER, such as image=224"},
	};
	struct lh_model_config config, before;

	(void)state;
	assert_int_equal(lh_model_config_init("resnet18", &config, NULL), 0);
	before = config;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_error err = {0};

		assert_int_equal(lh_model_config_set(&config, cases[i].text, &err), LH_EINPUT);
		assert_string_equal(err.message, cases[i].message);
		assert_memory_equal(&config, &before, sizeof(config));
	}
}

static void test_an_unknown_model_is_refused_with_the_nearest(void **state)
{
	struct lh_error err = {0};
	struct lh_model_config config;

	(void)state;
	assert_int_equal(lh_model_config_init("resnet19", &config, &err), LH_EINPUT);
	assert_string_equal(err.message, "no model is called resnet19; did you mean resnet18?");
}

static void test_settings_that_do_not_fit_each_other_are_told(void **state)
{
	static const struct {
		const char *preset, *setting, *message;
	} cases[] = {
		{"lenet5", "image=30", "image=30: expected 28 or 32"},
		{"gpt2", "heads=5", "heads=5 do not divide width=768"},
		{"gpt2", "sequence=1025",
		 "a sequence of 1025; its table of 1024 positions holds at most 1024"},
		{"roberta-base", "sequence=513",
		 "a sequence of 513; its table of 514 positions holds at most 512"},
		{"whisper-tiny", "heads=5", "heads=5 do not divide width=384"},
		{"whisper-tiny", "frames=3001",
		 "a sequence of 1501; its table of 1500 positions holds at most 1500"},
		{"convnext-tiny", "image=8",
		 "downsample.1.1: 1x1 pixels are too few for a kernel of 2x2"},
	};
	struct lh_device *device = open_reference();

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct lh_error err = {0};
		struct lh_model_config config;
		struct lh_built_model model;
		struct lh_graph *graph;

		assert_int_equal(lh_model_config_init(cases[i].preset, &config, &err), 0);
		assert_int_equal(lh_model_config_set(&config, cases[i].setting, &err), 0);
		assert_int_equal(lh_graph_new(device, &graph, &err), 0);
		lh_model_build(graph, &config, 2, &model);
		assert_int_equal(lh_graph_finish(graph, model.loss, true, &err), LH_EINPUT);
		assert_string_equal(err.message, cases[i].message);
		lh_graph_free(graph);
	}
	device->ops->close(device);
}

/* ---- docs/models.md ------------------------------------------------------------------------- */

static char *document(void)
{
	struct lh_device *device = open_reference();
	struct lh_error err = {0};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	if (lh_models_document(device, out, &err))
		fail_msg("%s", err.message);
	fclose(out);
	device->ops->close(device);
	return text;
}

static void test_the_documentation_is_what_the_tables_say(void **state)
{
	const char *source = getenv("srcdir");
	char *written, *text = document(), path[PATH_SIZE];
	struct lh_error err = {0};
	size_t size;

	(void)state;
	snprintf(path, sizeof(path), "%s/docs/models.md", source ? source : ".");
	if (lh_file_read(path, 1 << 20, &written, &size, &err))
		fail_msg("%s", err.message);
	if (strcmp(text, written))
		fail_msg("mend: tests/unit/model_settings_test --document >docs/models.md");
	free(written);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_initial_values_are_those_of_the_models_authors),
		cmocka_unit_test(test_frame_positions_begin_as_sinusoids),
		cmocka_unit_test(test_presets_stay_within_their_families_ranges),
		cmocka_unit_test(test_a_setting_changes_what_it_names),
		cmocka_unit_test(test_wrong_settings_are_refused_with_what_would_be_right),
		cmocka_unit_test(test_an_unknown_model_is_refused_with_the_nearest),
		cmocka_unit_test(test_settings_that_do_not_fit_each_other_are_told),
		cmocka_unit_test(test_the_documentation_is_what_the_tables_say),
	};

	if (argc == 2 && strcmp(argv[1], "--document") == 0) {
		char *text = document();

		fputs(text, stdout);
		free(text);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
