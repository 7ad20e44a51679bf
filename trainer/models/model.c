/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, configuring and building models. See model.h. */
#include "trainer/models/model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/nearest.h"
#include "trainer/models/models_internal.h"

enum { SETTING_TEXT_MAX = 64 };

const char *lh_task_name(enum lh_task task)
{
	static const char *const names[] = {[LH_TASK_IMAGES] = "images",
					    [LH_TASK_TEXT] = "text",
					    [LH_TASK_MASKED_TEXT] = "masked text",
					    [LH_TASK_CTR] = "clicks",
					    [LH_TASK_SPEECH] = "speech"};

	return names[task];
}

const struct lh_model_preset *lh_model_find(const char *name)
{
	for (const struct lh_model_preset *preset = lh_model_presets; preset->name; preset++)
		if (strcmp(preset->name, name) == 0)
			return preset;
	return NULL;
}

static const char *preset_at(const void *context, size_t i)
{
	(void)context;
	return lh_model_presets[i].name;
}

static const char *setting_at(const void *context, size_t i)
{
	return ((const struct lh_model_setting *)context)[i].name;
}

/* The position of a setting of the family in its table, or -1. */
static int find_setting(const struct lh_model_family *family, const char *name)
{
	for (int i = 0; family->settings[i].name; i++)
		if (strcmp(family->settings[i].name, name) == 0)
			return i;
	return -1;
}

int lh_model_config_init(const char *name, struct lh_model_config *ret_config, struct lh_error *err)
{
	const struct lh_model_preset *preset = lh_model_find(name);
	const char *near;

	if (!preset) {
		near = lh_nearest(name, preset_at, NULL);
		return lh_fail(err, LH_EINPUT, 0, "no model is called %s%s%s%s", name,
			       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	}
	*ret_config = (struct lh_model_config){.preset = preset};
	for (int i = 0; preset->family->settings[i].name; i++)
		ret_config->values[i] = preset->family->settings[i].value;
	for (const struct lh_model_value *value = preset->values; value->name; value++)
		ret_config->values[find_setting(preset->family, value->name)] = value->value;
	return 0;
}

int lh_model_config_set(struct lh_model_config *config, const char *text, struct lh_error *err)
{
	const struct lh_model_family *family = config->preset->family;
	const struct lh_model_setting *setting;
	const char *equals = strchr(text, '='), *near;
	char name[SETTING_TEXT_MAX] = "";
	double value;
	char *end;
	int i;

	if (!equals || equals == text || equals - text >= SETTING_TEXT_MAX)
		return lh_fail(err, LH_EINPUT, 0,
			       "\"%.*s\" is no setting; expected NAME=NUMBER, such as %s=%g",
			       SETTING_TEXT_MAX, text, family->settings[0].name,
			       family->settings[0].value);
	memcpy(name, text, (size_t)(equals - text));
	i = find_setting(family, name);
	if (i < 0) {
		near = lh_nearest(name, setting_at, family->settings);
		return lh_fail(err, LH_EINPUT, 0, "%s has no setting %s%s%s%s",
			       config->preset->name, name, near ? "; did you mean " : "",
			       near ? near : "", near ? "?" : "");
	}
	setting = &family->settings[i];
	value = strtod(equals + 1, &end);
	if (end == equals + 1 || *end || !(value >= setting->min && value <= setting->max) ||
	    (setting->is_integer && value != floor(value)))
		return lh_fail(err, LH_EINPUT, 0,
			       "%s=%.*s: expected a %snumber from %.10g to %.10g", name,
			       SETTING_TEXT_MAX, equals + 1, setting->is_integer ? "whole " : "",
			       setting->min, setting->max);
	config->values[i] = value;
	return 0;
}

double lh_model_setting(const struct lh_model_config *config, const char *name)
{
	int i = find_setting(config->preset->family, name);

	assert(i >= 0);
	return config->values[i];
}

int64_t lh_model_size(const struct lh_model_config *config, const char *name)
{
	return (int64_t)lh_model_setting(config, name);
}

void lh_model_build(struct lh_graph *graph, const struct lh_model_config *config, int64_t batch,
		    struct lh_built_model *ret_model)
{
	*ret_model = (struct lh_built_model){.task = config->preset->family->task};
	config->preset->family->build(graph, config, batch, ret_model);
}

int lh_model_count_parameters(struct lh_device *device, const struct lh_model_config *config,
			      int64_t *ret_n, struct lh_error *err)
{
	struct lh_graph *graph;
	struct lh_built_model model;
	int rc = lh_graph_new(device, &graph, err);

	if (rc)
		return rc;
	lh_model_build(graph, config, 1, &model);
	rc = lh_graph_finish(graph, model.loss, true, err);
	if (rc == 0)
		*ret_n = lh_graph_n_parameters(graph);
	lh_graph_free(graph);
	return rc;
}

/* ---- what families share -------------------------------------------------------------------- */

struct lh_init lh_init_fan_in(int64_t fan_in)
{
	return (struct lh_init){.kind = LH_INIT_UNIFORM, .scale = 1 / sqrt((double)fan_in)};
}

struct lh_tensor *lh_model_images(struct lh_graph *graph, const struct lh_model_config *config,
				  int64_t batch)
{
	int64_t image = lh_model_size(config, "image");
	int64_t dims[] = {batch, image, image, lh_model_size(config, "channels")};

	return lh_graph_input(graph, "images", LH_F32, 4, dims);
}

void lh_model_classify(struct lh_graph *graph, int64_t batch, struct lh_tensor *logits,
		       struct lh_built_model *ret_model)
{
	struct lh_tensor *labels = lh_graph_input(graph, "labels", LH_I32, 1, &batch);

	ret_model->logits = logits;
	ret_model->loss = lh_cross_entropy(graph, logits, labels, 0);
}

struct lh_tensor *lh_model_linear_fan_in(struct lh_graph *graph, const char *name,
					 struct lh_tensor *x, int64_t out_features)
{
	struct lh_linear spec = {.out_features = out_features, .has_bias = true};
	struct lh_init init;

	if (!x)
		return NULL;
	init = lh_init_fan_in(x->dims[x->n_dims - 1]);
	return lh_linear(graph, name, x, spec, init, init);
}
