/* SPDX-License-Identifier: Apache-2.0 */
/* The models as plain data. See catalog.h. */
#include "trainer/learn/catalog.h"

#include "trainer/learn/spec.h"

static const char *const tasks[] = {[LH_TASK_IMAGES] = "images",
				    [LH_TASK_TEXT] = "text",
				    [LH_TASK_MASKED_TEXT] = "masked text",
				    [LH_TASK_CTR] = "clicks",
				    [LH_TASK_SPEECH] = "speech"};

static int describe(const struct lh_model_preset *preset, struct lh_learn_model *ret,
		    struct lh_error *err)
{
	struct lh_model_config config;
	int rc = lh_model_config_init(preset->name, &config, err);

	*ret = (struct lh_learn_model){.name = preset->name,
				       .family = preset->family->name,
				       .doc = preset->doc,
				       .task = tasks[preset->family->task],
				       .source = preset->source};
	return rc ? rc : lh_learn_count_parameters(&config, &ret->parameters, err);
}

bool lh_learn_model_at(size_t i, struct lh_learn_model *ret_model)
{
	if (!lh_model_presets[i].name)
		return false;
	return describe(&lh_model_presets[i], ret_model, NULL) == 0;
}

int lh_learn_model_find(const char *name, struct lh_learn_model *ret_model, struct lh_error *err)
{
	struct lh_model_config config;
	int rc = lh_model_config_init(name, &config, err);

	return rc ? rc : describe(config.preset, ret_model, err);
}

bool lh_learn_setting_at(const char *model, size_t i, struct lh_learn_setting *ret)
{
	const struct lh_model_setting *setting;
	struct lh_model_config config;

	if (lh_model_config_init(model, &config, NULL))
		return false;
	setting = config.preset->family->settings;
	for (size_t k = 0; k < i && setting->name; k++)
		setting++;
	if (!setting->name)
		return false;
	*ret = (struct lh_learn_setting){setting->name, setting->doc,
					 lh_model_setting(&config, setting->name), setting->min,
					 setting->max};
	return true;
}
