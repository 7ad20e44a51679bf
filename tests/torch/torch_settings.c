/* SPDX-License-Identifier: Apache-2.0 */
/* See torch_settings.h. */
#include "tests/torch/torch_settings.h"

#include <string.h>

enum { STAGES = 4 };

/* How a setting becomes an argument of a class. */
enum form {
	NUMBER,
	CHOICE,	    /* the text for no, or the one for yes */
	STAGE_LIST, /* a list of this setting and those of the next stages, up to the first 0 */
	DOUBLED,    /* a list of it, twice it, ... for as many stages as there are */
	TIMES,	    /* a list of it, as often as another setting says */
};

struct argument {
	const char *name;
	enum form form;
	const char *setting;
	const char *no, *yes; /* CHOICE; TIMES: no is the other setting */
};

static const struct argument lenet5[] = {
	{"image", NUMBER, "image", NULL, NULL},
	{"channels", NUMBER, "channels", NULL, NULL},
	{"classes", NUMBER, "classes", NULL, NULL},
	{0},
};
static const struct argument resnet[] = {
	{"block", CHOICE, "bottleneck", "basic", "bottleneck"},
	{"blocks", STAGE_LIST, "stage1", NULL, NULL},
	{"width", NUMBER, "width", NULL, NULL},
	{"inner_ratio", NUMBER, "inner_ratio", NULL, NULL},
	{"stem", CHOICE, "small_stem", "imagenet", "cifar"},
	{"shortcut", CHOICE, "zero_pad", "projection", "zero-pad"},
	{"channels", NUMBER, "channels", NULL, NULL},
	{"classes", NUMBER, "classes", NULL, NULL},
	{0},
};
static const struct argument convnext[] = {
	{"blocks", STAGE_LIST, "stage1", NULL, NULL},
	{"widths", DOUBLED, "width", NULL, NULL},
	{"patch", NUMBER, "patch", NULL, NULL},
	{"layer_scale", NUMBER, "layer_scale", NULL, NULL},
	{"stochastic_depth", NUMBER, "stochastic_depth", NULL, NULL},
	{"channels", NUMBER, "channels", NULL, NULL},
	{"classes", NUMBER, "classes", NULL, NULL},
	{0},
};
static const struct argument text[] = {
	{"vocab", NUMBER, "vocabulary", NULL, NULL}, {"positions", NUMBER, "positions", NULL, NULL},
	{"width", NUMBER, "width", NULL, NULL},	     {"layers", NUMBER, "layers", NULL, NULL},
	{"heads", NUMBER, "heads", NULL, NULL},	     {"inner", NUMBER, "inner", NULL, NULL},
	{"dropout", NUMBER, "dropout", NULL, NULL},  {0},
};
static const struct argument whisper[] = {
	{"vocab", NUMBER, "vocabulary", NULL, NULL},
	{"mels", NUMBER, "mels", NULL, NULL},
	{"frame_positions", NUMBER, "frame_positions", NULL, NULL},
	{"positions", NUMBER, "positions", NULL, NULL},
	{"width", NUMBER, "width", NULL, NULL},
	{"layers", NUMBER, "layers", NULL, NULL},
	{"heads", NUMBER, "heads", NULL, NULL},
	{0},
};
static const struct argument deepfm[] = {
	{"buckets", TIMES, "buckets", "fields", NULL},
	{"numeric", NUMBER, "numbers", NULL, NULL},
	{"embedding", NUMBER, "embedding", NULL, NULL},
	{"mlp", TIMES, "width", "layers", NULL},
	{0},
};

static const struct {
	const char *family;
	const struct argument *arguments;
} families[] = {
	{"lenet5", lenet5}, {"resnet", resnet},	  {"convnext", convnext}, {"roberta", text},
	{"gpt2", text},	    {"whisper", whisper}, {"deepfm", deepfm},
};

/* The blocks of each stage. */
static json_t *list_stages(const struct lh_model_config *config)
{
	static const char *const names[STAGES] = {"stage1", "stage2", "stage3", "stage4"};
	json_t *list = json_array();

	for (int s = 0; s < STAGES && lh_model_size(config, names[s]) > 0; s++)
		json_array_append_new(list, json_integer(lh_model_size(config, names[s])));
	return list;
}

static json_t *list_doubled(const struct lh_model_config *config, int64_t first)
{
	json_t *stages = list_stages(config), *list = json_array();

	for (size_t s = 0; s < json_array_size(stages); s++)
		json_array_append_new(list, json_integer(first << s));
	json_decref(stages);
	return list;
}

static json_t *list_times(int64_t value, int64_t times)
{
	json_t *list = json_array();

	for (int64_t i = 0; i < times; i++)
		json_array_append_new(list, json_integer(value));
	return list;
}

/* An integer where it is one. */
static json_t *number(double value)
{
	return value == (double)(int64_t)value ? json_integer((int64_t)value) : json_real(value);
}

static json_t *convert(const struct lh_model_config *config, const struct argument *argument)
{
	double value = lh_model_setting(config, argument->setting);

	switch (argument->form) {
	case NUMBER:
		break;
	case CHOICE:
		return json_string(value != 0 ? argument->yes : argument->no);
	case STAGE_LIST:
		return list_stages(config);
	case DOUBLED:
		return list_doubled(config, (int64_t)value);
	case TIMES:
		return list_times((int64_t)value, lh_model_size(config, argument->no));
	}
	return number(value);
}

json_t *lh_torch_settings(const struct lh_model_config *config)
{
	json_t *settings = json_object();

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (strcmp(families[i].family, config->preset->family->name) == 0)
			for (const struct argument *a = families[i].arguments; a->name; a++)
				json_object_set_new(settings, a->name, convert(config, a));
	return settings;
}

const char *lh_torch_field(const char *input)
{
	static const char *const fields[][2] = {
		{"targets", "labels"}, {"mel", "frames"}, {"sparse", "ids"}, {"dense", "numeric"}};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strcmp(fields[i][0], input) == 0)
			return fields[i][1];
	return input;
}
