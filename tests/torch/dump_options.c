/* SPDX-License-Identifier: Apache-2.0 */
/* See dump_options.h. */
#include "tests/torch/dump_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/model_cases.h"

enum {
	STEPS_MAX = 100000,
	BATCH_MAX = 65536,
	EPOCHS_MAX = 10000,
	SETS_MAX = 32,
	DEFAULT_BATCH = 8
};

/* clang-format off */
static const char usage[] =
	"usage: dump [OPTION]... MODEL FILE    MODEL: a preset, or one of --list\n"
	"  --list            prints the names of the small models and exits\n"
	"  --device NAME     [reference]\n"
	"  --set NAME=VALUE  a setting of the model, the optimizer (lr=0.01, clip_norm=1 ...) or the\n"
	"                    schedule (schedule=cosine, warmup_steps=3 ...)\n"
	"  --batch N         samples [a small model's own, or 8]\n"
	"  --seed N          of parameters and dropout [1]; batches are always the same\n"
	"  --initial         parameters as training begins with, not random ones that all matter\n"
	"  --steps N         trains from initial parameters; FILE is for compare_steps.py\n"
	"  --optimizer KIND  [sgd]\n"
	"  --epochs N        goes N times through the steps' batches; FILE is for seeds.py\n";
/* clang-format on */

static const double KNOB_MAX = 1e9;

/* What --set may set besides the settings of the model. */
struct knob {
	const char *name;
	size_t at; /* in struct lh_dump_options */
	enum { REAL, FLAG, COUNT, STEPS } kind;
};

#define KNOB(name, field, kind)                                     \
	{                                                           \
		name, offsetof(struct lh_dump_options, field), kind \
	}
static const struct knob knobs[] = {
	KNOB("lr", optimizer.lr, REAL),
	KNOB("momentum", optimizer.momentum, REAL),
	KNOB("nesterov", optimizer.nesterov, FLAG),
	KNOB("beta1", optimizer.beta1, REAL),
	KNOB("beta2", optimizer.beta2, REAL),
	KNOB("eps", optimizer.eps, REAL),
	KNOB("trust", optimizer.trust, REAL),
	KNOB("weight_decay", optimizer.weight_decay, REAL),
	KNOB("clip_norm", optimizer.clip_norm, REAL),
	KNOB("decay_1d", optimizer.decays_all, FLAG),
	KNOB("adapt_1d", optimizer.adapts_all, FLAG),
	KNOB("accumulate", accumulate, COUNT),
	KNOB("warmup_steps", schedule.warmup_steps, STEPS),
	KNOB("total_steps", schedule.total_steps, STEPS),
	KNOB("power", schedule.power, REAL),
};

static const struct knob *find_knob(const char *text, const char *equals)
{
	for (size_t i = 0; equals && i < sizeof(knobs) / sizeof(knobs[0]); i++)
		if (strlen(knobs[i].name) == (size_t)(equals - text) &&
		    strncmp(knobs[i].name, text, (size_t)(equals - text)) == 0)
			return &knobs[i];
	return NULL;
}

/* Sets what text says, of the optimizer, the schedule or the model. */
static int set(struct lh_dump_options *options, const char *text, struct lh_error *err)
{
	const char *equals = strchr(text, '=');
	const struct knob *knob = find_knob(text, equals);
	double value;
	void *at;
	char *end;

	if (equals && strncmp(text, "schedule=", strlen("schedule=")) == 0) {
		options->schedule.kind = equals + 1;
		return 0;
	}
	if (!knob)
		return lh_model_config_set(&options->config, text, err);
	at = (char *)options + knob->at;
	value = strtod(equals + 1, &end);
	if (end == equals + 1 || *end || !(value >= 0 && value <= KNOB_MAX))
		return lh_fail(err, LH_EUSAGE, 0, "%s: expected a number from 0 to %g", text,
			       KNOB_MAX);
	if (knob->kind == REAL)
		*(double *)at = value;
	else if (knob->kind == FLAG)
		*(bool *)at = value != 0;
	else if (knob->kind == COUNT)
		*(int64_t *)at = (int64_t)value;
	else
		*(uint64_t *)at = (uint64_t)value;
	return 0;
}

static json_t *knob_value(const struct lh_dump_options *options, const struct knob *knob)
{
	const void *at = (const char *)options + knob->at;

	switch (knob->kind) {
	case REAL:
		return json_real(*(const double *)at);
	case FLAG:
		return json_boolean(*(const bool *)at);
	case COUNT:
		return json_integer(*(const int64_t *)at);
	case STEPS:
		break;
	}
	return json_integer((json_int_t) * (const uint64_t *)at);
}

/* Whether the PyTorch side has this setting for this kind. */
static bool is_known(const struct lh_dump_options *options, const char *name)
{
	static const char *const of[][2] = {
		{"momentum", "sgd lars"},  {"nesterov", "sgd"},	  {"beta1", "adamw lamb"},
		{"beta2", "adamw lamb"},   {"eps", "adamw lamb"}, {"trust", "lars"},
		{"adapt_1d", "lamb lars"},
	};

	if (strcmp(name, "clip_norm") == 0 && options->optimizer.clip_norm == 0)
		return false;
	if (strcmp(name, "total_steps") == 0 && options->schedule.total_steps == 0)
		return false;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (strcmp(of[i][0], name) == 0)
			return strstr(of[i][1], options->optimizer.kind) != NULL;
	return true;
}

json_t *lh_dump_optimizer(const struct lh_dump_options *options)
{
	json_t *json = json_pack("{s:s, s:s, s:f}", "kind", options->optimizer.kind, "schedule",
				 options->schedule.kind, "end_lr",
				 options->schedule.lr * options->schedule.final_ratio);

	for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++)
		if (is_known(options, knobs[i].name))
			json_object_set_new(json, knobs[i].name, knob_value(options, &knobs[i]));
	return json;
}

static int choose_model(struct lh_dump_options *options, const char *name, struct lh_error *err)
{
	for (const struct lh_model_case *c = lh_model_cases; c->name; c++) {
		if (strcmp(c->name, name))
			continue;
		options->batch = options->batch ? options->batch : c->batch;
		return lh_model_case_config(c, &options->config, err);
	}
	options->batch = options->batch ? options->batch : DEFAULT_BATCH;
	return lh_model_config_init(name, &options->config, err);
}

static int choose_optimizer(struct lh_dump_options *options, const char *kind, struct lh_error *err)
{
	int rc = lh_optimizer_options_init(kind, &options->optimizer, err);

	options->optimizer.decays_all = true;
	options->optimizer.adapts_all = true;
	return rc;
}

static long number(const char *text, long max)
{
	char *end;
	long value = strtol(text, &end, 10);

	return *end || value < 0 || value > max ? -1 : value;
}

/* Options that name no setting; settings go to ret_sets. */
static int read_option(struct lh_dump_options *options, int option, const char *text,
		       struct lh_error *err)
{
	switch (option) {
	case 'l':
		for (const struct lh_model_case *c = lh_model_cases; c->name; c++)
			puts(c->name);
		exit(EXIT_SUCCESS);
	case 'd':
		options->device = lh_device_find(text);
		return options->device ? 0 : lh_fail(err, LH_EUSAGE, 0, "no device %s", text);
	case 'b':
		options->batch = number(text, BATCH_MAX);
		return options->batch > 0 ? 0 : lh_fail(err, LH_EUSAGE, 0, "--batch %s", text);
	case 'n':
		options->steps = number(text, STEPS_MAX);
		options->is_initial = true;
		return options->steps > 0 ? 0 : lh_fail(err, LH_EUSAGE, 0, "--steps %s", text);
	case 'i':
		options->is_initial = true;
		return 0;
	case 'e':
		options->epochs = number(text, EPOCHS_MAX);
		return options->epochs > 0 ? 0 : lh_fail(err, LH_EUSAGE, 0, "--epochs %s", text);
	case 'o':
		return choose_optimizer(options, text, err);
	case 'r':
		options->seed = strtoull(text, NULL, 10);
		return 0;
	default:
		return lh_fail(err, LH_EUSAGE, 0, "%s", usage);
	}
}

static int set_all(struct lh_dump_options *options, char *const *sets, int n_sets,
		   struct lh_error *err)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < n_sets; i++)
		rc = set(options, sets[i], err);
	options->schedule.lr = options->optimizer.lr;
	if (options->steps && rc == 0)
		rc = lh_schedule_check(&options->schedule, err);
	if (rc == 0 && options->accumulate < 1)
		rc = lh_fail(err, LH_EUSAGE, 0, "accumulate: expected 1 or more");
	return rc;
}

int lh_dump_read_options(int argc, char **argv, struct lh_dump_options *ret_options,
			 struct lh_error *err)
{
	struct lh_dump_options *options = ret_options;
	static const struct option longs[] = {
		{"list", no_argument, NULL, 'l'},
		{"initial", no_argument, NULL, 'i'},
		{"device", required_argument, NULL, 'd'},
		{"set", required_argument, NULL, 's'},
		{"batch", required_argument, NULL, 'b'},
		{"seed", required_argument, NULL, 'r'},
		{"steps", required_argument, NULL, 'n'},
		{"optimizer", required_argument, NULL, 'o'},
		{"epochs", required_argument, NULL, 'e'},
		{0},
	};
	char *sets[SETS_MAX];
	int n_sets = 0, option, rc;

	*options = (struct lh_dump_options){
		.device = &lh_device_reference32, .seed = 1, .epochs = 1, .accumulate = 1};
	lh_schedule_init(0.01, &options->schedule);
	rc = choose_optimizer(options, "sgd", err);
	while (rc == 0 && (option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (option == 's' && n_sets < SETS_MAX)
			sets[n_sets++] = optarg;
		else
			rc = read_option(options, option, optarg, err);
	}
	if (rc == 0 && argc - optind != 2)
		rc = lh_fail(err, LH_EUSAGE, 0, "%s", usage);
	if (rc == 0)
		rc = choose_model(options, argv[optind], err);
	if (rc == 0)
		options->path = argv[optind + 1];
	return rc ? rc : set_all(options, sets, n_sets, err);
}
